"""Moving partitions between the brokers of a machine, and crashes in the midst of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from uuid import UUID

import pytest

from drumlin.broker.machine.moving import has_folders, move_partitions
from drumlin.broker.startup import StartFailed
from drumlin.config.broker import BrokerConfig
from drumlin.config.machine_folders import folder_of
from drumlin.metadata import database
from drumlin.metadata.database import Database
from drumlin.metadata.image import PartitionState, TopicState
from drumlin.storage.checkpoints import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START_OFFSET,
    RECOVERY_POINT,
    UNCLEAN,
    Checkpoint,
)
from drumlin.storage.files import Files
from drumlin.storage.partition_metadata import FILE_NAME, encode_partition_metadata

_CLEAN = ".kafka_cleanshutdown"
_NAMES = (RECOVERY_POINT, HIGH_WATERMARK, LOG_START_OFFSET, CLEANER_OFFSET)
_TOPICS = {"t": UUID(int=1), "u": UUID(int=2)}


class Machine:
    """A data directory as brokers have left it, with the folders of partitions in two log dirs."""

    def __init__(self, directory: Path) -> None:
        self.log_dirs = [str(directory / "a"), str(directory / "b")]
        for each in self.log_dirs:
            Path(each).mkdir()
            Path(each, _CLEAN).touch()
        self.config = BrokerConfig({"log.dirs": ",".join(self.log_dirs)})

    def fill(self, topics: Mapping[str, Iterable[tuple[int, ...]]]) -> None:
        """Topics by their names, with the replicas of each partition."""
        with self._opened() as opened:
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

    def topics(self) -> dict[str, TopicState]:
        with self._opened() as opened:
            return opened.load("").topics

    def move(self, brokers: int) -> None:
        move_partitions(self.config, brokers)

    def logs(self) -> Iterator[tuple[int, str, Path]]:
        """Broker, partition and folder of everything that lies there."""
        for log_dir in self.log_dirs:
            for folder, node_id in ((Path(log_dir), 1), *_others(Path(log_dir))):
                for path in folder.iterdir():
                    if path.is_dir() and not path.name.startswith("."):
                        yield node_id, path.name, path

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
        opened.execute_durably([database.put_isr(_TOPICS["t"], state.index, (1,))])
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
    away = Path(machine.log_dirs[1] + "-away")
    Path(machine.log_dirs[1]).rename(away)
    machine.move(1)
    assert [each.replicas for each in machine.topics()["t"].partitions] == [(1,), (2,), (1,), (2,)]
    away.rename(machine.log_dirs[1])
    machine.move(1)
    machine.check(1)


def test_the_data_of_another_broker_is_left_alone(machine: Machine) -> None:
    machine.fill({"t": [(1,)] * 4})
    meta = "version=1\nnode.id=7\n"
    Path(machine.log_dirs[0], "meta.properties").write_text(meta)
    machine.move(4)
    assert not has_folders(machine.config)


@pytest.mark.parametrize("next_number", [1, 2, 4])
def test_a_crash_leaves_nothing_that_the_next_start_does_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, next_number: int
) -> None:
    replace, step = os.replace, 0
    while True:
        where = tmp_path / str(step)
        where.mkdir()
        machine = Machine(where)
        machine.fill({"t": [(1,)] * 4, "u": [(3, 1, 2)]})
        monkeypatch.setattr(Database, "execute_durably", _failing_at_the_end)
        left = step

        def crash_later(source: str, target: str) -> None:
            nonlocal left
            if left == 0:
                raise OSError("a crash")
            left -= 1
            replace(source, target)

        monkeypatch.setattr(os, "replace", crash_later)
        with pytest.raises((StartFailed, _Crash)) as caught:
            machine.move(2)
        monkeypatch.undo()
        machine.move(next_number)
        machine.check(next_number)
        if caught.type is _Crash:  # of the metadata, with all files where they are to be
            break
        step += 1
    assert step > 10


class _Crash(BaseException):
    pass


_execute_durably = Database.execute_durably


def _failing_at_the_end(opened: Database, statements: Iterable[database.Statement]) -> None:
    found = list(statements)
    if any(sql.startswith("UPDATE partitions") for sql, _ in found):
        raise _Crash
    _execute_durably(opened, found)
