"""The options of a query about its cluster: how the client connects, and its timeouts.

The checks that source and sink share are here, too, so that both refuse the same options. The
options `kafka.security.…`, `kafka.ssl.…` and `kafka.sasl.…` mean the same as in Spark's Kafka
source; files are read where connections are made, on the driver and on each executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol, TypeAlias

from drumlin.peer.security.security import Security
from drumlin.spark.options.client_rows import BOOTSTRAP, CLIENT_ROWS, STRICT
from drumlin.spark.options.option import Direction, Refusal
from drumlin.spark.options.option_names import refuse_unknown
from drumlin.spark.options.option_values import OptionError

ClientOption: TypeAlias = "str | int | Security"
#: The arguments of `drumlin.connect`, by name; a tuple, as it is a key of the process's clients.
ClientOptions: TypeAlias = tuple[tuple[str, ClientOption], ...]

#: How long the driver and tasks keep trying by default. In a rolling restart, partitions have no
#: leader for a while, and a task that fails is lost work.
_PATIENCE_MS: Final = 60_000


class OfCluster(Protocol):
    """Options that name a cluster."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def client_options(self) -> ClientOptions: ...


def checked_bootstrap(
    options: Mapping[str, str], direction: Direction, refused: Iterable[Refusal]
) -> str:
    """The bootstrap brokers, after a check for options that contradict a source or a sink.

    Raises:
        OptionError: an option is refused; no brokers are named; or names are unknown, and
            `strictOptions` is set.
    """
    for each in refused:
        if each.name in options:
            raise OptionError(f"option '{each.name}' is not supported: {each.why}")
    bootstrap = BOOTSTRAP.value(options)
    if STRICT.value(options):
        refuse_unknown(options, direction)
    return bootstrap


def client_options(options: Mapping[str, str], direction: Direction) -> ClientOptions:
    """The client's connection options.

    Raises:
        OptionError: an option is invalid.
    """
    values: dict[str, ClientOption] = {}
    for row in CLIENT_ROWS:
        if direction in row.directions and (value := row.find(options)) is not None:
            values[row.keyword] = value
    security = _security_of(options)
    if security is not None:
        values["security"] = security
    if "request_timeout_ms" not in values:  # a timeout that the user has set comes first
        values.setdefault("call_timeout_ms", _PATIENCE_MS)
    return tuple(values.items())


def _security_of(options: Mapping[str, str]) -> Security | None:
    """The security of a query's connections; None for plain text. Its repr hides secrets.

    Raises:
        SecurityOptionError: an option is invalid; the message names it, but not its value.
    """
    security = Security.of(options, "kafka.")
    return None if security.protocol == "PLAINTEXT" else security
