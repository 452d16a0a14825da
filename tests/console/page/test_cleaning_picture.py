"""The picture of a compacted log, beside the files of its segments and what cleanings do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess, Visitor
from console.page.conftest import OpenPage
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.data.compacted_topic import ask_operator, create, produce
from rig.waiting import wait_until

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

#: Topics are cleaned only on request.
_SETTINGS = {"log.cleaner.backoff.ms": "600000", "log.cleaner.min.compaction.lag.ms": "0"}
_PARTS = ("tail_bytes", "head_bytes", "uncleanable_bytes", "active_bytes")


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    with running_server(tmp_path_factory.mktemp("cleaned"), _SETTINGS) as server:
        yield server


@pytest.fixture(scope="module")
def console(
    own_broker: DrumlinServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConsoleProcess]:
    arguments = ("--bootstrap", own_broker.address, "--data", str(own_broker.data))
    with running_console(tmp_path_factory.mktemp("console"), *arguments) as console:
        yield console


@pytest.fixture
def asked(console: ConsoleProcess) -> Visitor:
    visitor = Visitor(console)
    assert visitor.login().status == 200
    return visitor


def _segments(broker: DrumlinServer, topic: str) -> list[int]:
    """The sizes of the first partition's segments."""
    folder: Path = broker.data / f"{topic}-0"
    return [each.stat().st_size for each in sorted(folder.glob("*.log"))]


def _row(visitor: Visitor, topic: str) -> dict[str, Any]:
    (row,) = visitor.get("compaction", topic=topic).json["rows"]
    return dict(row)


def _sizes(row: dict[str, Any]) -> tuple[int, ...]:
    return tuple(row[each] for each in _PARTS)


def _run(broker: DrumlinServer, topic: str, roll: str = "false") -> dict[str, Any]:
    body = f'{{"topic": "{topic}", "roll": {roll}}}'
    code, answer = ask_operator(broker.data, "POST /compaction/run", body)
    assert code == 200, answer
    return dict(answer["results"][0])


def _simulate(visitor: Visitor, topic: str) -> dict[str, Any]:
    (done,) = visitor.post("simulation", {"topic": topic, "partition": 0}).json["results"]
    return dict(done)


def test_the_parts_are_those_of_the_files(own_broker: DrumlinServer, asked: Visitor) -> None:
    topic = "files"
    create(own_broker.address, topic, min_cleanable_dirty_ratio="1")
    produce(own_broker.address, topic)
    *closed, active = _segments(own_broker, topic)
    assert len(closed) > 3
    row = _row(asked, topic)
    assert _sizes(row) == (0, sum(closed), 0, active)
    assert row["dirty_ratio"] == 1.0

    would = _simulate(asked, topic)["cleaning"]
    assert would["bytes_read"] == sum(closed)
    assert _segments(own_broker, topic) == [*closed, active]
    _run(own_broker, topic)
    *cleaned, same = _segments(own_broker, topic)
    assert same == active
    assert sum(closed) - sum(cleaned) == would["bytes_freed"] > 0
    row = _row(asked, topic)
    assert _sizes(row) == (sum(cleaned), 0, 0, active)
    assert row["last_cleaning"]["bytes_freed"] == would["bytes_freed"]

    with drumlin.connect(own_broker.address) as client:
        with client.transaction("holds-up") as transaction, transaction.writer(topic) as writer:
            writer.send(b"undecided", key=b"undecided", partition=0)
            writer.flush()
            produce(own_broker.address, topic, rounds=10, first_round=20)
            *closed, active = _segments(own_broker, topic)
            row = _row(asked, topic)
            assert sum(_sizes(row)) == sum(closed) + active
            assert row["uncleanable_bytes"] > 20_000
            assert row["tail_bytes"] == sum(cleaned)
        row = _row(asked, topic)
        assert row["uncleanable_bytes"] == 0
        *closed, active = _segments(own_broker, topic)
        assert _sizes(row) == (sum(cleaned), sum(closed) - sum(cleaned), 0, active)
        dirty = sum(closed) - sum(cleaned)
        assert row["dirty_ratio"] == pytest.approx(dirty / sum(closed))


