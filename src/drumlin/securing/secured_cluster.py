"""`drumlin cluster up --secure`: makes all files at the first start; later starts use them.

There is one authority for all, a certificate for each broker, and an administrator. All brokers log
in as one user, which gets a new password at each start of the cluster, and is the only one that may
write to ZooKeeper. After a crash at any point, the next start completes what is missing.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from drumlin.config.config_error import ConfigError
from drumlin.config.properties import decode_properties, encode_properties
from drumlin.config.sources import read_environment
from drumlin.peer.security.secret import Secret
from drumlin.securing.authority import read_pem
from drumlin.securing.client_files import CA, Connection, read_connection, with_address
from drumlin.securing.issuing import BROKER, certify
from drumlin.securing.private_files import make_private_folder, write_private
from drumlin.securing.secured_server import (
    ADMIN,
    AUTHORIZER,
    PASSWORD_BYTES,
    PROTOCOL,
    TAKEN,
    how_to_connect,
)
from drumlin.securing.users_in_zookeeper import as_brokers, put_administrator, put_user

#: The brokers' configuration, with their secrets. A cluster with this file is secured.
SETTINGS: Final = "secured.properties"

_BROKERS: Final = "drumlin-brokers"
_MECHANISM: Final = "SCRAM-SHA-512"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
_DIGEST: Final = "drumlin.zookeeper.digest"
_SUPER_USERS: Final = "super.users"
#: Keys that would make it less secure, in addition to those that a secured server refuses.
_TAKEN: Final = (
    *(each for each in TAKEN if each != "zookeeper.connect"),
    _DIGEST,
    "listener.security.protocol.map",
    "zookeeper.set.acl",
    "zookeeper.ssl.client.enable",
)


class PlacedBroker(NamedTuple):
    """A broker of the cluster: its data directory, and its address for clients."""

    data: Path
    address: str

    @property
    def certificate(self) -> Path:
        return self.data / BROKER


def is_secured(folder: Path) -> bool:
    """Whether a cluster was secured before: it must not be started unsecured by mistake."""
    return (folder / SETTINGS).exists()


class SecuredCluster:
    """The security of one cluster, prepared in its folder before any of its processes runs."""

    def __init__(
        self,
        folder: Path,
        bootstrap: str,
        brokers_password: Secret,
        digest: Secret,
        super_users: str,
    ) -> None:
        self._folder = folder
        self._bootstrap = bootstrap
        self._super_users = super_users
        self._brokers_password = brokers_password
        self._digest = digest

    @classmethod
    def prepare(
        cls, folder: Path, brokers: Sequence[PlacedBroker], given: Mapping[str, str]
    ) -> SecuredCluster:
        """Make the missing files in the cluster's folder. All files that this process and its
        children make from now on are private. `given`: the settings for all brokers.

        Raises:
            ConfigError: a setting contradicts the security, or an existing file cannot be used.
            OSError: the files cannot be written.
        """
        from_environment, _ = read_environment(os.environ)
        for source in (given, from_environment):
            _check(source)
        os.umask(0o077)
        make_private_folder(folder, key="--data")
        folder.chmod(0o700)  # ZooKeeper's files have credentials
        known = _known(folder)
        digest = known.get(_DIGEST) or f"{_BROKERS}:{secrets.token_urlsafe(PASSWORD_BYTES)}"
        password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
        others = given.get(_SUPER_USERS, from_environment.get(_SUPER_USERS, "")).strip()
        settings = _settings(folder, password, digest)
        write_private(folder / SETTINGS, encode_properties(settings))
        for each in brokers:
            make_private_folder(each.data, key="--data")
        hosts = {each.certificate: [each.address.rpartition(":")[0]] for each in brokers}
        certify(folder, hosts)
        bootstrap = ",".join(each.address for each in brokers)
        known_files = read_connection(folder)
        if known_files is not None:
            with_address(known_files, bootstrap, read_pem(folder / CA)).write(folder)
        names = [others, f"User:{ADMIN}", f"User:{_BROKERS}"]
        return cls(folder, bootstrap, password, Secret(digest), ";".join(filter(None, names)))

    @property
    def settings(self) -> Path:
        """The file with the configuration that all brokers share, and with secrets."""
        return self._folder / SETTINGS

    def of_broker(self, broker: PlacedBroker, given: Mapping[str, str]) -> dict[str, str]:
        """The additional settings of one broker."""
        return {
            **given,
            _SUPER_USERS: self._super_users,  # takes precedence over the environment
            "listeners": f"{PROTOCOL}://{broker.address}",
            "ssl.keystore.location": str(broker.certificate),
        }

    def put_users(self, zookeeper: str) -> None:
        """Make the brokers' user and the administrator, before a broker runs. Blocks.

        Raises:
            ZooKeeperFailure: they cannot be made.
        """
        with as_brokers(zookeeper, self._digest) as session:
            put_user(session, _BROKERS, self._brokers_password)
            put_administrator(session, ADMIN, self.administrators_password)

    def administrators_password(self) -> Secret:
        """The administrator's password, stored in its files before the user is created."""
        known = read_connection(self._folder)
        if known is None or known.user != ADMIN:
            password = Secret(secrets.token_urlsafe(PASSWORD_BYTES))
            ca = read_pem(self._folder / CA)
            known = Connection(self._bootstrap, ADMIN, password, ca)
            known.write(self._folder)
        return known.password

    def how_to_connect(self) -> str:
        """Instructions for the operator; empty if the administrator's files are gone."""
        has_files = read_connection(self._folder) is not None
        return how_to_connect(self._folder) if has_files else ""


def _check(given: Mapping[str, str]) -> None:
    for key in _TAKEN:
        if given.get(key, "").strip():
            allowed = "must not be set for a secured cluster, which sets it"
            shown = "..." if key == _DIGEST or "password" in key else given[key]
            raise ConfigError(key, shown, allowed)


def _known(folder: Path) -> dict[str, str]:
    path = folder / SETTINGS
    try:
        return decode_properties(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(str(path), None, f"cannot be read: {error}") from None


def _settings(folder: Path, password: Secret, digest: str) -> dict[str, str]:
    login = f'{_MODULE} required username="{_BROKERS}" password="{password.reveal()}";'
    return {
        "authorizer.class.name": AUTHORIZER,
        _DIGEST: digest,
        f"listener.name.{PROTOCOL.lower()}.{_MECHANISM.lower()}.sasl.jaas.config": login,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": _MECHANISM,
        "security.inter.broker.protocol": PROTOCOL,
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / CA),
        "zookeeper.set.acl": "true",
    }
