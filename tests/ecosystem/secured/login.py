"""How a program is told to log in: by SCRAM over TLS."""

from __future__ import annotations

import json
from typing import NamedTuple


class Login(NamedTuple):
    """A user, and the file with the authority that the broker's certificate is from."""

    user: str
    password: str
    ca: str

    @property
    def environment(self) -> dict[str, str]:
        """By which `programs/login.py` and `programs/login.cjs` know it."""
        return {"APP_LOGIN": json.dumps(self._asdict())}
