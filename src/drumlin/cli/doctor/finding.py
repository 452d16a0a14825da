"""A finding of the doctor, and how bad it is."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

_NAMED_MAX: Final = 3


class Severity(enum.IntEnum):
    """How bad a finding is; the worst one decides the exit code."""

    NOTE = 0  # worth knowing
    WARNING = 1  # goes wrong sooner or later, or when the next thing fails
    ERROR = 2  # goes wrong now


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, why it matters, and what to do about it."""

    severity: Severity
    check: str  # a name for programs, which stays the same
    subject: str  # what it is about: a topic, a broker, a directory
    what: str
    why: str
    remedy: str

    def as_row(self) -> dict[str, Any]:
        return {
            "severity": self.severity.name.lower(),
            "check": self.check,
            "subject": self.subject,
            "what": self.what,
            "why": self.why,
            "remedy": self.remedy,
        }


def some_of(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    found: Sequence[str] = [*names]
    more = len(found) - _NAMED_MAX
    return ", ".join(found[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
