"""Files with the settings to connect as a user, including the password, for each family of
clients.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from drumlin.config.properties import decode_properties, encode_properties
from drumlin.peer.security.jaas import parse_jaas
from drumlin.peer.security.secret import Secret
from drumlin.securing.private_files import write_private

#: The file for Java's clients, Kafka's tools, Spark and Drumlin.
PROPERTIES: Final = "client.properties"
#: The file for librdkafka's clients in any language.
JSON: Final = "client.json"
#: The file for kcat, which has librdkafka's settings.
KCAT: Final = "kcat.conf"
CA: Final = "ca.pem"

#: By which they log in.
MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BOOTSTRAP: Final = "bootstrap.servers"


@dataclass(frozen=True)
class Connection:
    """A user's connection settings. `ca`: PEM; in `folder` it is a file as well."""

    bootstrap: str
    user: str
    password: Secret
    ca: str

    def write(self, folder: Path) -> list[str]:
        """Write the files, and return their names.

        Raises:
            OSError: a file cannot be written.
        """
        write_private(folder / CA, self.ca)
        write_private(folder / JSON, _json(self._librdkafkas()) + "\n")
        del_pem = self._librdkafkas() | {"ssl.ca.location": str((folder / CA).absolute())}
        del del_pem["ssl.ca.pem"]
        write_private(folder / KCAT, _lines(del_pem))
        # Written last: if it exists, the others do.
        write_private(folder / PROPERTIES, encode_properties(self._properties()))
        return [JSON, KCAT, PROPERTIES]

    def logins(self, properties: Path) -> dict[Path, str]:
        """The part of each file that has the user and the password, in the order of writing.

        properties: the one for Java's clients, whatever its name; the others are beside it.
        """
        names = ("sasl.username", "sasl.password")
        login = {name: self._librdkafkas()[name] for name in names}
        jaas = {"sasl.jaas.config": self._properties()["sasl.jaas.config"]}
        return {
            properties.with_name(JSON): _json(login).strip("{\n}"),
            properties.with_name(KCAT): _lines(login),
            properties: encode_properties(jaas),
        }

    def _properties(self) -> dict[str, str]:
        password = self.password.reveal().replace("\\", "\\\\").replace('"', '\\"')
        login = f'{_MODULE} required username="{self.user}" password="{password}";'
        return {
            _BOOTSTRAP: self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": login,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": self.ca,
        }

    def _librdkafkas(self) -> dict[str, str]:
        return {
            _BOOTSTRAP: self.bootstrap,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.username": self.user,
            "sasl.password": self.password.reveal(),
            "ssl.ca.pem": self.ca,
        }


def _json(settings: dict[str, str]) -> str:
    return json.dumps(settings, indent=2)


def _lines(settings: dict[str, str]) -> str:
    return "".join(f"{key}={text}\n" for key, text in settings.items())


def read_connection(folder: Path) -> Connection | None:
    """The settings written into the folder; None if they are missing, or were edited.

    Raises:
        OSError: a file cannot be read.
    """
    return connection_in(folder / PROPERTIES)


def connection_in(path: Path) -> Connection | None:
    """The settings in a properties file; None if it is missing, or was edited.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        properties = decode_properties(path.read_bytes())
        options = parse_jaas(properties["sasl.jaas.config"]).options
        return Connection(
            properties[_BOOTSTRAP],
            options["username"],
            Secret(options["password"]),
            properties["ssl.truststore.certificates"],
        )
    except (FileNotFoundError, KeyError, ValueError):
        return None


def with_address(connection: Connection, bootstrap: str, ca: str) -> Connection:
    """The settings of the same user for another address."""
    return replace(connection, bootstrap=bootstrap, ca=ca)
