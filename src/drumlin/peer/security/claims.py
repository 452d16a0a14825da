"""The claims of a token, if it is a JWT (RFC 7519). Nothing is verified here."""

from __future__ import annotations

import base64
import json
import time
from typing import Any, Final

_SECONDS_MAX: Final = 1e12
_DIGITS_MAX: Final = 12
_SHOWN_MAX: Final = 100


def lifetime_of(token: str) -> float | None:
    """The remaining lifetime of the token in seconds; None if the token does not tell."""
    expires_at = seconds(_part(token, 1).get("exp"))
    return None if expires_at is None else expires_at - time.time()


def subject_of(token: str) -> str | None:
    """The user that the token names, to show it; None if it does not tell."""
    subject = _part(token, 1).get("sub")
    return subject[:_SHOWN_MAX] if isinstance(subject, str) and subject else None


def described(token: str) -> str:
    """The claims that a broker may reject: audience, issuer, key and remaining lifetime.

    Empty if the token has no such claim. The subject is not shown.
    """
    claims = _part(token, 1)
    named = {
        "audience": claims.get("aud"),
        "issuer": claims.get("iss"),
        "key": _part(token, 0).get("kid"),
    }
    said = [
        f"{name} {each[:_SHOWN_MAX]!r}" for name, value in named.items() for each in _texts(value)
    ]
    lifetime_s = lifetime_of(token)
    if lifetime_s is not None:
        left = (
            f"good for {lifetime_s:.0f} s" if lifetime_s > 0 else f"expired {-lifetime_s:.0f} s ago"
        )
        said.append(left)
    return ", ".join(said)


def seconds(value: object) -> float | None:
    """A received value as a number of seconds; None if it is not a plausible number."""
    if isinstance(value, bool | str):  # some endpoints send a string of digits
        is_count = isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS_MAX
        value = int(value) if is_count else None
    if not isinstance(value, int | float) or not abs(value) < _SECONDS_MAX:
        return None
    return float(value)


def _texts(value: object) -> list[str]:
    """The texts in a claim; an audience may be one text or several."""
    several = value if isinstance(value, list) else [value]
    return [each for each in several[:3] if isinstance(each, str)]


def _part(token: str, index: int) -> dict[str, Any]:
    """The header (0) or the claims (1) of a JWT; empty if the token is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[index] + "=" * (-len(parts[index]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
