"""Runs a scenario of a consumer group: text that drives it, and what it did in answer to each line.

A scenario file is a list of blocks. A block is a command, a line of dashes, and the outcome:

    topic t 4                        there is a topic t with 4 partitions; `topic t 0` deletes it
    beat A topics=t                  member A joins; then `beat A`, with what is new:
                                     topics=, regex=, owns=t:0,1 (owns= for nothing), assignor=
    leave A, away A                  for good, or for a while
    join C topics=t owns=t:0         a classic member joins (with id= once it knows it), then
    sync C, classic-beat C, classic-leave C
    commit A t:0 epoch=3, fetch A    whether offsets may be committed (t:0), or fetched
    advance 3000                     milliseconds pass; deadlines come
    fail <error>, heal               the log takes nothing; takes writes again
    restart, show, config key=value

Members tell the epoch that they were told last, or epoch=. More options: static=<instance id>,
rebalance=<ms>, session=<ms> (of classic members), assignments=C:t:0 (of a classic leader).
`#` starts a comment.
"""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from coordination.memory_log import KnownTopics, MemoryLog, default_setting, lead_all, wake
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.consumer.group import ConsumerGroup
from drumlin.coordination.groups.consumer.member import Member, Partitions
from drumlin.coordination.groups.consumer.messages import HeartbeatRequest
from drumlin.coordination.groups.coordinator.coordinator import GroupCoordinator
from drumlin.coordination.groups.every_kind.messages import JoinRequest, LeavingMember, SyncRequest
from drumlin.coordination.groups.offsets.commit import Commit
from drumlin.coordination.shards.state_topic import StateTopic
from drumlin.metadata.names import GROUP_METADATA
from drumlin.wire.embedded_protocol import read_assignment, write_assignment
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.data.committed_offsets import commit_offsets, fetch_offsets, position
from rig.waiting import eventually

GROUP = "g"
Options = dict[str, str]


