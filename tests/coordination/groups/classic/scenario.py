"""Runs a scenario: text that drives one group, and what it did in answer to each line.

A scenario file is a list of blocks. A block is a command, a line of dashes, and the outcome:

    join A                           a client asks to join; it is known by its label
    join A id=A-1 topics=x,y         with the member id that it was told
    sync A id=A-1 gen=1 assign=A-1:p0,B-2:p1
    heartbeat A-1 gen=1
    commit A-1 gen=1                 whether an offset commit is allowed
    leave A-1 B-2                    `leave static:red` names a static member
    advance 3000                     milliseconds pass; deadlines come
    hold, release, release <error>   writes wait for their confirmation; they succeed, or fail
    restart                          a new coordinator reads the metadata stored last
    unload, show

More options of join: static=<instance id>, protocols=range:t1,t2|sticky:t1, type=connect,
session=<ms>, rebalance=<ms>, version=<3 before KIP-394, 8 before KIP-814>. Member ids are
<label or instance id>-<running number>. `#` starts a comment.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.records import GROUP_METADATA, GroupMetadata
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.messages import (
    Answer,
    Answers,
    Effect,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import Deadline
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError


def subscription(topics: str) -> bytes:
    """A consumer's metadata that names the topics, comma-separated; version 0."""
    names = [name.encode() for name in topics.split(",") if name]
    body = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", 0, len(names)) + body + struct.pack(">i", -1)


