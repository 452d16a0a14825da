"""Checks of transactions: those that hold up readers and will not end by themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from drumlin.cli.doctor.facts import ClusterFacts
from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.terminal.output import counted, human_duration

#: A coordinator aborts what is late within some seconds.
_LATE_S: Final = 60.0


def hanging(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether partitions have open transactions that no coordinator knows."""
    for each in cluster.hanging:
        yield Finding(
            Severity.ERROR,
            "transaction-hanging",
            f"{each.topic}-{each.partition}",
            f"a transaction of producer {each.producer_id} is open that no coordinator knows",
            f"readers of committed records wait before {counted(each.held_up, 'record')}, and the "
            "log is neither cleaned nor shortened there",
            f"drumlin transactions abort --topic {each.topic} --partition {each.partition} "
            f"--producer-id {each.producer_id}",
        )


def late(cluster: ClusterFacts) -> Iterator[Finding]:
    """Whether transactions are open for longer than their time-out."""
    for each in cluster.open_transactions:
        if each.open_s > each.timeout_s + _LATE_S:
            yield Finding(
                Severity.ERROR,
                "transaction-late",
                each.transactional_id,
                f"its transaction is open for {human_duration(round(each.open_s * 1000))}, with a "
                f"time-out of {human_duration(round(each.timeout_s * 1000))}",
                "its coordinator should have aborted it; readers of committed records wait",
                f"drumlin transactions describe {each.transactional_id}, then "
                f"drumlin transactions abort {each.transactional_id}",
            )
