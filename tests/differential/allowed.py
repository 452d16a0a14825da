"""What must differ between Drumlin and Apache Kafka, each with its reason: the whole list."""

from __future__ import annotations

import re
from typing import NamedTuple

from differential.compare import Difference


class Allowed(NamedTuple):
    """Differences in fields whose path matches, in answers to one API (`*`: to any)."""

    api: str
    path: str  # a regular expression for the whole path
    reason: str

    def covers(self, difference: Difference) -> bool:
        if self.api not in ("*", difference.api):
            return False
        return re.fullmatch(self.path, difference.path) is not None


ALLOWED: tuple[Allowed, ...] = ()


def is_allowed(difference: Difference) -> bool:
    """Whether the list says why this difference is there."""
    return any(each.covers(difference) for each in ALLOWED)