def test_tombstones_have_a_horizon(own_broker: DrumlinServer, asked: Visitor) -> None:
    topic, stay_ms = "tombstones", 4_000
    create(
        own_broker.address, topic, min_cleanable_dirty_ratio="1", delete_retention_ms=str(stay_ms)
    )
    produce(own_broker.address, topic, rounds=2)
    with drumlin.connect(own_broker.address) as client, client.writer(topic) as writer:
        for number in range(7):
            writer.send(None, key=f"key-{number}", partition=0)
    before_ms = time.time() * 1000
    _run(own_broker, topic, roll="true")
    row = _row(asked, topic)
    assert row["last_cleaning"]["tombstones_kept"] == 7
    assert before_ms + stay_ms - 100 <= row["delete_horizon_ms"] <= time.time() * 1000 + stay_ms

    def would_drop() -> dict[str, Any] | None:
        done = _simulate(asked, topic)["cleaning"]
        return dict(done) if done and done["expired_tombstones"] else None

    would = wait_until(would_drop, "tombstones to pass their horizon")
    assert time.time() * 1000 >= row["delete_horizon_ms"]
    assert (would["expired_tombstones"], would["tombstones_kept"]) == (7, 0)
    tail_bytes = _row(asked, topic)["tail_bytes"]
    _run(own_broker, topic)
    assert tail_bytes - _row(asked, topic)["tail_bytes"] == would["bytes_freed"]


def _width(found: Locator) -> float:
    box = found.bounding_box()
    assert box is not None
    return box["width"]


def _expect_to_scale(page: Page, rows: list[dict[str, Any]]) -> None:
    """All bars of a topic have one scale, and so have their parts."""
    bars = page.locator(".log")
    expect(bars).to_have_count(len(rows))
    widths = [_width(bars.nth(index)) for index in range(len(rows))]
    largest = max(sum(_sizes(row)) for row in rows)
    per_byte = max(widths) / largest
    for index, row in enumerate(rows):
        pieces = bars.nth(index).locator("i")
        for piece, size in enumerate(_sizes(row)):
            assert abs(_width(pieces.nth(piece)) - size * per_byte) < 2, (index, _PARTS[piece])


def test_it_is_drawn_to_scale(
    own_broker: DrumlinServer, console: ConsoleProcess, asked: Visitor, open_page: OpenPage
) -> None:
    topic = "drawn"
    create(own_broker.address, topic, partitions=2, min_cleanable_dirty_ratio="1")
    produce(own_broker.address, topic)
    _run(own_broker, topic)
    with drumlin.connect(own_broker.address) as client, client.writer(topic) as writer:
        for number in range(300):
            writer.send("x" * 100, key=f"key-{number}", partition=1)
            if number % 50 == 0:  # a batch fits a segment
                writer.flush()
    produce(own_broker.address, topic, rounds=5, first_round=20)
    rows = asked.get("compaction", topic=topic).json["rows"]
    assert rows[0]["tail_bytes"] and rows[0]["head_bytes"] and rows[1]["head_bytes"]
    page = open_page(console, f"#/topic/{topic}/cleaning")
    _expect_to_scale(page, rows)
    ratio = page.locator(".ratio").first
    assert _width(ratio.locator("i")) / _width(ratio) == pytest.approx(
        rows[0]["dirty_ratio"], abs=0.02
    )
    page.get_by_role("button", name="What would the next cleaning free?").first.click()
    freed = page.locator(".freed")
    expect(freed).to_be_visible()
    bytes_freed = _simulate(asked, topic)["cleaning"]["bytes_freed"]
    share = _width(freed) / _width(page.locator(".log").first)
    assert share == pytest.approx(bytes_freed / sum(_sizes(rows[0])), abs=0.01)
    assert Axe().run(page).violations_count == 0
