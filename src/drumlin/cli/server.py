"""`drumlin server`: reads the arguments and hands the broker its properties.

Imports nothing but the standard library, the configuration and the broker: see `main.py`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from drumlin.config.errors import ConfigError
from drumlin.config.sources import (
    read_assignments,
    read_environment,
    read_properties_file,
)

_EXIT_CONFIGURATION: Final = 1
_PORT_MAX: Final = 65535
# Of the command line itself; the environment's other DRUMLIN_ variables are configuration.
_OUR_VARIABLES: Final = frozenset({"DRUMLIN_BOOTSTRAP", "DRUMLIN_TRACEBACK"})
_EPILOG: Final = """\
examples:
  drumlin server --data ./data --listen 127.0.0.1:9092
  drumlin server --data /var/lib/drumlin --listen 192.0.2.1:9092
  drumlin server config/server.properties --set log.retention.hours=24 num.partitions=6
  DRUMLIN_LOG_RETENTION_HOURS=24 drumlin server

Configuration keys are Kafka's, with Kafka's defaults and units. The command line goes before
the environment, the environment before the file. Without any, data go to /tmp/kafka-logs
and clients may come from everywhere, to port 9092.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a broker until it is told to stop; the exit code of the process."""
    options = _parser().parse_args(arguments)
    try:
        properties = _properties(options)
    except ConfigError as error:
        print(f"drumlin server: {error}", file=sys.stderr)
        return _EXIT_CONFIGURATION
    from drumlin.broker.process import run

    return run(properties)


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """What the broker is configured with: the file below the environment below the arguments."""
    properties = read_properties_file(options.file) if options.file else {}
    from_environment, unknown = read_environment(os.environ)
    for variable in unknown:
        if variable not in _OUR_VARIABLES:
            print(f"drumlin server: {variable} names no configuration key", file=sys.stderr)
    properties |= from_environment
    if options.data:
        properties.pop("log.dir", None)
        properties["log.dirs"] = str(Path(options.data).absolute())
    if options.listen:
        _, colon, port = options.listen.rpartition(":")
        if not colon or not port.isdecimal() or int(port) > _PORT_MAX:
            raise ConfigError("--listen", options.listen, "must be HOST:PORT, as 127.0.0.1:9092")
        properties["listeners"] = f"PLAINTEXT://{options.listen}"
    return properties | read_assignments(options.set)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="drumlin server",
        description="Run a broker until SIGTERM or Ctrl-C; it says in one line when it is ready.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "file", nargs="?", type=Path, metavar="server.properties", help="a Kafka properties file"
    )
    parser.add_argument("--data", metavar="DIR", help="where the logs are kept (log.dirs)")
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="where clients connect (listeners, without TLS)"
    )
    parser.add_argument(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="KEY=VALUE",
        help="set configuration keys",
    )
    return parser
