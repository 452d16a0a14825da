"""The lag of followers, as their leader knows it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.metrics.replication import standing_of


def broker(start_offset: int, end_offset: int, *fetched: int) -> Any:
    followers = {
        number: SimpleNamespace(log_end_offset=each) for number, each in enumerate(fetched)
    }
    led = SimpleNamespace(
        log_start_offset=start_offset,
        log_end_offset=end_offset,
        isr=SimpleNamespace(followers=followers),
        isr_size=1,
        replica_count=1 + len(fetched),
        is_under_min_isr=False,
        config=SimpleNamespace(min_insync_replicas=1),
    )

    class Partitions(list[Any]):
        followed_count = 0

        def without_log(self) -> set[Any]:
            return set()

    return SimpleNamespace(
        partitions=Partitions([led]),
        metadata=SimpleNamespace(image=SimpleNamespace(topics={})),
        logs=[],
    )


@pytest.mark.parametrize(
    ("fetched", "lag"),
    [
        ((1000, 990), 10),
        ((1000, -1), 100),  # it has not fetched since this broker leads: all that there is
        ((1000, 400), 100),  # the records before have been removed: it cannot lack them
        ((1001, 1000), 0),  # it has records of another leader, and is about to drop them
        ((), 0),
    ],
)
def test_the_lag_of_followers_is_what_they_can_fetch(fetched: tuple[int, ...], lag: int) -> None:
    assert standing_of(broker(900, 1000, *fetched)).lag_max == lag
