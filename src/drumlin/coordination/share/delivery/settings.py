"""The delivery settings of a share group. Plain values."""

from __future__ import annotations

from typing import NamedTuple


class Settings(NamedTuple):
    """
    delivery_count_limit: the number of deliveries of a record before it is archived.
    max_record_locks: the maximum number of offsets in flight.
    lock_duration_s: the time for which a member has a record before other members can get it.
    may_renew: whether a member may restart its locks (KIP-1222).
    """

    delivery_count_limit: int = 5
    max_record_locks: int = 2000
    lock_duration_s: float = 30.0
    may_renew: bool = True

    @property
    def throttled_from(self) -> int:
        """The delivery count from which records are delivered in ever smaller parts.

        A record that makes its consumer fail raises the delivery count of all records delivered
        with it. So a bad record is isolated before the others also reach the limit.
        """
        return max(2, -(-self.delivery_count_limit // 2))
