"""Brokers of a cluster that are secured among each other: their settings, and those of clients.

Each broker has a plain listener for its administrator, whom nobody else is, and SECURE, by which
both the other brokers and clients come.
"""

from __future__ import annotations

from dataclasses import dataclass

from rig.servers.certificates import Certificates

LISTENER = "SECURE"
#: The user of the brokers, where they are known by one, and that of clients.
BROKER, CLIENT = "broker", "alice"
_MODULES = "org.apache.kafka.common.security"
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
#: Of users: not their names, so that a password which shows up somewhere is found.
PASSWORDS = {BROKER: "thicket-of-brokers", CLIENT: "meadow-of-alice"}


@dataclass(frozen=True)
class Way:
    """A way to be secured."""

    protocol: str
    mechanism: str = ""

    def __str__(self) -> str:
        return "-".join(filter(None, (self.protocol, self.mechanism)))

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def brokers_principal(self) -> str:
        """Whom the brokers are for each other."""
        return f"User:{BROKER}" if self.mechanism else "User:CN=server"

    @property
    def clients_principal(self) -> str:
        return f"User:{CLIENT}" if self.mechanism else "User:CN=client"


PLAIN = Way("SASL_PLAINTEXT", "PLAIN")
SCRAM = Way("SASL_PLAINTEXT", "SCRAM-SHA-512")
MUTUAL = Way("SSL")
ENCRYPTED = Way("SASL_SSL", "SCRAM-SHA-256")
EVERY_WAY = (PLAIN, SCRAM, MUTUAL, ENCRYPTED)


def brokers_settings(
    way: Way,
    plain_port: int,
    secure_port: int,
    certificates: Certificates | None = None,
    *,
    certificate: str = "server",
    password: str = PASSWORDS[BROKER],
    has_user: bool = True,
    has_right: bool = True,
) -> dict[str, str]:
    """The settings of a broker with these two listeners.

    certificate, password: what it shows other brokers.
    has_user: whether it has a user for that.
    has_right: whether that is a super user here.
    """
    listed = f"PLAINTEXT://127.0.0.1:{plain_port},{LISTENER}://127.0.0.1:{secure_port}"
    supers = ["User:ANONYMOUS", *([way.brokers_principal] if has_user and has_right else [])]
    settings = {
        "listeners": listed,
        "advertised.listeners": listed,
        "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:{way.protocol}",
        "inter.broker.listener.name": LISTENER,
        "authorizer.class.name": _AUTHORIZER,
        "super.users": ";".join(supers),
        "connection.failed.authentication.delay.ms": "10",
    }
    start = f"listener.name.{LISTENER.lower()}."
    if way.mechanism:
        settings["sasl.mechanism.inter.broker.protocol"] = way.mechanism
        settings[f"{start}sasl.enabled.mechanisms"] = way.mechanism
        login = f'username="{BROKER}" password="{password}"' if has_user else ""
        settings[f"{start}{way.mechanism.lower()}.sasl.jaas.config"] = _module(way, login)
    if way.has_tls:
        assert certificates is not None
        settings |= {
            f"{start}ssl.keystore.type": "PEM",
            f"{start}ssl.keystore.location": certificates.path(f"{certificate}.pem"),
            f"{start}ssl.truststore.type": "PEM",
            f"{start}ssl.truststore.location": certificates.path("ca.crt"),
            f"{start}ssl.client.auth": "none" if way.mechanism else "required",
        }
    return settings


def _module(way: Way, login: str) -> str:
    if way.mechanism == "PLAIN":
        users = " ".join(f'user_{name}="{text}"' for name, text in PASSWORDS.items())
        return f"{_MODULES}.plain.PlainLoginModule required {login} {users};"
    return f"{_MODULES}.scram.ScramLoginModule required {login};"


def clients_settings(way: Way, certificates: Certificates | None = None) -> dict[str, str]:
    """The settings of librdkafka for the user of clients."""
    settings = {"security.protocol": way.protocol}
    if way.mechanism:
        login = {"sasl.username": CLIENT, "sasl.password": PASSWORDS[CLIENT]}
        settings |= {"sasl.mechanism": way.mechanism, **login}
    if way.has_tls:
        assert certificates is not None
        settings["ssl.ca.location"] = certificates.path("ca.crt")
        if not way.mechanism:
            settings["ssl.certificate.location"] = certificates.path("client.crt")
            settings["ssl.key.location"] = certificates.path("client.key")
    return settings
