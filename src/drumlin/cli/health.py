"""`drumlin health`: the exit code by which containers and scripts know whether a server is well."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click

from drumlin.cli.reach.broker_http import BrokerHttp, broker_at, broker_on
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import AsJson, examples

#: What is asked in time: whoever checks health takes silence for an answer.
_ANSWER_S = 10.0


def health(
    data: Annotated[
        Path | None,
        Option("--data", "-d", metavar="DIR", help="A server's data directory, on this machine."),
    ] = None,
    http: Annotated[
        str | None,
        Option("--http", metavar="HOST:PORT", help="... or its drumlin.metrics.listener."),
    ] = None,
    is_ready: Annotated[
        bool, Option("--ready", help="Ask whether clients should be sent to it.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Ask a server whether it is well: the exit code is 0 if it is, 1 if not or if none runs.

    It is well unless all of its log dirs have failed: otherwise a restart could help. With --ready,
    it is ready if it accepts clients and is registered as alive. Of several brokers (--brokers N)
    all have to be.
    """
    path = "/ready" if is_ready else "/health"
    is_well, said = _broker(data, http).state(path, _ANSWER_S)
    if as_json:
        output.show_json(said)
    else:
        print(_sentence(said, is_ready, is_well))
    return 0 if is_well else 1


def _broker(data: Path | None, http: str | None) -> BrokerHttp:
    if (data is None) == (http is None):
        raise click.UsageError("give either --data DIR or --http HOST:PORT")
    if data is None:
        assert http is not None
        try:
            return broker_at(http)
        except ValueError as error:
            raise click.UsageError(f"--http: {error}") from None
    broker = broker_on(data)
    if broker is None:
        raise output.Failure(f"no server runs on {data}")
    return broker


def _sentence(said: dict[str, Any], is_ready: bool, is_well: bool) -> str:
    brokers = said.get("brokers")
    if brokers is not None:
        return "\n".join(
            f"broker {each}: {_sentence(body, is_ready, _is_well(body))}"
            for each, body in sorted(brokers.items(), key=lambda named: int(named[0]))
        )
    if is_well:
        return "ready" if is_ready else "healthy"
    if is_ready:
        return f"not ready: {said.get('because')}"
    return f"not healthy: these log dirs have failed: {', '.join(said.get('failed_log_dirs', ()))}"


def _is_well(body: dict[str, Any]) -> bool:
    return bool(body.get("is_ready", body.get("is_healthy")))


health_command = command(
    health,
    epilog=examples(
        "drumlin health --data /var/lib/drumlin",
        "drumlin health --http 127.0.0.1:9404 --ready",
    ),
)
