"""A session: the principal and host in whose name a connection's requests are made."""

from __future__ import annotations

import time
from typing import Final, NamedTuple, TypeAlias

#: The principal of a peer that is not authenticated, and need not be.
ANONYMOUS: Final = "User:ANONYMOUS"
#: The principal of a peer that still has to authenticate. It may do nothing.
NOBODY: Final = ""
#: The principal of a broker of this machine (`login/machine_secret.py`). It may do everything, and
#: no user can log in as a principal of this type.
MACHINE: Final = "Machine:brokers"


#: A principal, and the listener to which it is connected.
Owner: TypeAlias = tuple[str, str]


class Session(NamedTuple):
    """The result of authentication. Immutable: a request keeps the session in which it arrived.

    A new login on the same connection (KIP-368) replaces it.
    """

    #: Type and name, as in ACLs: "User:alice".
    principal: str
    #: The address, as in ACLs.
    host: str
    listener: str
    #: Whether the peer logged in by a delegation token.
    is_by_token: bool = False
    #: `time.monotonic()` at which the peer must have logged in again; None: never.
    ends_at_s: float | None = None

    def waiting_s(self, wanted_s: float) -> float:
        """The time for which a request may wait for news: it ends with the session."""
        if self.ends_at_s is None:
            return wanted_s
        return max(min(wanted_s, self.ends_at_s - time.monotonic()), 0.0)

    @property
    def owner(self) -> Owner:
        """The owner of state that is kept for the peer's later requests, on any connection."""
        return self.principal, self.listener