class Scenario:
    """One group, driven by command lines."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.clock = ManualClock()
        self.deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        self.stored: GroupMetadata | None = None
        self._held: list[tuple[Store, GroupMetadata]] | None = None
        self._numbers = itertools.count(1)
        self.group = self._new_group()
        self._lines: list[str] = []

    def run(self, command: str) -> list[str]:
        """Carry out one command; the lines that say what came of it."""
        self._lines = []
        name, *words = command.split()
        options = dict(word.split("=", 1) for word in words if "=" in word)
        names = [word for word in words if "=" not in word]
        run: Callable[[list[str], dict[str, str]], None] = getattr(self, f"_{name}")
        run(names, options)
        group = self.group
        self._lines.append(f"-- {group.state.value}, generation {group.generation_id}")
        return self._lines

    # -- commands --------------------------------------------------------------------------

    def _config(self, _: list[str], options: dict[str, str]) -> None:
        for name, value in options.items():
            assert hasattr(self.settings, name), name
            setattr(self.settings, name, int(value))

    def _join(self, names: list[str], options: dict[str, str]) -> None:
        (label,) = names
        protocols = options.get("protocols", f"range:{options.get('topics', 't')}")
        version = int(options.get("version", 9))
        request = JoinRequest(
            member_id=options.get("id", ""),
            group_instance_id=options.get("static"),
            client_id=label,
            client_host="/127.0.0.1",
            rebalance_timeout_ms=int(options.get("rebalance", 60_000)),
            session_timeout_ms=int(options.get("session", 10_000)),
            protocol_type=options.get("type", "consumer"),
            protocols=tuple(
                (name, subscription(topics))
                for name, _, topics in (each.partition(":") for each in protocols.split("|"))
                if name
            ),
            requires_known_member_id=version >= 4,
            can_skip_assignment=version >= 9,
            reason="asked to",
        )
        self._carry_out(self.group.join(request, label))

    def _sync(self, names: list[str], options: dict[str, str]) -> None:
        (label,) = names
        pairs = (each.split(":") for each in options.get("assign", "").split(",") if each)
        request = SyncRequest(
            member_id=options["id"],
            group_instance_id=options.get("static"),
            generation_id=int(options["gen"]),
            protocol_type=options.get("type", "consumer"),
            protocol_name=options.get("protocol"),
            assignments=[(member_id, assigned.encode()) for member_id, assigned in pairs],
        )
        self._carry_out(self.group.sync(request, label))

    def _heartbeat(self, names: list[str], options: dict[str, str]) -> None:
        self._check(self.group.heartbeat, names, options)

    def _commit(self, names: list[str], options: dict[str, str]) -> None:
        self._check(self._admit_commit, names or [""], options)

    def _admit_commit(self, member_id: str, instance_id: str | None, generation_id: int) -> None:
        committer = Committer(member_id, instance_id, generation_id)
        self.group.check_offset_commit(committer)
        self.group.note_commit(committer)

    def _check(self, check: Callable[..., None], names: list[str], options: dict[str, str]) -> None:
        (member_id,) = names
        try:
            check(member_id, options.get("static"), int(options.get("gen", -1)))
            self._lines.append("none")
        except KafkaError as refusal:
            self._lines.append(refusal.code.name)

    def _leave(self, names: list[str], options: dict[str, str]) -> None:
        leaving = [
            LeavingMember("", name.removeprefix("static:"))
            if name.startswith("static:")
            else LeavingMember(name, options.get("static"))
            for name in names
        ]
        codes, effects = self.group.leave(leaving)
        self._lines += [f"{name}: {code.name}" for name, code in zip(names, codes, strict=True)]
        self._carry_out(effects)

    def _advance(self, names: list[str], _: dict[str, str]) -> None:
        """Time passes from deadline to deadline, so that each finds its own moment."""
        end = self.clock.monotonic() + int(names[0]) / 1000
        while (deadline := self.deadlines.next_deadline()) is not None and deadline <= end:
            self.clock.advance_ms(math.ceil(max(deadline - self.clock.monotonic(), 0) * 1000))
            for due in self.deadlines.due(self.clock.monotonic()):
                self._lines.append(
                    " ".join(part for part in (due.kind.value, due.member_id) if part)
                )
                self._carry_out(self.group.expire(due))
        self.clock.advance_ms(max(round((end - self.clock.monotonic()) * 1000), 0))

    def _hold(self, _: list[str], __: dict[str, str]) -> None:
        self._held = []

    def _release(self, names: list[str], _: dict[str, str]) -> None:
        held, self._held = self._held or [], None
        for store, metadata in held:
            error = ErrorCode[names[0]] if names else None
            if error is None:
                self._put_into_log(metadata)
            self._carry_out(self.group.stored(store, error))

    def _restart(self, _: list[str], __: dict[str, str]) -> None:
        assert self.stored is not None
        self._held = None
        self.deadlines = DeadlineQueue()
        self.group = self._new_group()
        to_end(
            self.group.restore_metadata(GROUP_METADATA.decode(GROUP_METADATA.encode(self.stored)))
        )

    def _unload(self, _: list[str], __: dict[str, str]) -> None:
        self._carry_out(self.group.unload())

    def _show(self, _: list[str], __: dict[str, str]) -> None:
        membership = self.group.membership
        self._lines.append(
            f"{self.group.protocol_type} {self.group.protocol_name} leader={membership.leader_id}"
        )
        for member in membership.members.values():
            waits = "join" if member.join_waiter else "sync" if member.sync_waiter else "nothing"
            assignment = member.assignment.decode()
            static = member.group_instance_id
            deadline = self._session_of(member.member_id)
            self._lines.append(
                f"{member.member_id} static={static} waits for {waits}, "
                f"has {assignment!r}, {deadline}"
            )
        if membership.pending_join:
            self._lines.append(f"pending: {' '.join(sorted(membership.pending_join))}")

    # -- outcomes --------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answers):
                self._carry_out([each for each in effect.answers if each is not None])
            elif isinstance(effect, Answer):
                self._lines.append(f"{effect.waiter} <- {_tell(effect.answer)}")
            else:
                self._store(effect)

    def _store(self, store: Store) -> None:
        metadata = to_end(self.group.to_store(store.purpose))
        assert metadata is not None
        told = _tell_store(store, metadata)
        if self._held is not None:
            self._lines.append(f"to store: {told}")
            self._held.append((store, metadata))
        else:
            self._lines.append(f"stored: {told}")
            self._put_into_log(metadata)
            self._carry_out(self.group.stored(store, None))

    def _put_into_log(self, metadata: GroupMetadata) -> None:
        self.stored = metadata
        self.group.in_log(metadata)

    def _session_of(self, member_id: str) -> str:
        for deadline, when in self.deadlines.items():
            if deadline.member_id == member_id:
                left = round((when - self.clock.monotonic()) * 1000)
                return f"session ends in {left} ms"
        return "no session"

    def _new_group(self) -> Group:
        def number() -> str:
            return str(next(self._numbers))

        return Group("g", self.settings, self.clock, self.deadlines, number)


def _tell(answer: JoinAnswer | SyncAnswer) -> str:
    if isinstance(answer, SyncAnswer):
        assigned = f" {answer.assignment.decode()!r}" if answer.error is ErrorCode.none else ""
        return f"sync {answer.error.name}{assigned}"
    if answer.error is not ErrorCode.none:
        return f"join {answer.error.name} id={answer.member_id!r}"
    parts: list[Any] = [
        f"join none id={answer.member_id!r} generation={answer.generation_id}",
        f"protocol={answer.protocol_name} leader={answer.leader_id}",
    ]
    if answer.members:
        parts.append("members=" + ",".join(member.member_id for member in answer.members))
    if answer.skip_assignment:
        parts.append("skip assignment")
    return " ".join(parts)


def _tell_store(store: Store, metadata: GroupMetadata) -> str:
    members = ",".join(
        f"{member.member_id}:{member.assignment.decode()}" for member in metadata.members
    )
    return (
        f"{type(store.purpose).__name__} generation={metadata.generation_id} "
        f"protocol={metadata.protocol_name} leader={metadata.leader_id} members={members}"
    )
