"""Segments are swapped in the midst of a fetch: records and aborted transactions still agree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.fetches import Fetches
from broker.in_process import running
from drumlin.records.batch.batch import iterate_headers
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.cleaned_segment import CleanedSegmentWriter
from drumlin.storage.replacement.segment_swap import SegmentSwap
from drumlin.wire.messages import parse_response
from storage.samples import from_producer, marker

_READ_COMMITTED = 1


def emptied(log: PartitionLog, replace: Callable[[SegmentSwap], None]) -> None:
    """The first segment gives way to one in which nothing is left."""
    view = log.cleaning_view()
    new = CleanedSegmentWriter(log, 0).finish(0)
    with SegmentSwap(log, view, view.segments[:1], [new]) as swap:
        replace(swap)


def test_what_was_aborted_is_told_of_what_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic(
                "fetched", [[broker.node_id]], {"cleanup.policy": "compact"}
            )
            log, now_ms = broker.partitions.get("fetched", 0).log, broker.clock.wall_ms()
            log.append_as_leader(from_producer(0, 2, is_transactional=True), 0, now_ms)
            log.append_internal(marker(commit=False), 0, now_ms)
            log.roll(now_ms)
            log.append_as_leader(from_producer(2, 2), 0, now_ms)
            aborted_in = log.aborted_in
            calls = []

            def clean_first(*where: Any, may_block: bool) -> Any:
                calls.append(where)
                if len(calls) == 1:
                    emptied(log, broker.logs.swap_segments)
                return aborted_in(*where, may_block=may_block)

            fetches = Fetches(broker)
            frame = fetches.frame(12, 0, isolation_level=_READ_COMMITTED)
            monkeypatch.setattr(log, "aborted_in", clean_first)
            _, response = parse_response("fetch", 12, fetches.now(frame)[4:])
            (answer,) = response.responses[0].partitions
            assert len(calls) == 2
            headers = [header for _, header in iterate_headers(memoryview(answer.records))]
            assert [header.base_offset for header in headers] == [3]
            assert not answer.aborted_transactions

    asyncio.run(run())
