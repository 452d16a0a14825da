"""Writing of partition states from the event loop, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final

from drumlin.metadata.rules.decisions import Decision
from drumlin.metadata.rules.election_log import BY_CONFIG
from drumlin.metadata.zookeeper.parts import Parts
from drumlin.metadata.zookeeper.session.failures import translated
from drumlin.metadata.zookeeper.states.states import Place, Rewritten, Writer, rewrite_states
from drumlin.wire.error_codes import KafkaError

#: The number of partitions after which other requests get a turn.
_TOGETHER: Final = 1000


async def rewrite_in_parts(
    parts: Parts,
    places: Iterable[Place],
    decide: Decision,
    writer: Callable[[], Writer],
    *,
    since: float | None = None,
    why: str = BY_CONFIG,
) -> Rewritten:
    """See `rewrite_states`; `writer` may raise a `KafkaError`.

    since, why: for elections, see `ElectionCounts.begin`.
    """
    whole, left, elections = Rewritten(), iter(places), parts.elections.begin(since, why)
    noted = elections.noting(decide)
    while some := list(islice(left, _TOGETHER)):
        try:
            part = await translated(parts.commits.run(rewrite_states, some, noted, writer()))
        except KafkaError as error:
            part = Rewritten.refused((each.partition for each in some), error)
        elections.written(part.stored)
        whole.stored.update(part.stored)
        whole.errors.update(part.errors)
        whole.failure = whole.failure or part.failure
        _say_outdated(parts, part)
    return whole


def _say_outdated(parts: Parts, written: Rewritten) -> None:
    for partition, outdated in written.outdated.items():
        topic = parts.image.topic_name(partition.topic_id) or partition.topic_id
        parts.report(
            f"ZooKeeper's state of {topic}-{partition.partition} was older than what this broker "
            f"knew (leader epoch {outdated.leader_epoch}, version {outdated.partition_epoch}), as "
            "if it had been put back from a backup: what was known is written over it, in leader "
            f"epoch {written.stored[partition].leader_epoch}"
        )
