"""The markers of one transaction: in turns, and each partition by itself."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from broker.in_process import running
from drumlin.broker.hosting.markers import write_markers
from drumlin.coordination.transactions.markers import Marker
from drumlin.wire.error_codes import ErrorCode
from rig.time.turn_lengths import single_steps

PARTITIONS = 40


def test_others_have_their_turn_between_two_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    single_steps(monkeypatch)

    async def main() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]] * PARTITIONS, {})
            await broker.hosting.host_all()
            logs = [broker.partitions.get("t", each).log for each in range(PARTITIONS)]
            named = tuple(("t", each) for each in range(PARTITIONS))
            marker = Marker(7, 0, 0, True, (*named, ("t", PARTITIONS)), 0)
            writing = asyncio.ensure_future(write_markers(broker, marker))
            ends: list[int] = []
            while not writing.done():
                await asyncio.sleep(0)
                ends.append(sum(log.log_end_offset for log in logs))
                if ends[-1] == PARTITIONS // 2:  # one that is still to come goes
                    broker.partitions.remove("t", PARTITIONS - 1)
            codes = writing.result()
            gone = {("t", PARTITIONS - 1), ("t", PARTITIONS)}
            assert {key for key, code in codes.items() if code is not ErrorCode.none} == gone
            assert codes["t", PARTITIONS - 1] is ErrorCode.not_leader_or_follower
            assert codes["t", PARTITIONS] is ErrorCode.unknown_topic_or_partition
            assert [log.log_end_offset for log in logs] == [1] * (PARTITIONS - 1) + [0]
            assert {now - before for before, now in itertools.pairwise(ends)} <= {0, 1}

    asyncio.run(main())
