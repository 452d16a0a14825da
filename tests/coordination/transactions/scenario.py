"""Runs a scenario: text that drives a transaction coordinator, and what it did in answer.

A scenario file is a list of blocks. A block is a command, a line of dashes, and the outcome:

    init A                          a producer begins; `expect=0/1`: it was 0/1; `timeout=<ms>`
    add A 0/0 t-0 t-1               partitions join the transaction of producer id 0, epoch 0
    verify A 0/0 t-0                whether they have joined
    commit A 0/0, abort A 0/0       the end; `classic`, here and at `add`: not transactions v2
    log holds, log confirms         writes wait for their confirmation; they get it
    log refuses <error>             they get an error instead
    log fails <error>, log works    nothing can be appended; it can again
    markers fail t-0=<error>        partitions do not take markers
    markers hold, markers work      nor do they answer; all is well again
    gone t-0                        the partition is deleted
    unheard t-0, heard t-0          there is no news of the partition yet; there is
    advance <ms>, abort timed out, expire
    restart                         another coordinator reads the log, one leader epoch later

Producers are written <producer id>/<epoch>. Each outcome ends with all transactional ids, their
producers, states, partitions without a marker, and what is pending. `#` starts a comment.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from coordination.memory_log import MemoryLog
from coordination.transactions.settings import TransactionSettings
from drumlin.clock import ManualClock
from drumlin.coordination.producer_ids import ProducerIds
from drumlin.coordination.shards.state_batches import Producer
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.coordination.transactions.coordinator import TransactionCoordinator
from drumlin.coordination.transactions.markers import Marker, TopicPartition
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.metadata.store.store import ProducerIdBlock
from drumlin.wire.error_codes import ErrorCode, KafkaError

_TURNS = 30
_PATIENCE_S = 10.0
_OPTIONS = {"classic"}


class Scenario:
    """One coordinator, driven by command lines."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.settings = TransactionSettings()
        self.log = MemoryLog(1)
        self.gone: set[TopicPartition] = set()
        self.unheard: set[TopicPartition] = set()
        self.refusals: dict[TopicPartition, ErrorCode] = {}
        self.held: asyncio.Event | None = None
        self.block = iter([ProducerIdBlock(0, 1_000_000)])
        self.leader_epoch = 0
        self._lines: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.coordinator = self._new_coordinator()
        self.loop.run_until_complete(self._start())

    def run(self, command: str) -> list[str]:
        """Carry out one command; the lines that say what came of it."""
        self._lines = []
        words = command.split()
        name, words = self._handler(words)
        self.loop.run_until_complete(self._carry_out(name, words))
        self._lines += self._states()
        return self._lines

    def close(self) -> None:
        self.loop.run_until_complete(self._close())
        self.loop.close()

    async def _close(self) -> None:
        await self.coordinator.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, words: list[str]) -> tuple[Callable[..., Any], list[str]]:
        for size in (3, 2, 1):
            method = getattr(self, "do_" + "_".join(words[:size]), None)
            if len(words) >= size and method is not None:
                return method, words[size:]
        raise AssertionError(f"no such command: {' '.join(words)}")

    async def _carry_out(self, method: Callable[..., Any], words: list[str]) -> None:
        options = {
            name: value or True
            for name, _, value in (word.partition("=") for word in words)
            if value or name in _OPTIONS
        }
        names = [word for word in words if "=" not in word and word not in _OPTIONS]
        outcome = method(names, options)
        if outcome is not None:
            await outcome
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    # -- requests --------------------------------------------------------------------------

    def do_init(self, names: list[str], options: dict[str, Any]) -> None:
        (name,) = names
        expected = _producer(options["expect"]) if "expect" in options else None
        timeout_ms = int(options.get("timeout", 60_000))
        self._ask(name, "init", self.coordinator.init_producer(name, timeout_ms, expected))

    def do_add(self, names: list[str], options: dict[str, Any], verify: bool = False) -> None:
        name, producer, *partitions = names
        work = self.coordinator.add_partitions(
            name,
            *_producer(producer),
            map(_partition, partitions),
            verify_only=verify,
            client_version=_version(options),
        )
        self._ask(name, "verify" if verify else "add", work)

    def do_verify(self, names: list[str], options: dict[str, Any]) -> None:
        self.do_add(names, options, verify=True)

    def do_commit(self, names: list[str], options: dict[str, Any], is_commit: bool = True) -> None:
        name, producer = names
        work = self.coordinator.end(
            name, _producer(producer), is_commit=is_commit, client_version=_version(options)
        )
        self._ask(name, "commit" if is_commit else "abort", work)

    def do_abort(self, names: list[str], options: dict[str, Any]) -> None:
        self.do_commit(names, options, is_commit=False)

    def _ask(self, name: str, what: str, work: Coroutine[Any, Any, Any]) -> None:
        async def answer() -> None:
            try:
                told = await work
            except KafkaError as refusal:
                told = refusal.code
            self._lines.append(f"{what} {name} <- {_told(told)}")

        self._begin(answer())

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- the log ---------------------------------------------------------------------------

    def do_log_holds(self, _: list[str], __: dict[str, Any]) -> None:
        self.log.confirmations = []

    def do_log_confirms(self, _: list[str], __: dict[str, Any]) -> None:
        for each in self._release():
            each.set_result(None)

    def do_log_refuses(self, names: list[str], _: dict[str, Any]) -> None:
        for each in self._release():
            each.set_exception(KafkaError(ErrorCode[names[0]]))

    def _release(self) -> list[asyncio.Future[None]]:
        released, self.log.confirmations = self.log.confirmations or [], None
        return [each for each in released if not each.done()]

    def do_log_fails(self, names: list[str], _: dict[str, Any]) -> None:
        self.log.error = ErrorCode[names[0]]

    async def do_log_works(self, _: list[str], __: dict[str, Any]) -> None:
        self.log.error = None
        await self._completed()

    # -- markers ---------------------------------------------------------------------------

    def do_markers_hold(self, _: list[str], __: dict[str, Any]) -> None:
        self.held = asyncio.Event()

    def do_markers_fail(self, _: list[str], options: dict[str, Any]) -> None:
        self.refusals = {_partition(name): ErrorCode[code] for name, code in options.items()}

    async def do_markers_work(self, _: list[str], __: dict[str, Any]) -> None:
        self.refusals = {}
        if self.held is not None:
            self.held.set()
            self.held = None
        if self.log.error is None:
            await self._completed()

    def do_gone(self, names: list[str], _: dict[str, Any]) -> Coroutine[Any, Any, None]:
        self.gone.update(map(_partition, names))
        return self._completed() if not self.refusals.keys() - self.gone else _nothing()

    def do_unheard(self, names: list[str], _: dict[str, Any]) -> None:
        self.unheard.update(map(_partition, names))
        self.refusals.update(dict.fromkeys(self.unheard, ErrorCode.unknown_topic_or_partition))

    def do_heard(self, names: list[str], _: dict[str, Any]) -> Coroutine[Any, Any, None]:
        for each in map(_partition, names):
            self.unheard.remove(each)
            del self.refusals[each]
        return self._completed()

    async def partition_count(self, topic: str) -> int:
        return min((index for name, index in self.gone if name == topic), default=100)

    async def write_markers(self, marker: Marker) -> dict[TopicPartition, ErrorCode]:
        if self.held is not None:
            await self.held.wait()
        codes = {each: self.refusals.get(each, ErrorCode.none) for each in marker.partitions}
        written = [_name(each) for each, code in codes.items() if code is ErrorCode.none]
        if written:
            decision = "COMMIT" if marker.is_commit else "ABORT"
            self._lines.append(
                f"{decision} of {marker.producer_id}/{marker.producer_epoch} in "
                f"{' '.join(written)}, coordinator epoch {marker.coordinator_epoch}, "
                f"version {marker.transaction_version}"
            )
        return codes

    async def _completed(self) -> None:
        """Wait for what is tried again after a pause."""
        deadline = self.loop.time() + _PATIENCE_S
        while any(each.pending for each in self._transactions()):
            await asyncio.sleep(0.001)
            assert self.loop.time() < deadline, list(self._states())

    # -- time ------------------------------------------------------------------------------

    def do_advance(self, names: list[str], _: dict[str, Any]) -> None:
        self.clock.advance_ms(int(names[0]))

    def do_abort_timed_out(self, _: list[str], __: dict[str, Any]) -> None:
        self._begin(self.coordinator.abort_timed_out())

    def do_expire(self, _: list[str], __: dict[str, Any]) -> None:
        self._begin(self.coordinator.expire())

    async def do_restart(self, _: list[str], __: dict[str, Any]) -> None:
        await self.coordinator.close()
        self.leader_epoch += 1
        self.coordinator = self._new_coordinator()
        await self._start()

    # -- the coordinator -------------------------------------------------------------------

    def _new_coordinator(self) -> TransactionCoordinator:
        async def next_block() -> ProducerIdBlock:
            return next(self.block)

        self.ids = getattr(self, "ids", None) or ProducerIds(next_block)
        topic = StateTopic(
            TRANSACTION_STATE,
            self.log.find,
            self.log.read,
            lambda: 1,
            _nothing,
        )
        return TransactionCoordinator(
            self.settings,
            self.clock,
            topic,
            self.ids,
            self.write_markers,
            lambda *partition: partition not in self.gone | self.unheard,
            self.partition_count,
        )

    async def _start(self) -> None:
        self.coordinator.start()
        self.coordinator.become_leader(0, self.leader_epoch)
        await self.coordinator._partitions.when_ready(0)

    def _transactions(self) -> Iterator[Any]:
        shard = self.coordinator._partitions.find(0)
        assert shard is not None
        yield from shard.transactions.values()

    def _states(self) -> Iterator[str]:
        for each in self._transactions():
            said = each.metadata
            words = [
                f"-- {each.transactional_id}: {said.producer_id}/{said.producer_epoch}",
                said.state.label,
                *map(_name, sorted(said.partitions)),
            ]
            if each.pending:
                words.append(f"({each.pending.state.label} is pending)")
            yield " ".join(words)


async def _nothing() -> None:
    pass


def _version(options: dict[str, Any]) -> int:
    return 0 if "classic" in options else 2


def _producer(text: str) -> Producer:
    producer_id, _, epoch = text.partition("/")
    return Producer(int(producer_id), int(epoch))


def _partition(text: str) -> TopicPartition:
    topic, _, index = text.rpartition("-")
    return topic, int(index)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _told(told: Any) -> str:
    if isinstance(told, Producer):
        return f"{told.producer_id}/{told.producer_epoch}"
    if isinstance(told, ErrorCode):
        return told.name
    codes = set(told.values())
    if len(codes) == 1:
        return str(codes.pop().name)
    return " ".join(f"{_name(each)}={code.name}" for each, code in sorted(told.items()))
