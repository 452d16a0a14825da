"""Durations in ISO 8601, such as P1DT2H30M. Pure."""

from __future__ import annotations

import re
from typing import Final

_NUMBER: Final = r"[-+]?\d+"
_DURATION: Final = re.compile(
    rf"P(?:(?P<days>{_NUMBER})D)?"
    rf"(?:T(?:(?P<hours>{_NUMBER})H)?(?:(?P<minutes>{_NUMBER})M)?"
    rf"(?:(?P<seconds>{_NUMBER}(?:\.\d{{0,9}})?)S)?)?",
    re.IGNORECASE,
)
_SECONDS: Final = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1}


def duration_ms(text: str) -> int:
    """
    Raises:
        ValueError: the text is not a duration.
    """
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groups()):
        raise ValueError(f"{text} is no duration")
    parts = found.groupdict()
    return round(
        sum(float(parts[name] or 0) * seconds * 1000 for name, seconds in _SECONDS.items())
    )
