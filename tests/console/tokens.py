"""Tokens without a signature, for the broker that takes them from anybody."""

from __future__ import annotations

import json
import time

from rig.servers.token_signer import encoded

_NOT_SIGNED = '{"alg":"none"}'


def unsigned_token(user: str, lifetime_s: float = 3600, header: str = _NOT_SIGNED) -> str:
    now = int(time.time())
    claims = {"sub": user, "iat": now - 60, "exp": now + int(lifetime_s)}
    return f"{encoded(header.encode())}.{encoded(json.dumps(claims).encode())}."