class ConsumerScenario:
    """One group, driven by command lines."""

    def __init__(self) -> None:
        self.settings = Settings(group_initial_rebalance_delay_ms=0)
        self.group_settings: dict[str, int] = {}
        self.clock, self.log, self.topics = ManualClock(), MemoryLog(1), KnownTopics()
        self._numbers = itertools.count(1)
        self._ids: dict[str, str] = {}
        self._epochs: dict[str, int] = {}
        self._waiting: dict[str, asyncio.Future[Any]] = {}
        self._lines: list[str] = []

    async def start(self) -> None:
        self.coordinator = GroupCoordinator(
            self.settings,
            self.clock,
            StateTopic(
                GROUP_METADATA,
                self.log.find,
                self.log.read,
                lambda: 1,
                self._no_creation,
            ),
            self.topics,
            self._setting,
            lambda: str(next(self._numbers)),
        )
        self.coordinator.start()
        lead_all(self.coordinator, self.log)
        while True:
            try:
                self.coordinator.groups()
                return
            except KafkaError:
                await asyncio.sleep(0.001)

    async def close(self) -> None:
        await self.coordinator.close()

    async def _no_creation(self) -> None:
        raise AssertionError("the topic is there")

    def _setting(self, group_id: str, key: str) -> int | str | bool:
        return self.group_settings.get(key, default_setting(group_id, key))

    async def run(self, command: str) -> list[str]:
        """Carry out one command; the lines that say what came of it."""
        self._lines = []
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        try:
            await getattr(self, f"_{name.replace('-', '_')}")(names, options)
        except KafkaError as refusal:
            self._lines.append(f"refused: {refusal.code.name}")
        await self._collect()
        self._lines.append(f"-- {self._state()}")
        return self._lines

    async def _collect(self) -> None:
        """Who waited and has an answer now. What runs in threads is given a moment."""
        for _ in range(5):
            await asyncio.sleep(0)
        await eventually(lambda: not self._is_resolving())
        for label, future in list(self._waiting.items()):
            if future.done():
                del self._waiting[label]
                self._joined(label, future.result())

    def _group(self) -> ConsumerGroup | Group | None:
        try:
            group = self.coordinator.group(GROUP)
        except KafkaError:
            return None
        assert isinstance(group, ConsumerGroup | Group)
        return group

    def _is_resolving(self) -> bool:
        group = self._group()
        return isinstance(group, ConsumerGroup) and group.is_resolving

    def _state(self) -> str:
        group = self._group()
        if group is None:
            return "no group"
        if isinstance(group, ConsumerGroup):
            return f"{group.state_name}, epoch {group.epoch}, target {group.target_epoch.epoch}"
        return f"classic, {group.state_name}, generation {group.generation_id}"

    # -- commands ------------------------------------------------------------------------------

    async def _config(self, _: list[str], options: Options) -> None:
        for name, value in options.items():
            if name.startswith("consumer."):
                self.group_settings[name] = int(value)
            else:
                known = getattr(self.settings, name)
                setattr(self.settings, name, type(known)(value))

    async def _topic(self, names: list[str], _: Options) -> None:
        name, count = names[0], int(names[1])
        is_new = self.topics.by_name(name) is None
        if count:
            self.topics.put(name, count)
        else:
            self.topics.remove(name)
        self.coordinator.topic_changed(name, is_new=is_new)

    async def _beat(self, names: list[str], options: Options) -> None:
        (label,) = names
        epoch = int(options.get("epoch", self._epochs.get(label, 0)))
        joining = epoch == 0
        owns = options.get("owns", "" if joining else None)
        topics = options.get("topics")
        request = HeartbeatRequest(
            label,
            epoch,
            label,
            "/127.0.0.1",
            options.get("static"),
            None,
            int(options.get("rebalance", 20_000)) if joining else None,
            None if topics is None else frozenset(each for each in topics.split(",") if each),
            options.get("regex"),
            options.get("assignor"),
            None if owns is None else self._by_id(owns),
        )
        answer = await self.coordinator.consumer_heartbeat(GROUP, request)
        self._epochs[label] = answer.epoch
        told = "" if answer.assignment is None else f", has {self._told(answer.assignment)}"
        self._lines.append(f"{label} <- epoch {answer.epoch}{told}")

    async def _leave(self, names: list[str], options: Options) -> None:
        await self._say_goodbye(names[0], -1, options)

    async def _away(self, names: list[str], options: Options) -> None:
        await self._say_goodbye(names[0], -2, options)

    async def _say_goodbye(self, label: str, epoch: int, options: Options) -> None:
        request = HeartbeatRequest(label, epoch, label, "/127.0.0.1", options.get("static"))
        answer = await self.coordinator.consumer_heartbeat(GROUP, request)
        self._epochs.pop(label, None)
        self._lines.append(f"{label} <- epoch {answer.epoch}")

    async def _join(self, names: list[str], options: Options) -> None:
        (label,) = names
        topics = options.get("topics", "t").split(",")
        owned = [each for each in options.get("owns", "").split("+") if each]
        request = JoinRequest(
            options.get("id", self._ids.get(label, "")),
            options.get("static"),
            label,
            "/127.0.0.1",
            int(options.get("rebalance", 20_000)),
            int(options.get("session", 10_000)),
            options.get("type", "consumer"),
            tuple(
                (name, _subscription(topics, owned))
                for name in options.get("protocols", "range").split("|")
            ),
        )
        answer = asyncio.ensure_future(self.coordinator.join(GROUP, request))
        await asyncio.sleep(0)
        self._waiting[label] = answer

    def _joined(self, label: str, answer: Any) -> None:
        self._ids[label] = answer.member_id
        if answer.error is not ErrorCode.none:
            self._lines.append(f"{label} <- {answer.error.name} id={answer.member_id}")
            return
        self._epochs[label] = answer.generation_id
        leader = f", leader {answer.leader_id}" if answer.leader_id else ""
        self._lines.append(
            f"{label} <- id={answer.member_id} generation {answer.generation_id}, "
            f"{answer.protocol_name}{leader}"
        )

    async def _sync(self, names: list[str], options: Options) -> None:
        (label,) = names
        shares = (each.split(":", 1) for each in options.get("assignments", "").split("+") if each)
        request = SyncRequest(
            self._ids[label],
            options.get("static"),
            int(options.get("epoch", self._epochs[label])),
            "consumer",
            options.get("protocol"),
            [(self._ids[who], write_assignment(1, _by_name(what))) for who, what in shares],
        )
        answer = await self.coordinator.sync(GROUP, request)
        said = read_assignment(answer.assignment)
        told = self._named({name: set(some) for name, some in said.partitions.items()})
        refused = "" if answer.error is ErrorCode.none else f"{answer.error.name}, "
        self._lines.append(f"{label} <- {refused}has {told}")

    async def _classic_beat(self, names: list[str], options: Options) -> None:
        (label,) = names
        epoch = int(options.get("epoch", self._epochs[label]))
        self.coordinator.heartbeat(GROUP, self._ids[label], options.get("static"), epoch)
        self._lines.append(f"{label} <- none")

    async def _classic_leave(self, names: list[str], options: Options) -> None:
        leaving = [
            LeavingMember(self._ids.get(label, label), options.get("static")) for label in names
        ]
        codes = await self.coordinator.leave(GROUP, leaving)
        for label, code in zip(names, codes, strict=True):
            self._epochs.pop(label, None)
            self._ids.pop(label, None)
            self._lines.append(f"{label} <- {code.name}")

    async def _commit(self, names: list[str], options: Options) -> None:
        label, where = names
        name, _, partition = where.partition(":")
        topic = self.topics.by_name(name)
        epoch = int(options.get("epoch", self._epochs.get(label, -1)))
        one = position(name, topic and topic.topic_id, int(partition), 1, -1, "")
        member_id = self._ids.get(label, label)
        commit = Commit(GROUP, member_id, options.get("static"), epoch, None, [one])
        codes = await commit_offsets(self.coordinator, commit)
        self._lines.append(f"{label} <- {codes[0].name}")

    async def _fetch(self, names: list[str], options: Options) -> None:
        (label,) = names
        epoch = int(options.get("epoch", self._epochs.get(label, -1)))
        await fetch_offsets(self.coordinator, GROUP, None, member_id=label, member_epoch=epoch)
        self._lines.append(f"{label} <- none")

    async def _advance(self, names: list[str], _: Options) -> None:
        """In steps, so that each deadline finds about its own moment."""
        for _step in range(int(names[0]) // 100):
            self.clock.advance_ms(100)
            wake(self.coordinator)

    async def _fail(self, names: list[str], _: Options) -> None:
        self.log.error = ErrorCode[names[0]]

    async def _heal(self, _: list[str], __: Options) -> None:
        self.log.error = None

    async def _restart(self, _: list[str], __: Options) -> None:
        await self.coordinator.close()
        self._waiting.clear()
        await self.start()

    async def _show(self, _: list[str], __: Options) -> None:
        group = self._group()
        if isinstance(group, ConsumerGroup):
            for member in group.members.values():
                self._show_member(group, member)
            for regex, resolved in group.regexes.items():
                self._lines.append(
                    f"{regex!r} is {', '.join(sorted(resolved.topics)) or 'nothing'}"
                )
        elif group is not None:
            for each in group.membership.members.values():
                said = read_assignment(each.assignment)
                has = self._named({name: set(some) for name, some in said.partitions.items()})
                self._lines.append(f"{each.member_id} has {has}")

    def _show_member(self, group: ConsumerGroup, member: Member) -> None:
        progress = member.progress
        has = {topic_id: frozenset(epochs) for topic_id, epochs in progress.assigned.items()}
        gives = {topic_id: frozenset(epochs) for topic_id, epochs in progress.revoking.items()}
        target = group.targets.get(member.member_id, {})
        parts = [
            f"{member.member_id}{' (classic)' if member.is_classic else ''}",
            f"epoch {progress.epoch} {progress.state.name.lower()}",
            f"has {self._told(has)}",
        ]
        parts += [f"gives up {self._told(gives)}"] if gives else []
        parts += [f"is to have {self._told(target)}"] if target != has else []
        self._lines.append(", ".join(parts))

    # -- partitions ----------------------------------------------------------------------------

    def _by_id(self, owns: str) -> Partitions:
        return {
            topic.topic_id: frozenset(partitions)
            for name, partitions in _by_name(owns).items()
            if (topic := self.topics.by_name(name)) is not None
        }

    def _told(self, partitions: Mapping[UUID, Iterable[int]]) -> str:
        named = {}
        for topic_id, some in partitions.items():
            topic = self.topics.by_id(topic_id)
            named["?" if topic is None else topic.name] = some
        return self._named(named)

    def _named(self, named: Mapping[str, Iterable[int]]) -> str:
        parts = (f"{name}:{','.join(map(str, sorted(named[name])))}" for name in sorted(named))
        return "+".join(parts) or "nothing"


def _by_name(owns: str) -> dict[str, list[int]]:
    parts = (each.partition(":") for each in owns.split("+") if each)
    return {name: [int(each) for each in some.split(",") if each] for name, _, some in parts}


def _subscription(topics: list[str], owned: list[str]) -> bytes:
    """Version 1."""
    data = struct.pack(">hi", 1, len(topics))
    for topic in topics:
        data += struct.pack(">h", len(topic)) + topic.encode()
    data += struct.pack(">i", -1)
    has = _by_name("+".join(owned))
    data += struct.pack(">i", len(has))
    for topic, some in has.items():
        data += struct.pack(">h", len(topic)) + topic.encode()
        data += struct.pack(f">i{len(some)}i", len(some), *some)
    return data
