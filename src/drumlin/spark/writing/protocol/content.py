"""The content of a batch, which its number alone does not identify.

With a checkpoint that was restored from a backup, or copied, a query plans its next batch again. So
a decision records the batch's content, and a batch that is found decided is compared with it. This
module must never treat two batches as the same because their numbers are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final, NamedTuple

from drumlin.records.plain.row_hash import combined

#: Longer end offsets are kept as a digest only.
_TEXT_MAX: Final = 100_000


class Plan(NamedTuple):
    """The extent of a batch, as its query journalled it before the batch began.

    `ends`: the end offsets of all sources, as JSON; "" if unknown. `planned_ms`: when Spark planned
    it. Both are the same for a batch that is repeated from the journal.
    """

    ends: str = ""
    planned_ms: int = -1

    @property
    def digest(self) -> str:
        if not self.ends:
            return ""
        return hashlib.sha256(json.dumps([self.ends, self.planned_ms]).encode()).hexdigest()[:32]

    @property
    def text(self) -> str:
        return self.ends if len(self.ends) <= _TEXT_MAX else ""


NO_PLAN: Final = Plan()


class Content(NamedTuple):
    """A summary of a batch.

    Attributes:
        rows: the number of rows of all its tasks.
        checksum: of all its rows, whatever their order and partitions; 32 hexadecimal digits.
        plan: the digest of its plan; "" if unknown.
    """

    rows: int
    checksum: str
    plan: str = ""

    @classmethod
    def of(cls, parts: Iterable[tuple[int, str]], plan: Plan) -> Content:
        """Combine all tasks' rows and checksums."""
        rows = total = 0
        for count, checksum in parts:
            rows += count
            total = combined(total, int(checksum or "0", 16))
        return cls(rows, f"{total:032x}", plan.digest)

    def has_the_rows_of(self, other: Content) -> bool:
        return (self.rows, self.checksum) == (other.rows, other.checksum)

    def is_of_one_plan_with(self, other: Content) -> bool | None:
        """Whether both have the same plan; None if either plan is unknown."""
        return self.plan == other.plan if self.plan and other.plan else None


def described(content: Content, plan_text: str = "", decided_ms: int = -1) -> str:
    """The text for a batch in a message."""
    rows = f"{content.rows} row{'' if content.rows == 1 else 's'}"
    up_to = f" up to {plan_text}" if plan_text else ""
    at = f" at {datetime.fromtimestamp(decided_ms / 1000, UTC):%F %T} UTC" if decided_ms > 0 else ""
    return f"{rows} (checksum {content.checksum}){up_to}{at}"
