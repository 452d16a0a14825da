"""Of a fault that repeats, the first lines are written, then it is counted."""

from __future__ import annotations

import gc
import io
import logging
import sys
import weakref
from pathlib import Path

from drumlin.broker.log_lines.forms import Form, formatter
from drumlin.broker.log_lines.repeats import LINES_MAX, PERIOD_S, CountingHandler


class Said:
    """A log whose lines and time are seen."""

    def __init__(self) -> None:
        self.stream, self.now_s = io.StringIO(), 0.0
        self.handler = CountingHandler(self.stream, lambda: self.now_s)
        self.handler.setFormatter(formatter(Form.TEXT, ""))
        self.log = logging.Logger("drumlin.test")
        self.log.addHandler(self.handler)

    def lines(self) -> list[str]:
        return [each.partition("drumlin.test: ")[2] for each in self.stream.getvalue().splitlines()]


def test_a_fault_of_all_partitions_has_few_lines_and_a_count() -> None:
    said = Said()
    for second in range(int(PERIOD_S)):
        said.now_s = second
        for partition in range(100):
            said.log.warning("t-%d could not be flushed", partition)
    first = [f"t-{number} could not be flushed" for number in range(LINES_MAX)]
    assert said.lines() == first
    said.now_s = PERIOD_S
    said.handler.tell_left_out()
    count = int(PERIOD_S) * 100 - LINES_MAX
    last = f"t-99 could not be flushed (the last of {count} like it that were left out)"
    assert said.lines() == [*first, last]
    assert said.handler.left_out == count
    assert said.handler.lines["WARNING"] == count + LINES_MAX
    said.now_s += PERIOD_S
    said.handler.tell_left_out()
    assert said.lines()[-1] == last, "it is told once"
    said.log.warning("t-%d could not be flushed", 1)
    assert said.lines()[-1] == first[1], "a later fault is told anew"


def test_a_fault_does_not_hide_another() -> None:
    said = Said()
    for number in range(1000):
        said.log.error("the first: %d", number)
    said.log.error("the second")
    assert said.lines()[-1] == "the second"
    said.now_s = PERIOD_S
    said.log.error("the third")
    assert said.lines()[-2:] == [
        "the first: 999 (the last of 980 like it that were left out)",
        "the third",
    ]


def test_what_is_no_fault_is_always_written() -> None:
    said = Said()
    for number in range(1000):
        said.log.info("event %d", number)
    assert len(said.lines()) == 1000


def test_what_became_of_each_log_is_always_written() -> None:
    """Each tells once what it has lost when it is loaded: an operator needs all of them."""
    said = Said()
    loading = said.log.manager.getLogger("drumlin.storage.recovery.losses")
    loading.addHandler(said.handler)
    try:
        for number in range(1000):
            loading.error("t-%d has lost records", number)
    finally:
        loading.removeHandler(said.handler)
    assert len(said.lines()) == 1000


def test_at_the_end_nothing_is_left_untold() -> None:
    said = Said()
    for number in range(LINES_MAX + 3):
        said.log.error("failed: %d", number)
    said.handler.close()
    assert said.lines()[-1] == "failed: 22 (the last of 3 like it that were left out)"


def test_lines_that_are_left_out_hold_no_memory() -> None:
    class Large:
        pass

    said, kept = Said(), list[weakref.ref[Large]]()
    for _ in range(LINES_MAX + 2):
        large = Large()
        kept.append(weakref.ref(large))
        try:
            raise OSError(large)
        except OSError:
            said.log.exception("failed: %s", large)
    del large
    gc.collect()
    assert not any(each() for each in kept)


def test_errors_are_logged_through_it_alone() -> None:
    """The rule holds for all code, as nothing adds a handler of its own."""
    source = Path(sys.modules[CountingHandler.__module__].__file__ or "").parents[2]
    found = [
        path.relative_to(source).as_posix()
        for room in ("broker", "compaction", "coordination", "metadata", "replication", "storage")
        for path in (source / room).rglob("*.py")
        if ".addHandler(" in path.read_text() or "StreamHandler(" in path.read_text()
    ]
    assert found == []
