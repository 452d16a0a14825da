"""Authentication and TLS of a ZooKeeper client.

Owns the configuration keys for these. Certificates and keys are PEM files.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from drumlin.config.broker import BrokerConfig

_ENABLE: Final = "zookeeper.ssl.client.enable"
_TRUSTED: Final = "zookeeper.ssl.truststore.location"
_OWN: Final = "zookeeper.ssl.keystore.location"
_OWN_PASSWORD: Final = "zookeeper.ssl.keystore.password"  # noqa: S105 - the name of a key
_CHECKS_HOST: Final = "zookeeper.ssl.endpoint.identification.algorithm"
_VERSIONS: Final = "zookeeper.ssl.enabled.protocols"
#: Used if the key above is not set.
_VERSION: Final = "zookeeper.ssl.protocol"
_DIGEST: Final = "drumlin.zookeeper.digest"
_SET_ACL: Final = "zookeeper.set.acl"


class ZooKeeperAccess(NamedTuple):
    """The settings of a ZooKeeper client; by default connections are neither encrypted nor
    authenticated.

    digest: "user:password" for ZooKeeper's digest scheme.
    sets_acl: whether only that user, or a client with the same certificate, may change new nodes;
        everyone may read them.
    trusted: a file with the CA certificates to trust.
    own: a file with the client certificate and its key, if ZooKeeper requires one.
    checks_host: whether to verify the host name in ZooKeeper's certificate.
    is_tls_1_3: whether TLS 1.3 is the only version.
    """

    digest: str | None = None
    sets_acl: bool = False
    is_encrypted: bool = False
    trusted: str | None = None
    own: str | None = None
    own_password: str | None = None
    checks_host: bool = True
    is_tls_1_3: bool = False

    def options(self) -> dict[str, Any]:
        """The arguments for kazoo's client.

        Raises:
            ValueError: a file cannot be used; the message names its key.
        """
        from kazoo.security import CREATOR_ALL_ACL, READ_ACL_UNSAFE

        options: dict[str, Any] = {}
        if self.digest is not None:
            options["auth_data"] = [("digest", self.digest)]
        if self.sets_acl:
            options["default_acl"] = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
        if self.is_encrypted:
            self.context()  # checked first, as kazoo would fail without the reason
            options |= {"use_ssl": True, "verify_certs": True}
        return options

    def context(self) -> ssl.SSLContext:
        """The settings of TLS, for the next connection. Reads files.

        Raises:
            ValueError: a file cannot be used; the message names its key.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_host
        versions = ssl.TLSVersion
        context.minimum_version = versions.TLSv1_3 if self.is_tls_1_3 else versions.TLSv1_2
        try:
            if self.trusted is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(self.trusted)
        except OSError as error:
            raise ValueError(f"{_TRUSTED}={self.trusted} cannot be used: {error}") from error
        if self.own is not None:
            try:
                # Without a password OpenSSL would ask for one on the terminal.
                context.load_cert_chain(self.own, password=self.own_password or "")
            except OSError as error:
                raise ValueError(f"{_OWN}={self.own} cannot be used: {error}") from error
        return context


def access_of(config: BrokerConfig) -> ZooKeeperAccess:
    """The settings in a broker's configuration."""
    return _access(config.value)


def access_in(properties: Mapping[str, str]) -> ZooKeeperAccess:
    """The settings in a client's properties; other properties are ignored."""

    def value(name: str) -> Any:
        text = properties.get(name)
        if name in (_ENABLE, _SET_ACL):
            return (text or "").strip().lower() == "true"
        return "HTTPS" if name == _CHECKS_HOST and text is None else text or None

    return _access(value)


def _access(value: Any) -> ZooKeeperAccess:
    return ZooKeeperAccess(
        digest=value(_DIGEST),
        sets_acl=bool(value(_SET_ACL)),
        is_encrypted=bool(value(_ENABLE)),
        trusted=value(_TRUSTED),
        own=value(_OWN),
        own_password=value(_OWN_PASSWORD),
        checks_host=bool(value(_CHECKS_HOST)),
        is_tls_1_3="TLSv1.2" not in (value(_VERSIONS) or value(_VERSION) or "TLSv1.2"),
    )
