"""The secret with which the brokers of one machine, `--brokers N`, authenticate each other.

The process that starts the brokers makes it, and gives it to each over an inherited connection: it
is in no file, on no command line, and in no environment. It is gone when they have ended.

Brokers use it at the inter-broker listener with a SASL mechanism of their own, which is SCRAM: a
process that has taken the port of a broker that has ended does not learn the secret. Each broker
has another password, so that process cannot pass the exchange on to another broker either. The
mechanism is not offered to clients, and no user can have the principal.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from typing import Final

from drumlin.broker.login.mechanisms.exchange import Accepted
from drumlin.broker.login.mechanisms.scram import (
    ITERATIONS_MIN,
    Credentials,
    ScramCredential,
    ScramExchange,
)
from drumlin.peer.security.secret import Secret
from drumlin.peer.security.settings import Scram

#: The mechanism's name, instead of SCRAM's.
MECHANISM: Final = "DRUMLIN-MACHINE"
_SCRAM: Final = "SCRAM-SHA-256"
_HASH: Final = "sha256"
#: The user name, which SCRAM requires; nothing depends on it.
_NAME: Final = "broker"


def new_secret() -> str:
    """A secret for the brokers that are started now."""
    return secrets.token_hex(32)


class MachineSecret:
    """The secret in one of the brokers. It is not shown by `repr`."""

    def __init__(self, text: str, node_id: int) -> None:
        """`node_id`: the id of this broker."""
        self._secret = Secret(text)
        salt = secrets.token_bytes(16)
        password = self._password(node_id).encode()
        salted = hashlib.pbkdf2_hmac(_HASH, password, salt, ITERATIONS_MIN)
        self._credential = ScramCredential.of_salted(_SCRAM, salt, salted, ITERATIONS_MIN)

    def login_at(self, node_id: int) -> Scram:
        """The login of this broker at another broker of the machine."""
        return Scram(_NAME, self._password(node_id), _SCRAM, shown_as=MECHANISM)

    def exchange(self) -> MachineExchange:
        """An exchange in which another broker logs in at this one."""
        return MachineExchange(self._credential)

    def _password(self, node_id: int) -> str:
        return hmac.digest(self._secret.reveal().encode(), b"%d" % node_id, _HASH).hex()


class MachineExchange:
    """One login of a broker of this machine."""

    def __init__(self, credential: ScramCredential) -> None:
        credentials = Credentials(lambda *_: credential, lambda *_: None)
        self._scram = ScramExchange(_SCRAM, credentials)

    def take(self, token: bytes) -> bytes | Accepted:
        taken = self._scram.take(token)
        return taken._replace(is_of_machine=True) if isinstance(taken, Accepted) else taken
