"""Security of connections to a cluster: the values for `drumlin.connect(security=...)`.

security = Security(tls=Tls(ca="ca.pem"), login=Scram("user", "password"))

`read_properties` reads the files that Kafka's own tools take as `--command-config`.
"""

from collections.abc import Mapping
from pathlib import Path

from drumlin.config.properties import decode_properties
from drumlin.peer.security.properties import PREFIXES
from drumlin.peer.security.security import Security
from drumlin.peer.security.settings import OAuthBearer, Plain, Scram, SecurityOptionError, Tls

__all__ = [
    "OAuthBearer",
    "Plain",
    "Scram",
    "Security",
    "SecurityOptionError",
    "Tls",
    "read_properties",
]


def read_properties(path: Path | str) -> Mapping[str, str]:
    """The security properties in a file for Kafka's clients, for `connect(security=...)`.

    Spark takes each property as an option, with the prefix `kafka.`.

    Args:
        path: a Java properties file, as Kafka's tools take it as `--command-config`.

    Returns:
        The properties that begin with `security.`, `ssl.` or `sasl.`; others are left out.

    Raises:
        OSError: the file cannot be read.
        SecurityOptionError: one of the properties is unknown or not valid; or the file is not
            UTF-8, or has a broken `\\uXXXX` escape. The message names the file, and the property
            or the line.
    """
    try:
        found = decode_properties(Path(path).read_bytes())
        properties = {name: text for name, text in found.items() if name.startswith(PREFIXES)}
        Security.of(properties)
    except ValueError as error:
        raise SecurityOptionError(f"{path}: {error}") from None
    return properties
