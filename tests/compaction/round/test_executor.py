"""Threads that help a cleaning: order, bounds, errors, and that nothing is left of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.compaction.round.executor import Executor, OrderedResults, helpers_for
from records.strategies import QUICK

_PATIENCE_S = 30


@pytest.fixture
def executor() -> Iterator[Executor]:
    executor = Executor(2)
    yield executor
    executor.close()
    assert not helpers()


def helpers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cleaner-helper"]


@QUICK
@given(st.lists(st.booleans(), max_size=40), st.integers(0, 3), st.booleans())
def test_steps_come_in_order_and_are_bounded(
    steps: list[bool], helper_count: int, ends_with_task: bool
) -> None:
    executor = Executor(helper_count)
    taken: list[int] = []
    begun: list[int] = []

    def task(number: int) -> Callable[[], int]:
        def run() -> int:
            begun.append(number)
            return number

        return run

    with OrderedResults[int](executor) as line:
        for number, is_task in enumerate(steps):
            coming = line.add_task(task(number)) if is_task else line.add(number)
            taken += coming
            tasks_taken = sum(steps[: len(taken)])
            assert sum(steps[: number + 1]) - tasks_taken <= executor.tasks_max
        taken += line.finish(task(len(steps)) if ends_with_task else None)
    assert taken == list(range(len(steps) + ends_with_task))
    assert sorted(begun) == [n for n, is_task in enumerate(steps) if is_task] + (
        [len(steps)] if ends_with_task else []
    )
    executor.close()
    assert not helpers()


def test_an_error_is_raised_when_its_turn_comes(executor: Executor) -> None:
    def fail() -> int:
        raise ValueError("the second one")

    taken: list[int] = []
    with pytest.raises(ValueError, match="the second one"), OrderedResults[int](executor) as line:
        taken += line.add_task(lambda: 1)
        taken += line.add_task(fail)
        taken += line.add_task(lambda: 3)
        for step in line.finish():
            taken.append(step)
    assert taken == [1]


def test_who_leaves_early_waits_for_what_is_under_way_and_begins_nothing_more(
    executor: Executor,
) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()
    ran: list[int] = []

    def long() -> int:
        begun.set()
        assert go_on.wait(_PATIENCE_S)
        ended.set()
        return 0

    def leave() -> None:
        with OrderedResults[int](Executor(0)) as line:
            list(line.add_task(lambda: ran.append(1) or 1))
        with OrderedResults[int](executor) as line:
            list(line.add_task(long))
            assert begun.wait(_PATIENCE_S)

    thread = threading.Thread(target=leave)
    thread.start()
    assert begun.wait(_PATIENCE_S)
    assert thread.is_alive()
    assert not ended.is_set()
    go_on.set()
    thread.join(_PATIENCE_S)
    assert ended.is_set()
    assert ran == []


def test_no_threads_before_there_is_anything_to_do(executor: Executor) -> None:
    assert not helpers()
    with OrderedResults[int](executor) as line:
        # No thread is waked for a step that is the only one.
        assert list(line.finish(lambda: 1)) == [1]
    assert not helpers()


def test_where_no_thread_can_be_started_the_cleaner_does_all_of_it(
    executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def results(count: int) -> list[int]:
        with OrderedResults[int](executor) as line:
            taken = [each for number in range(count) for each in line.add_task(lambda: number)]  # noqa: B023
            return [*taken, *line.finish()]

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        assert len(results(20)) == 20
        assert not helpers()
    assert len(results(20)) == 20
    assert len(helpers()) == 2


def test_all_cleaners_together_need_no_more_than_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cores in (1, 2, 4, 64):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)))
        for threads in (1, 2, 3, 100):
            helping = helpers_for(threads)
            assert 0 <= helping <= 3
            assert not helping or threads * (helping + 1) <= cores
        assert helpers_for(1) == min(3, cores - 1)
