"""The options `kafka.security.…`, `kafka.ssl.…` and `kafka.sasl.…` of the source.

They mean what they mean to Spark's Kafka source. Files are read where a connection is made: on the
driver and on each executor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from drumlin.peer.security.security import Security

_PREFIX = "kafka."


def security_of(options: Mapping[str, str]) -> Security | None:
    """How the connections of a query are secured, if they are; what is secret in it does not show.

    Raises:
        SecurityOptionError: an option cannot be; the message names it and not its value.
    """
    from drumlin.peer.security.security import Security

    security = Security.of(options, _PREFIX)
    return None if security.protocol == "PLAINTEXT" else security
