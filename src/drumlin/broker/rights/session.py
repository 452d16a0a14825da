"""A session: for whom the requests of a connection are made."""

from __future__ import annotations

import time
from typing import Final, NamedTuple, TypeAlias

#: The principal of a peer that has not shown who it is, and need not.
ANONYMOUS: Final = "User:ANONYMOUS"
#: The principal of a peer that has to show who it is, and has not yet. It may do nothing.
NOBODY: Final = ""
#: The principal of a broker of this machine (`login/machine_secret.py`). It may do everything, and
#: no login of a user gives a principal of this type.
MACHINE: Final = "Machine:brokers"


#: A principal, and the listener by which it has come.
Owner: TypeAlias = tuple[str, str]


class Session(NamedTuple):
    """The result of letting a peer in. Immutable: a request keeps the one it came with.

    A new login on the same connection (KIP-368) replaces it.
    """

    #: Type and name, as in ACLs: "User:alice".
    principal: str
    #: The address, as in ACLs.
    host: str
    listener: str
    #: Whether it was a delegation token that has logged in.
    is_by_token: bool = False
    #: `time.monotonic()` at which the peer must have logged in again; None: never.
    ends_at_s: float | None = None

    def waiting_s(self, wanted_s: float) -> float:
        """How long a request may wait for news: not beyond the session's end."""
        if self.ends_at_s is None:
            return wanted_s
        return max(min(wanted_s, self.ends_at_s - time.monotonic()), 0.0)

    @property
    def owner(self) -> Owner:
        """The owner of what is kept for the peer's later requests, on whatever connection."""
        return self.principal, self.listener
