"""Random requests to one coordinator, against a slow twin, with a log and partitions that fail.

The twin is a dictionary for each transactional id, and the rules in as few words as possible.
Requests come one after the other; now and then writes wait, or fail, markers are refused,
transactions time out, and the coordinator is replaced by another that reads the log.
In the end each transaction must have ended in the partitions as its producer was told.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordination.transactions.scenario import Scenario
from drumlin.coordination.transactions.log import load
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.coordination.transactions.records import TransactionMetadata
from drumlin.wire.error_codes import ErrorCode
from rig.depth import seeds

IDS = ("A", "B", "C")
PARTITIONS = [("t", index) for index in range(4)]
TIMEOUT_MS = 60_000
STEPS = 150

Twin = dict[str, Any]


class Refused(Exception):
    """The twin's answer, where it is no."""


def _new_twin() -> Twin:
    return {
        "state": "Empty",
        "pid": None,
        "epoch": -1,
        "last": -1,
        "parts": set(),
        "began": 0,
        "writes": 0,
    }


class Simulation:
    """The coordinator, its twin, and what both have told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.scenario = Scenario()
        self.scenario.write_markers = self._note_markers(self.scenario.write_markers)  # type: ignore[method-assign]
        self.scenario.run("restart")  # with the markers noted
        self.twins: dict[str, Twin] = {}
        self.known: dict[str, list[tuple[int, int]]] = {name: [(0, 0)] for name in IDS}
        self.markers: list[Marker] = []
        self.ended: list[tuple[int, bool, set[TopicPartition]]] = []
        self.given: dict[int, str] = {}
        self.seen: Counter[str] = Counter()

    # -- steps -----------------------------------------------------------------------------

    def step(self) -> None:
        actions = [
            (self.init, 3),
            (self.add, 8),
            (self.verify, 2),
            (self.end, 8),
            (self.fail_to_write, 3),
            (self.wait_for_the_log, 2),
            (self.refuse_markers, 2),
            (self.let_time_pass, 1),
            (self.restart, 1),
        ]
        action = self.chance.choices(
            [each for each, _ in actions], [weight for _, weight in actions]
        )[0]
        action(self.chance.choice(IDS))
        self.check()

    def init(self, name: str) -> None:
        self.ask(name, *self._init(name))

    def _init(self, name: str) -> tuple[str, Any]:
        if self.chance.random() < 0.5:
            return f"init {name}", lambda: self.twin_init(name, None)
        expected = self.producer(name)
        command = f"init {name} expect={expected[0]}/{expected[1]}"
        return command, lambda: self.twin_init(name, expected)

    def add(self, name: str) -> None:
        self.ask(name, *self._add(name))

    def _add(self, name: str) -> tuple[str, Any]:
        producer = self.producer(name)
        partitions = self.chance.sample(PARTITIONS, self.chance.randint(1, 2))
        named = " ".join(f"{topic}-{index}" for topic, index in partitions)
        version = self.chance.choice(["", " classic"])
        command = f"add {name} {producer[0]}/{producer[1]} {named}{version}"
        return command, lambda: self.twin_add(name, producer, partitions)

    def verify(self, name: str) -> None:
        producer, partition = self.producer(name), self.chance.choice(PARTITIONS)
        command = f"verify {name} {producer[0]}/{producer[1]} t-{partition[1]}"
        self.ask(name, command, lambda: self.twin_verify(name, producer, partition))

    def end(self, name: str) -> None:
        self.ask(name, *self._end(name))

    def _end(self, name: str) -> tuple[str, Any]:
        producer = self.producer(name)
        is_commit = self.chance.random() < 0.6
        is_classic = self.chance.random() < 0.4
        command = f"{'commit' if is_commit else 'abort'} {name} {producer[0]}/{producer[1]}"
        command += " classic" if is_classic else ""
        return command, lambda: self.twin_end(name, producer, is_commit, is_classic)

    def fail_to_write(self, name: str) -> None:
        """A request that has to be written, and is not: nothing has happened."""
        self.scenario.run("log fails not_enough_replicas")
        before = {key: dict(twin) for key, twin in self.twins.items()}
        ended, given = list(self.ended), dict(self.given)
        command, twin = self.chance.choice([self._init, self._add, self._end])(name)
        answer = self.answer(command)
        expected = self.expected(twin)
        changed = self.twins != before
        self.twins, self.ended, self.given = before, ended, given
        # What changes nothing needs no log.
        assert answer == ("coordinator_not_available" if changed else expected)
        self.scenario.run("log works")
        self.seen["not written" if changed else "nothing to write"] += 1

    def wait_for_the_log(self, name: str) -> None:
        """A request that is being written: others wait, whatever they want."""
        command, twin = self.chance.choice([self._init, self._add, self._end])(name)
        self.scenario.run("log holds")
        answer = self.answer(command)
        if answer:  # nothing had to be written
            self.scenario.run("log works")
            self.scenario.log.confirmations = None
            assert answer == self.expected(twin)
            return
        other, _ = self.chance.choice([self._init, self._add])(name)
        assert self.answer(other) == "concurrent_transactions"
        self.seen["being written"] += 1
        (answer,) = [
            line.split(" <- ")[1] for line in self.scenario.run("log confirms") if "<-" in line
        ]
        self.learn(name, answer)
        assert answer == self.expected(twin)

    def refuse_markers(self, name: str) -> None:
        """An end that cannot be told to a partition: no transaction may begin before it is."""
        twin = self.twins.get(name)
        if twin is None or twin["state"] != "Ongoing":
            return
        _, index = self.chance.choice(sorted(twin["parts"]))
        self.scenario.run(f"markers fail t-{index}=not_leader_or_follower")
        producer = (twin["pid"], twin["epoch"])
        is_commit = self.chance.random() < 0.5
        command = f"{'commit' if is_commit else 'abort'} {name} {producer[0]}/{producer[1]}"
        answer = self.answer(command)
        self.learn(name, answer)
        assert answer == self.expected(lambda: self.twin_end(name, producer, is_commit, False))
        self.seen["refused marker"] += 1
        other, _ = self.chance.choice([self._init, self._add])(name)
        assert self.answer(other) == "concurrent_transactions"
        if self.chance.random() < 0.5:
            self.restart(name)
        self.scenario.run("markers work")

    def let_time_pass(self, _: str) -> None:
        self.scenario.run(f"advance {self.chance.choice([1_000, TIMEOUT_MS, TIMEOUT_MS + 1])}")
        self.scenario.run("abort timed out")
        now_ms = self.scenario.clock.wall_ms()
        for twin in self.twins.values():
            if twin["state"] == "Ongoing" and twin["began"] + TIMEOUT_MS < now_ms:
                self.twin_fence(twin)
                self.seen["timed out"] += 1

    def restart(self, _: str) -> None:
        self.scenario.run("restart")
        self.seen["restart"] += 1
        for twin in self.twins.values():
            twin["last"] = -1  # it is not in the log

    # -- asking ----------------------------------------------------------------------------

    def producer(self, name: str) -> tuple[int, int]:
        twin = self.twins.get(name)
        if twin is not None and self.chance.random() < 0.7:
            return twin["pid"], twin["epoch"]
        return self.chance.choice(self.known[name][-4:])

    def ask(self, name: str, command: str, twin: Any) -> None:
        answer = self.answer(command)
        self.learn(name, answer)
        assert answer == self.expected(twin), command
        self.seen[answer if "/" not in answer else "producer"] += 1

    def answer(self, command: str) -> str:
        lines = [line for line in self.scenario.run(command) if " <- " in line]
        return lines[0].split(" <- ")[1] if lines else ""

    def learn(self, name: str, answer: str) -> None:
        if "/" in answer:
            producer_id, _, epoch = answer.partition("/")
            self.known[name].append((int(producer_id), int(epoch)))

    def expected(self, twin: Any) -> str:
        try:
            return str(twin())
        except Refused as refusal:
            return str(refusal)

    # -- the twin --------------------------------------------------------------------------

    def twin_init(self, name: str, expected: tuple[int, int] | None) -> str:
        twin = self.twins.get(name)
        if twin is None:
            twin = self.twins[name] = _new_twin()
            twin["pid"] = self._new_id(name)
            twin["epoch"], twin["last"] = 0, -1
            return f"{twin['pid']}/0"
        if expected is not None and expected[0] != twin["pid"]:
            raise Refused("producer_fenced")
        if twin["state"] == "Ongoing":
            self.twin_fence(twin)
            raise Refused("concurrent_transactions")
        if expected is None:
            twin["epoch"], twin["last"] = twin["epoch"] + 1, -1
        elif expected[1] == twin["epoch"]:
            twin["epoch"], twin["last"] = twin["epoch"] + 1, twin["epoch"]
        elif expected[1] != twin["last"]:
            raise Refused("producer_fenced")
        twin["state"], twin["began"] = "Empty", self.scenario.clock.wall_ms()
        twin["writes"] += 1
        return f"{twin['pid']}/{twin['epoch']}"

    def twin_add(
        self, name: str, producer: tuple[int, int], partitions: list[TopicPartition]
    ) -> str:
        twin = self._twin_of(name, producer)
        if twin["state"] != "Ongoing":
            twin["state"], twin["parts"] = "Ongoing", set()
            twin["began"] = self.scenario.clock.wall_ms()
        twin["parts"] = twin["parts"] | set(partitions)
        return "none"

    def twin_verify(self, name: str, producer: tuple[int, int], partition: TopicPartition) -> str:
        twin = self._twin_of(name, producer)
        is_in = twin["state"] == "Ongoing" and partition in twin["parts"]
        return "none" if is_in else "transaction_abortable"

    def twin_end(
        self, name: str, producer: tuple[int, int], is_commit: bool, is_classic: bool
    ) -> str:
        over = "CompleteCommit" if is_commit else "CompleteAbort"
        twin = self.twins.get(name)
        if twin is None or producer[0] != twin["pid"]:
            raise Refused("invalid_producer_id_mapping")
        is_again = producer[1] == twin["epoch"] - 1 and twin["state"].startswith("Complete")
        if producer[1] != twin["epoch"] and (is_classic or not is_again):
            raise Refused("producer_fenced")
        if twin["state"] == "Ongoing":
            self._twin_over(twin, over, bumps=not is_classic)
        elif is_classic or is_again:
            if twin["state"] != over:
                raise Refused("invalid_txn_state")
        elif is_commit:
            raise Refused("invalid_txn_state")
        else:
            twin["parts"] = set()
            self._twin_over(twin, over, bumps=True)
        return f"{twin['pid']}/{twin['epoch']}"

    def twin_fence(self, twin: Twin) -> None:
        self._twin_over(twin, "CompleteAbort", bumps=True)

    def _twin_over(self, twin: Twin, over: str, *, bumps: bool) -> None:
        self.ended.append((twin["pid"], over == "CompleteCommit", set(twin["parts"])))
        twin["state"] = over
        if bumps:
            twin["last"], twin["epoch"] = twin["epoch"], twin["epoch"] + 1

    def _twin_of(self, name: str, producer: tuple[int, int]) -> Twin:
        twin = self.twins.get(name)
        if twin is None or producer[0] != twin["pid"]:
            raise Refused("invalid_producer_id_mapping")
        if producer[1] != twin["epoch"]:
            raise Refused("producer_fenced")
        return twin

    def _new_id(self, name: str) -> int:
        """The id that the coordinator has given: any that no other producer has."""
        (producer_id,) = {
            each.metadata.producer_id
            for each in self.scenario._transactions()
            if each.transactional_id == name
        } or {-1}
        assert producer_id not in self.given
        self.given[producer_id] = name
        return producer_id

    # -- what must hold --------------------------------------------------------------------

    def check(self) -> None:
        states = {each.transactional_id: each for each in self.scenario._transactions()}
        assert states.keys() == self.twins.keys()
        for name, twin in self.twins.items():
            said = states[name].metadata
            assert states[name].pending is None
            assert (said.producer_id, said.producer_epoch) == (twin["pid"], twin["epoch"])
            assert said.state.label == twin["state"]
            expected = twin["parts"] if twin["state"] == "Ongoing" else set()
            assert said.partitions == expected
        # What is in memory is what the log says.
        logged = load(self.scenario.log.read(0))
        assert {name: _stored(each.metadata) for name, each in states.items()} == {
            name: _stored(metadata) for name, metadata in logged.items()
        }

    def check_markers(self) -> None:
        """Each partition of each transaction was told once or more, and always the same."""
        told: dict[tuple[int, TopicPartition], list[bool]] = {}
        epochs: dict[tuple[int, int, TopicPartition], bool] = {}
        for marker in self.markers:
            for partition in marker.partitions:
                if marker.transaction_version == 2:
                    # After a restart all partitions are told again; no two ends share an epoch.
                    end = (marker.producer_id, marker.producer_epoch, partition)
                    if end in epochs:
                        assert epochs[end] == marker.is_commit
                        continue
                    epochs[end] = marker.is_commit
                told.setdefault((marker.producer_id, partition), []).append(marker.is_commit)
        expected: dict[tuple[int, TopicPartition], list[bool]] = {}
        for producer_id, is_commit, partitions in self.ended:
            for partition in partitions:
                expected.setdefault((producer_id, partition), []).append(is_commit)
        assert told == expected

    def _note_markers(self, write: Any) -> Any:
        async def noted(marker: Marker) -> dict[TopicPartition, ErrorCode]:
            codes: dict[TopicPartition, ErrorCode] = await write(marker)
            written = tuple(each for each, code in codes.items() if code is ErrorCode.none)
            self.markers.append(marker._replace(partitions=written))
            return codes

        return noted


def _stored(metadata: TransactionMetadata) -> TransactionMetadata:
    return replace(metadata, last_producer_epoch=-1)


@pytest.fixture
def simulations() -> Iterator[list[Simulation]]:
    begun: list[Simulation] = []
    yield begun
    for each in begun:
        each.scenario.close()


@pytest.mark.parametrize("seed", seeds(8, 20))
def test_whatever_producers_do(simulations: list[Simulation], seed: int) -> None:
    simulation = Simulation(seed)
    simulations.append(simulation)
    for _ in range(STEPS):
        simulation.step()
    simulation.check_markers()


def test_simulations_get_everywhere(simulations: list[Simulation]) -> None:
    """The random producers are good for something: they meet all that can happen."""
    seen: Counter[str] = Counter()
    for seed in range(4):
        simulation = Simulation(seed)
        simulations.append(simulation)
        for _ in range(STEPS):
            simulation.step()
        seen += simulation.seen
    assert seen.keys() >= {
        "producer",
        "none",
        "concurrent_transactions",
        "producer_fenced",
        "invalid_producer_id_mapping",
        "invalid_txn_state",
        "transaction_abortable",
        "not written",
        "nothing to write",
        "being written",
        "refused marker",
        "timed out",
        "restart",
    }
