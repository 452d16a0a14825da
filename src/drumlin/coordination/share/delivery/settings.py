"""The delivery settings of a share group. Values only."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """
    delivery_count_limit: the number of deliveries of a record before it is archived.
    max_record_locks: the maximum number of offsets in flight.
    lock_duration_s: the time for which a member has a record before others get it.
    may_renew: whether a member may restart its locks (KIP-1222).
    """

    delivery_count_limit: int = 5
    max_record_locks: int = 2000
    lock_duration_s: float = 30.0
    may_renew: bool = True

    @property
    def throttled_from(self) -> int:
        """The delivery count from which records are delivered in smaller and smaller parts.

        A record that makes its consumer fail raises the count of all records delivered with it. So
        it is isolated before the others reach the limit, too.
        """
        return max(2, -(-self.delivery_count_limit // 2))
