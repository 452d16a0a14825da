"""Moving partitions between the brokers of a machine, and crashes in the midst of it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from drumlin.broker.start.moves_between_brokers import has_folders, move_partitions, note_placed
from drumlin.config.broker import BrokerConfig
from drumlin.config.machine_folders import folder_of
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Database
from drumlin.metadata.image import NO_LEADER, PartitionState, TopicState
from drumlin.storage.directory.checkpoints import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    UNCLEAN,
    Checkpoint,
)
from drumlin.storage.directory.partition_metadata import FILE_NAME, encode_partition_metadata
from drumlin.storage.files.files import Files
from drumlin.storage.files.folder_marker import mark
from drumlin.storage.files.partition_names import future_directory_name

_CLEAN = ".kafka_cleanshutdown"
_NAMES = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET, CLEANER_OFFSET)
_TOPICS = {"t": UUID(int=1), "u": UUID(int=2)}


class Machine:
    """A data directory as brokers have left it, with the folders of partitions in two log dirs."""

    def __init__(self, directory: Path) -> None:
        self.log_dirs = [str(directory / "a"), str(directory / "b")]
        for each in self.log_dirs:
            Path(each).mkdir(parents=True, exist_ok=True)
            Path(each, _CLEAN).touch()
        self.config = BrokerConfig({"log.dirs": ",".join(self.log_dirs)})

    def fill(self, topics: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        """Topics by their names, with the replicas of each partition, for as many as have any."""
        brokers = {node_id for each in topics.values() for r in each for node_id in r}
        with self._opened() as opened:
            opened.execute_durably([note_placed(range(1, max(brokers) + 1))])
            for name, replicas in topics.items():
                states = tuple(PartitionState(i, r[0], 0, r, r) for i, r in enumerate(replicas))
                topic = TopicState(name, _TOPICS[name], states)
                opened.execute_durably(database.put_topic(topic))
                for state in states:
                    for node_id in state.replicas:
                        self._add_log(topic, state.index, node_id)

    def _add_log(self, topic: TopicState, index: int, node_id: int) -> None:
        folder = Path(folder_of(self.log_dirs[index % 2], node_id - 1, node_id))
        path = folder / f"{topic.name}-{index}"
        path.mkdir(parents=True)
        (folder / _CLEAN).touch()
        (path / "log").write_text(f"{topic.name}-{index} of {node_id}")
        (path / FILE_NAME).write_bytes(encode_partition_metadata(topic.topic_id))
        for number, name in enumerate(_NAMES):
            checkpoint = Checkpoint(str(folder), name, Files())
            checkpoint.set((topic.name, index), _noted(number, index), only_if=lambda: True)

    def _opened(self) -> _Opened:
        return _Opened(Path(self.log_dirs[0], database.FILE_NAME))

    def put_state(self, topic: str, state: PartitionState) -> None:
        with self._opened() as opened:
            opened.execute_durably([database.put_state(_TOPICS[topic], state)])

    def topics(self) -> dict[str, TopicState]:
        with self._opened() as opened:
            return opened.load("").topics

    def move(self, brokers: int) -> None:
        move_partitions(self.config, brokers)

    @contextmanager
    def one_dir_away(self) -> Iterator[None]:
        directory = Path(self.log_dirs[1])
        away = directory.rename(f"{directory}-away")
        yield
        away.rename(directory)

    def logs(self) -> Iterator[tuple[int, str, Path]]:
        """Broker, partition and folder of everything that lies there."""
        for log_dir in (each for each in self.log_dirs if Path(each).exists()):
            for folder, node_id in ((Path(log_dir), 1), *_others(Path(log_dir))):
                for path in folder.iterdir():
                    if path.is_dir() and not path.name.startswith("."):
                        yield node_id, path.name, path

    def contents(self) -> dict[str, str]:
        """What is in the logs that are not deleted, where there is one of each partition."""
        logs = [each for each in self.logs() if not each[1].endswith(("-delete", "-stray"))]
        assert len({name for _, name, _ in logs}) == len(logs)
        return {name: (path / "log").read_text() for _, name, path in logs}

    def check(self, brokers: int) -> None:
        """Each replica is with its broker, with what was noted of it; there is nothing else."""
        expected = set()
        for topic in self.topics().values():
            for state in topic.partitions:
                assert set(state.replicas) <= set(range(1, brokers + 1))
                expected |= {(each, f"{topic.name}-{state.index}") for each in state.replicas}
        found = {(node_id, name): path for node_id, name, path in self.logs()}
        live = {key: path for key, path in found.items() if not key[1].endswith("-delete")}
        assert live.keys() <= expected
        dropped = {name.partition(".")[0] for _, name in found.keys() - live.keys()}
        for _, name in expected - live.keys():  # its broker leaves the ISR before it registers
            assert name in dropped
            assert any(other == name for _, other in live)
        for (_, name), path in live.items():
            assert (path / "log").read_text().startswith(f"{name} of ")
            topic, _, index = name.rpartition("-")
            for number, kind in enumerate(_NAMES):
                noted = Checkpoint(str(path.parent), kind, Files()).get((topic, int(index)))
                assert noted == _noted(number, int(index)), (name, kind)
        folders = {node_id for log_dir in self.log_dirs for _, node_id in _others(Path(log_dir))}
        assert folders <= set(range(2, brokers + 1))


class _Opened:
    """A database that is closed at the end of a `with`."""

    def __init__(self, path: Path) -> None:
        self._database = Database(path)

    def __enter__(self) -> Database:
        return self._database

    def __exit__(self, *_: object) -> None:
        self._database.close()


def _others(log_dir: Path) -> list[tuple[Path, int]]:
    return [(each, int(each.name)) for each in log_dir.glob(".brokers/*")]


def _noted(number: int, index: int) -> int:
    return 100 * (number + 1) + index


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_one_broker_four_two_one(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 8, "u": [(1,)]})
    assert not has_folders(machine.config)
    for brokers in (1, 4, 2, 1):
        machine.move(brokers)
        machine.check(brokers)
        leaders = {each.leader for each in machine.topics()["t"].partitions}
        assert leaders == set(range(1, brokers + 1))
    assert not has_folders(machine.config)


def test_another_start_with_the_same_number_moves_nothing(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 8})
    machine.move(2)
    before = machine.topics()
    with machine._opened() as opened:  # as a client assigns it
        (state, *_) = [each for each in before["t"].partitions if each.leader == 1]
        opened.execute_durably([database.put_state(_TOPICS["t"], replace(state, isr=(1,)))])
    machine.move(2)
    assert machine.topics() == before


def test_replicas_that_are_too_many_go(machine: Machine) -> None:
    machine.fill({"t": [(1, 2, 3), (3, 2, 1), (2, 3, 1)], "u": [(3, 4)]})
    machine.move(4)
    machine.check(4)
    machine.move(2)
    machine.check(2)
    machine.move(1)
    machine.check(1)
    assert not has_folders(machine.config)


def test_what_was_not_closed_cleanly_is_recovered_elsewhere(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 4})
    machine.move(2)
    Path(machine.log_dirs[0], ".brokers/2", _CLEAN).unlink()
    moved = {name for node_id, name, _ in machine.logs() if node_id == 2}
    machine.move(1)
    machine.check(1)
    unclean = Checkpoint(machine.log_dirs[0], UNCLEAN, Files()).read()
    here = {path.name for path in Path(machine.log_dirs[0]).iterdir()}
    assert {f"{topic}-{index}" for topic, index in unclean} == moved & here
    assert unclean
    assert Checkpoint(machine.log_dirs[1], UNCLEAN, Files()).read() == {}


def test_a_new_broker_has_clean_logs(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 4})
    machine.move(2)
    assert Path(machine.log_dirs[0], ".brokers/2", _CLEAN).exists()


def test_folders_of_deleted_topics_go_with_their_broker(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 4, "u": [(2,), (2,)]})
    machine.move(2)
    with machine._opened() as opened:
        opened.execute_durably(database.delete_topic(opened.load("").topics["u"]))
    machine.move(1)
    # What the broker that stays has of it, that one removes when it starts.
    assert {node_id for node_id, _, _ in machine.logs()} == {1}
    assert not has_folders(machine.config)


def test_folders_that_no_topic_has_are_kept(machine: Machine) -> None:
    machine.fill({"t": [(1,), (2,)]})
    machine.move(2)
    stranger = Path(machine.log_dirs[1], ".brokers/2/from-a-backup-0")
    stranger.mkdir()
    machine.move(1)
    assert stranger.exists()
    assert {node_id for node_id, name, _ in machine.logs() if name.startswith("t-")} == {1}


def test_a_log_dir_that_cannot_be_read_keeps_its_partitions(machine: Machine) -> None:
    machine.fill({"t": [(1,), (2,), (1,), (2,)]})  # those of broker 2 are in the second
    machine.move(2)
    with machine.one_dir_away():
        machine.move(1)
        replicas = [each.replicas for each in machine.topics()["t"].partitions]
        assert replicas == [(1,), (2,), (1,), (2,)]
    machine.move(1)
    machine.check(1)


def test_the_data_of_another_broker_is_left_alone(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 4})
    meta = "version=1\nnode.id=7\n"
    Path(machine.log_dirs[0], "meta.properties").write_text(meta)
    machine.move(4)
    assert not has_folders(machine.config)


def test_the_last_log_is_kept_where_the_disk_of_the_others_was_replaced(machine: Machine) -> None:
    machine.fill({"t": [(1, 2), (3, 1, 2)]})
    for node_id, name, path in list(machine.logs()):
        if (node_id, name) in ((1, "t-0"), (1, "t-1"), (2, "t-1")):
            shutil.rmtree(path)
    machine.move(1)
    machine.check(1)
    assert machine.contents() == {"t-0": "t-0 of 2", "t-1": "t-1 of 3"}
    assert [each.isr for each in machine.topics()["t"].partitions] == [(1,), (1,)]


def test_a_log_out_of_sync_is_no_leader_by_itself(machine: Machine) -> None:
    machine.fill({"t": [(1, 2)]})
    machine.put_state("t", PartitionState(0, 1, 0, (1, 2), (1,)))
    shutil.rmtree(Path(machine.log_dirs[0], "t-0"))
    machine.move(1)
    assert machine.contents() == {"t-0": "t-0 of 2"}
    (state,) = machine.topics()["t"].partitions
    assert (state.leader, state.isr, state.replicas) == (NO_LEADER, (), (1,))


def test_nothing_is_dropped_while_a_log_may_be_out_of_reach(machine: Machine) -> None:
    machine.fill({"t": [(1, 2)]})
    in_first, in_second = (Path(each, "t-0") for each in machine.log_dirs)
    in_first.rename(in_second)
    with machine.one_dir_away():
        for _ in range(2):
            machine.move(1)
            assert {(node_id, name) for node_id, name, _ in machine.logs()} == {(2, "t-0")}
            assert [each.replicas for each in machine.topics()["t"].partitions] == [(1, 2)]
    machine.move(1)
    assert machine.contents() == {"t-0": "t-0 of 1"}
    assert [each.replicas for each in machine.topics()["t"].partitions] == [(1,)]


def test_a_log_that_was_about_to_change_its_folder_goes_along(machine: Machine) -> None:
    """A crash has come when the old folder was gone, and the new one not yet in its place."""
    machine.fill({"t": [(2,), (2,)]})
    machine.move(2)
    ((_, name, path), *_) = [each for each in machine.logs() if each[0] == 2]
    mark(str(path), "t", int(name[2:]), Files())
    path.rename(path.with_name(future_directory_name("t", int(name[2:]))))
    machine.move(1)
    machine.check(1)
    assert machine.contents() == {"t-0": "t-0 of 2", "t-1": "t-1 of 2"}


def test_the_folder_of_an_earlier_topic_is_no_log(machine: Machine) -> None:
    machine.fill({"t": [(1, 2)]})
    old = Path(machine.log_dirs[0], "t-0")
    (old / FILE_NAME).write_bytes(encode_partition_metadata(UUID(int=77)))
    machine.move(1)
    assert machine.contents()["t-0"] == "t-0 of 2"
    assert not any(name.endswith("-delete") for _, name, _ in machine.logs())


@pytest.mark.parametrize(
    ("next_number", "is_one_dir_away"), [(1, False), (2, False), (4, False), (1, True)]
)
def test_a_crash_leaves_nothing_that_the_next_start_does_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_number: int, is_one_dir_away: bool
) -> None:
    """Only broker 3 has all records of `u`; that log is never taken for another one's."""
    before = Machine(tmp_path / "before")
    before.fill({"t": [(1,)] * 4, "u": [(3, 1, 2)]})
    before.put_state("u", PartitionState(0, 3, 0, (3, 1, 2), (3,)))
    step, is_through = 0, False
    while not is_through:
        shutil.copytree(tmp_path / "before", tmp_path / str(step))
        machine = Machine(tmp_path / str(step))
        with monkeypatch.context() as patch:
            crashes = _Crashes(step)
            patch.setattr(os, "replace", crashes.before(os.replace))
            execute = crashes.before(Database.execute_durably)
            patch.setattr(Database, "execute_durably", execute)
            try:
                machine.move(2)
                is_through = True
            except _Crash:
                step += 1
        if is_one_dir_away:  # at the next start; not at the one after it
            with machine.one_dir_away():
                machine.move(next_number)
        machine.move(next_number)
        machine.check(next_number)
        (state,) = machine.topics()["u"].partitions
        logs = {node_id: path for node_id, name, path in machine.logs() if name == "u-0"}
        assert [(logs[each] / "log").read_text() for each in state.isr] == ["u-0 of 3"]
    assert step > 15


class _Crash(BaseException):
    pass


class _Crashes:
    """After so many steps of any kind."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    def before(self, step: Callable[..., None]) -> Callable[..., None]:
        def crash_or_do(*args: Any) -> None:
            if self._left == 0:
                raise _Crash
            self._left -= 1
            step(*args)

        return crash_or_do
