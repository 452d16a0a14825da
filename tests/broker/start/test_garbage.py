"""Garbage collection in a broker's process: each test has a process of its own for it."""

from __future__ import annotations

import subprocess
import sys

import pytest

_START = """
import gc, sys
sys.path[:0] = {paths!r}
from drumlin.broker.loop import garbage

looked_at = []

def starting(phase, info):
    if phase == "start" and info["generation"] == 2:
        looked_at.append(sum(len(gc.get_objects(each)) for each in (0, 1, 2)))

collection = garbage.GarbageCollection()
collection.begin()
gc.callbacks.append(starting)
"""


def _run(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _START.format(paths=sys.path) + script],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_a_full_collection_looks_only_at_what_is_new() -> None:
    _run("""
living = [[] for _ in range(500_000)]
assert len(looked_at) > 5
assert max(looked_at) < 8_000, looked_at
""")


def test_the_full_collection_after_one_of_everything_looks_at_no_more() -> None:
    """Python would wait with it until a quarter as much is new as survived the one before."""
    _run("""
living = [[] for _ in range(400_000)]
garbage._BLOCKS_MORE = 0
for _ in range(3):
    collection.look(is_serving=False)
assert max(looked_at) > 400_000, looked_at  # that was the one of everything
looked_at.clear()
more = [[] for _ in range(200_000)]
assert max(looked_at) < 8_000, looked_at
""")


@pytest.mark.parametrize("phase", ["start", "stop"])
def test_what_a_thread_makes_while_others_collect_is_not_looked_at(phase: str) -> None:
    """It continues when Python reports a collection, and does not begin another one."""
    _run(f"""
made, young = [], []

def making(phase, info):
    if phase == "{phase}" and len(made) < 10:
        made.append([[] for _ in range(50_000)])

def counting(phase, info):
    if phase == "start":
        young.append(sum(len(gc.get_objects(each)) for each in (0, 1, 2)))

gc.callbacks.insert(0, making)
gc.callbacks.append(counting)
with garbage.making_many():
    living = [[] for _ in range(100_000)]
    assert len(made) == 10
assert max(young) < 8_000, max(young)
young.clear()
more = [[] for _ in range(100_000)]
assert len(young) > 50
assert max(young) < 8_000, max(young)
""")


@pytest.mark.parametrize("phase", ["start", "stop"])
def test_what_the_loop_makes_while_a_thread_collects_is_not_looked_at(phase: str) -> None:
    """It resumes where Python notifies the thread, and what it makes begins no collection."""
    _run(f"""
import threading

living, young = [], []
may_make, has_made = threading.Event(), threading.Event()

def waiting(phase, info):
    if threading.current_thread() is thread and phase == "{phase}" and not may_make.is_set():
        may_make.set()
        has_made.wait()

def counting(phase, info):
    if phase == "start":
        young.append(sum(len(gc.get_objects(each)) for each in (0, 1, 2)))

gc.callbacks.insert(0, waiting)
gc.callbacks.append(counting)
thread = threading.Thread(target=lambda: [[] for _ in range(10_000)])
thread.start()
may_make.wait()
living += [[] for _ in range(100_000)]
has_made.set()
thread.join()
more = [[] for _ in range(100_000)]
assert len(young) > 50
assert max(young) < 8_000, max(young)
""")


def test_what_python_puts_off_is_not_looked_at_later() -> None:
    """It rests until a quarter of what the last full collection looked at is new."""
    _run("""
own = gc.callbacks.copy()
gc.callbacks.clear()
living = [[] for _ in range(400_000)]
gc.collect()
gc.freeze()
gc.callbacks += own
gc.callbacks.append(lambda phase, _: phase == "start" and young.append(len(gc.get_objects())))
young = []
more = [[] for _ in range(200_000)]
assert len(young) > 50
assert max(young) < 20_000, max(young)
""")


def test_what_was_made_in_one_go_is_not_looked_through() -> None:
    _run("""
long, short = [[]] * 100_000, [[]] * 100
gc.collect()
made = [garbage.settled(tuple(long)), garbage.settled(list(long))]
looked_through = {id(each) for each in gc.get_objects()}
assert not looked_through & set(map(id, made))
brief = garbage.settled(tuple(short))
assert id(brief) in {id(each) for each in gc.get_objects()}
assert [len(each) for each in made] == [100_000, 100_000]
garbage._has_begun.clear()
own = garbage.settled(tuple(long))
assert id(own) in {id(each) for each in gc.get_objects()}
""")


def test_a_process_of_somebody_else_is_left_alone() -> None:
    _run("""
garbage._has_begun.clear()
frozen = gc.get_freeze_count()
living = [[] for _ in range(10)]
with garbage.making_many():
    pass
assert gc.get_freeze_count() <= frozen
""")


def test_what_is_frozen_goes_with_the_last_reference_to_it() -> None:
    _run("""
living = [[] for _ in range(500_000)]
gc.collect()
frozen = gc.get_freeze_count()
del living
assert gc.get_freeze_count() < frozen - 400_000
""")


def test_circles_among_what_is_frozen_are_found_once_there_is_much_of_it() -> None:
    _run("""
kept = []
for _ in range(5):
    circles = [[] for _ in range(100_000)]
    for each in circles:
        each.append(each)
    gc.collect()
    del circles, each
    for _ in range(3):
        collection.look(is_serving=False)
    kept.append(gc.get_freeze_count())
assert kept[0] > 100_000  # little: it is not worth looking at everything
assert min(kept[1:]) < 100_000, kept
assert max(kept) < 5 * kept[0], kept
""")


def test_while_anybody_is_connected_there_has_to_be_very_much() -> None:
    """To look at everything keeps all of them waiting."""
    _run("""
garbage._BLOCKS_MORE_SERVING = 1_000_000
living = [[] for _ in range(400_000)]
gc.collect()
looked_at.clear()
for _ in range(5):
    collection.look(is_serving=True)
assert not looked_at, looked_at
more = [[] for _ in range(800_000)]
gc.collect()
looked_at.clear()
for _ in range(3):
    collection.look(is_serving=True)
assert max(looked_at) > 1_000_000, looked_at
""")


def test_what_lives_for_a_moment_only_is_no_reason_to_look_at_everything() -> None:
    _run("""
for _ in range(5):
    request = [[] for _ in range(400_000)]
    gc.collect()
    looked_at.clear()
    collection.look(is_serving=False)
    assert not looked_at, looked_at
    del request
    collection.look(is_serving=False)
""")


def test_to_look_does_not_walk_along_all_objects() -> None:
    """It would take tens of milliseconds where there are many."""
    _run("""
def walks(*arguments):
    raise AssertionError("walks")

gc.get_freeze_count = gc.get_objects = walks
looked_at = None
gc.callbacks.remove(starting)
collection.look(is_serving=False)
""")


def test_messages_are_read_and_written_as_what_makes_many() -> None:
    _run("""
import asyncio
from drumlin.broker.loop.threads import Threads

async def main():
    threads = Threads()
    seen = await threads.making(lambda: len(garbage._makers))
    assert (seen, len(garbage._makers)) == (1, 0)
    assert await threads.computing(lambda: len(garbage._makers)) == 0
    threads.close()

asyncio.run(main())
""")
