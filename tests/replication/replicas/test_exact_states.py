"""From `exact_from` on, a leader's log tells every state that it had, whatever was cleaned where.

Real logs, cleaners, leaders and followers, without a network; whoever was in sync may lead next.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from compaction.readers import read_committed
from drumlin.records.plain.record import Record
from drumlin.storage.log.log_state import LogState
from replication.replicas.real_replicas import Replicas
from replication.replicas.replica_histories import happens
from rig.depth import seeds
from storage.samples import IN_MEMORY


@pytest.fixture
def replicas(tmp_path: Path) -> Replicas:
    return Replicas(tmp_path, Random(1))


def state_of(records: Iterable[Record | Any], end_offset: int) -> dict[bytes, bytes]:
    last = {each.key: each.value for each in records if each.offset < end_offset}
    return {key: value for key, value in last.items() if value is not None}


def check_states(replicas: Replicas) -> int:
    """The leader's log tells what it promises; how many states that are."""
    log = replicas.partition.log
    committed = {each.producer_id for each in replicas.events if each.commits} | {-1}
    stable_end = replicas.partition.last_stable_offset
    written = [
        Record(each.offset, 0, each.record.key, each.record.value)
        for each in replicas.events
        if each.record is not None and each.producer_id in committed
    ]
    found = read_committed(log)
    states = range(log.exact_from, stable_end + 1)
    for at in states:
        assert state_of(found, at) == state_of(written, at), f"state at {at} of {log}"
    return len(states)


def run(seed: int) -> int:
    """A random history; how many states were told."""
    source = Random(seed)
    told = 0
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as path:
        replicas = Replicas(Path(path), source)
        for number in range(source.choice((60, 120))):
            happens(replicas, source)
            if number % 4 == 0:
                told += check_states(replicas)
        for dirs in replicas.dirs.values():
            dirs.abandon()
    return told


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_states_are_told_as_they_were(seed: int) -> None:
    assert run(seed) > 0


def test_a_mistake_in_this_tells_a_wrong_state(replicas: Replicas) -> None:
    with patch.object(LogState, "note_states_cleaned"), pytest.raises(AssertionError):
        for seed in range(30):
            run(seed)
    with patch.object(LogState, "note_states_lost"), pytest.raises(AssertionError, match="state"):
        replica_that_has_copied_a_cleaned_log_leads(replicas)
        check_states(replicas)


def test_all_states_of_a_log_that_nobody_has_cleaned(replicas: Replicas) -> None:
    for number in range(5):
        replicas.put(b"k", b"%d" % number)
    replicas.catch_up()
    assert replicas.log(1).exact_from == 0
    replicas.lead(2)
    assert replicas.log(2).exact_from == 0


def test_who_has_copied_a_cleaned_log_tells_only_what_came_since_it_leads(
    replicas: Replicas,
) -> None:
    replica_that_has_copied_a_cleaned_log_leads(replicas)
    assert replicas.log(3).exact_from == replicas.log(3).log_end_offset
    check_states(replicas)


def replica_that_has_copied_a_cleaned_log_leads(replicas: Replicas) -> None:
    replicas.leave(3)
    for number in range(5):
        replicas.put(b"k", b"%d" % number)
        replicas.put(b"key-%d" % number, b"value")
    replicas.catch_up()
    replicas.clean(1)
    assert 0 < replicas.log(1).exact_from <= replicas.log(1).log_end_offset
    replicas.come_back(3)
    replicas.catch_up()
    replicas.lead(3)


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_restart(replicas: Replicas, is_clean: bool) -> None:
    """What a clean stop has written is known; a crash leaves what the log will have from then."""
    for number in range(5):
        replicas.put(b"k", b"%d" % number)
    replicas.catch_up()
    replicas.clean(1)
    replicas.put(b"k", b"later")
    replicas.put(b"k", b"last")
    replicas.catch_up()
    known = replicas.log(1).exact_from
    assert 0 < known < replicas.log(1).log_end_offset
    replicas.lead(2)
    replicas.leave(1)
    replicas.restart(1, is_clean=is_clean)
    replicas.come_back(1)
    replicas.catch_up()
    replicas.lead(1)
    assert replicas.log(1).exact_from == (known if is_clean else replicas.log(1).log_end_offset)


def test_records_that_were_deleted_before_an_offset(replicas: Replicas) -> None:
    for number in range(5):
        replicas.put(b"key-%d" % number, b"value")
    replicas.catch_up()
    log = replicas.log(1)
    replicas.partition.delete_records_before(2)
    replicas.put(b"k", b"later")
    log.settle_exact_states()
    assert log.exact_from == log.log_end_offset
