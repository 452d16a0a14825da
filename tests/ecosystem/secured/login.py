"""How a program is told to log in: by SCRAM over TLS."""

from __future__ import annotations

from typing import NamedTuple


class Login(NamedTuple):
    """A user, and the file with the authority that the broker's certificate is from."""

    user: str
    password: str
    ca: str
