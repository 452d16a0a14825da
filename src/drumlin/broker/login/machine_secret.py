"""The secret by which the brokers of one machine, `--brokers N`, know each other.

The process that starts them makes it, and gives it to each broker over the connection that the
broker inherits: it is in no file, on no command line, and in no environment. It ends with them.

A broker shows it at the listener between brokers by a mechanism of its own, which is SCRAM: nobody
who has taken the port of a broker that has ended learns it. What is shown to one broker says
nothing to another, so whoever has that port cannot pass it on either. The mechanism is not offered
to clients, and no user can have the principal.
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

#: The mechanism's name, in the place of SCRAM's.
MECHANISM: Final = "DRUMLIN-MACHINE"
_SCRAM: Final = "SCRAM-SHA-256"
_HASH: Final = "sha256"
#: SCRAM wants a name, and nothing depends on it.
_NAME: Final = "broker"


def new_secret() -> str:
    """A secret for the brokers that are started now."""
    return secrets.token_hex(32)


class MachineSecret:
    """The secret, as one of the brokers has it. Never shown by accident."""

    def __init__(self, text: str, node_id: int) -> None:
        """`node_id`: of the broker that has it."""
        self._secret = Secret(text)
        salt = secrets.token_bytes(16)
        password = self._password(node_id).encode()
        salted = hashlib.pbkdf2_hmac(_HASH, password, salt, ITERATIONS_MIN)
        self._credential = ScramCredential.of_salted(_SCRAM, salt, salted, ITERATIONS_MIN)

    def login_at(self, node_id: int) -> Scram:
        """The login at another broker of the machine."""
        return Scram(_NAME, self._password(node_id), _SCRAM, shown_as=MECHANISM)

    def exchange(self) -> MachineExchange:
        """The login of another broker here."""
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
