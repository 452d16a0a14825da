"""The options `kafka.security.…`, `kafka.ssl.…` and `kafka.sasl.…` of the source.

These options mean the same as in Spark's Kafka source. Files are read where connections are made:
on the driver and on each executor.
"""

from __future__ import annotations

from collections.abc import Mapping

from drumlin.peer.security.security import Security

_PREFIX = "kafka."


def security_of(options: Mapping[str, str]) -> Security | None:
    """The security of a query's connections; None for plain text. Its repr hides secrets.

    Raises:
        SecurityOptionError: an option is invalid; the message names it, but not its value.
    """
    from drumlin.peer.security.security import Security

    security = Security.of(options, _PREFIX)
    return None if security.protocol == "PLAINTEXT" else security
