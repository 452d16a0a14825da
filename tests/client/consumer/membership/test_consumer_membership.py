"""Memberships in random sequences: several members and a coordinator that is simulated.

What must hold at every step: no partition is had by two members that the group knows, and
no member asks to be called again at once. When the world becomes quiet, everything is assigned.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pytest

from drumlin.client.consumer.assignors import ASSIGNORS, Member
from drumlin.client.consumer.assignors.subscription import decode_subscription, encode_subscription
from drumlin.client.consumer.membership import classic_membership as classic
from drumlin.client.consumer.membership import consumer_membership as modern
from drumlin.client.consumer.membership.classic_membership import ClassicMembership, ClassicOptions
from drumlin.client.consumer.membership.consumer_membership import (
    ConsumerMembership,
    ConsumerProtocolOptions,
)
from drumlin.client.consumer.membership.membership import Duty, DutyKind, Leave, Partitions, Wait
from drumlin.wire.error_codes import ErrorCode

TOPIC = "t"
BEAT_S = 3.0
POLL_S = 60.0
SESSION_S = 20.0


@dataclass
class User:
    """Who polls: now and then, and with duties that take their time."""

    membership: Any
    duty: Duty | None = None
    has: set[tuple[str, int]] = field(default_factory=set)
    is_away: bool = False

    def poll(self, now: float) -> None:
        self.membership.polled(now)
        self.finish()
        self.duty = self.membership.begin_duty()
        if self.duty is not None:
            self.check(self.duty)

    def check(self, duty: Duty) -> None:
        assert duty.partitions
        if duty.kind is DutyKind.ASSIGN:
            assert not duty.partitions & self.has
            self.has |= duty.partitions
        else:
            assert duty.partitions <= self.has

    def finish(self) -> None:
        if self.duty is not None:
            if self.duty.kind is not DutyKind.ASSIGN:
                self.has -= self.duty.partitions
            self.membership.duty_done(self.duty)
            self.duty = None

    def end_poll(self, now: float) -> None:
        self.finish()
        self.membership.poll_ended(now)


class ClassicGroup:
    """A coordinator with a barrier: a join is answered when all known members have joined."""

    def __init__(self, partitions: int) -> None:
        self.counts = {TOPIC: partitions}
        self.generation = 0
        self.next_id = 0
        self.seen: dict[str, float] = {}
        self.joins: dict[str, classic.Join] = {}
        self.joined: dict[str, classic.Joined] = {}
        self.syncs: set[str] = set()
        self.assigned: dict[str, Partitions] | None = None
        self.began: float | None = None

    def is_member(self, member_id: str) -> bool:
        return member_id in self.seen

    def ask(self, membership: ClassicMembership, step: Any, now: float) -> bool:
        """Answer, unless the answer has to wait: then False."""
        if isinstance(step, classic.Join):
            return self._join(membership, step, now)
        if step.member_id not in self.seen:
            membership.refused(step, ErrorCode.unknown_member_id, now)
            return True
        self.seen[step.member_id] = now
        if isinstance(step, Leave):
            self._drop(step.member_id, now)
            membership.left()
            return True
        if isinstance(step, classic.Sync):
            return self._sync(membership, step, now)
        if step.generation_id != self.generation:
            membership.refused(step, ErrorCode.illegal_generation, now)
        elif self.began is not None:
            membership.refused(step, ErrorCode.rebalance_in_progress, now)
        else:
            membership.heartbeat_succeeded(now)
        return True

    def _join(self, membership: ClassicMembership, step: classic.Join, now: float) -> bool:
        if not step.member_id:
            self.next_id += 1
            membership.member_id_given(f"m{self.next_id:03}")
            self.seen[f"m{self.next_id:03}"] = now
            return True
        if step.member_id not in self.seen:
            membership.refused(step, ErrorCode.unknown_member_id, now)
            return True
        self.seen[step.member_id] = now
        if self.joins.get(step.member_id) is step:
            answer = self.joined.pop(step.member_id, None)
            if answer is not None:
                membership.joined(answer, now)
            return answer is not None
        if self.began is None:
            self._begin(now)
        self.joins[step.member_id] = step
        return False

    def _begin(self, now: float) -> None:
        self.began = now
        self.joins = {}
        self.joined = {}
        self.assigned = None

    def _sync(self, membership: ClassicMembership, step: classic.Sync, now: float) -> bool:
        if step.generation_id != self.generation or self.began is not None:
            membership.refused(step, ErrorCode.rebalance_in_progress, now)
            return True
        if step.members is not None:
            members = [
                Member(member_id, None, decode_subscription(data))
                for member_id, _, data in step.members
            ]
            membership.led(self.counts)
            assigned = ASSIGNORS[step.protocol].assign(self.counts, members)
            self.assigned = {each: frozenset(places) for each, places in assigned.items()}
        if self.assigned is None:
            return False
        membership.synced(self.assigned.get(step.member_id, frozenset()), now)
        return True

    def tick(self, now: float) -> None:
        """Members that are silent go; a barrier that is full opens."""
        for member_id, at in list(self.seen.items()):
            joins = self.began is not None and member_id in self.joins
            if not joins and now > at + SESSION_S:
                self._drop(member_id, now)
        if self.began is None or not self.joins:
            return
        if now > self.began + POLL_S:
            for member_id in self.seen.keys() - self.joins.keys():
                del self.seen[member_id]
        if self.joins.keys() >= self.seen.keys():
            self.generation += 1
            self.began = None
            leader = min(self.joins)
            first = next(iter(self.joins.values())).protocols
            name = first[0][0]
            members = tuple(
                (each, None, encode_subscription(dict(join.protocols)[name]))
                for each, join in sorted(self.joins.items())
            )
            self.joined = {
                each: classic.Joined(
                    self.generation, each, leader, name, members if each == leader else ()
                )
                for each in self.joins
            }
            for each in self.joins:
                self.seen[each] = now

    def _drop(self, member_id: str, now: float) -> None:
        self.seen.pop(member_id, None)
        self.joins.pop(member_id, None)
        self.joined.pop(member_id, None)
        if self.began is None:
            self._begin(now)


class World:
    """Members, a coordinator, a clock. One request of each member may be under way."""

    def __init__(self, group: Any, members: list[Any], seed: int) -> None:
        self.group = group
        self.random = random.Random(seed)
        self.now = 1000.0
        self.users = [User(each) for each in members]
        self.asked: list[Any] = [None] * len(members)

    def step(self, index: int, *, is_quiet: bool = False) -> None:
        user = self.users[index]
        membership = user.membership
        step = self.asked[index] or membership.next_step(self.now)
        if isinstance(step, Wait):
            assert step.until is None or step.until > self.now, "asks to be called at once"
            return
        self.asked[index] = None
        chance = 1.0 if is_quiet else self.random.random()
        if chance < 0.05:
            membership.unanswered(step, self.now)
        elif chance < 0.08:
            self.group.ask(membership, step, self.now)  # arrives; the answer does, too, but
            membership.unanswered(step, self.now)  # then something else is lost
        elif chance < 0.1:
            membership.refused(step, ErrorCode.not_coordinator, self.now)
        elif not self.group.ask(membership, step, self.now):
            self.asked[index] = step

    def move(self) -> None:
        index = self.random.randrange(len(self.users))
        user = self.users[index]
        what = self.random.random()
        if what < 0.4:
            self.step(index)
        elif what < 0.6 and not user.is_away:
            user.poll(self.now)
        elif what < 0.75:
            user.end_poll(self.now)
        elif what < 0.77:
            user.is_away = not user.is_away
        elif what < 0.78:
            user.membership.disowned(
                self.random.choice([ErrorCode.unknown_member_id, ErrorCode.rebalance_in_progress])
            )
        else:
            self.now += self.random.choice([0.01, 0.2, 1.0, 5.0])
        self.group.tick(self.now)
        self.check()

    def check(self) -> None:
        known = [
            each.membership
            for each in self.users
            if each.membership.credentials is not None
            and self.group.is_member(each.membership.credentials.member_id)
        ]
        taken = [each for membership in known for each in membership.owned]
        assert len(taken) == len(set(taken)), "two members have the same partition"
        for user in self.users:
            if user.duty is None:
                assert user.has == user.membership.owned

    def become_quiet(self) -> None:
        for _ in range(400):
            for index, user in enumerate(self.users):
                user.is_away = False
                user.poll(self.now)
                user.finish()
                user.end_poll(self.now)
                self.step(index, is_quiet=True)
            self.now += 0.5
            self.group.tick(self.now)
            self.check()


def classic_world(seed: int, assignor: str) -> World:
    options = ClassicOptions("g", None, (assignor,), BEAT_S, POLL_S)
    members = [ClassicMembership(options, 1000.0) for _ in range(3)]
    for each in members:
        each.topics_changed(frozenset({TOPIC}), {TOPIC: 7})
    return World(ClassicGroup(7), members, seed)


@pytest.mark.parametrize("assignor", ["range", "sticky", "cooperative-sticky"])
def test_classic_members_in_random_sequences(assignor: str) -> None:
    for seed in range(15):
        world = classic_world(seed, assignor)
        for _ in range(400):
            world.move()
        world.become_quiet()
        owned = [each for user in world.users for each in user.membership.owned]
        assert sorted(owned) == [(TOPIC, each) for each in range(7)], f"seed {seed}"
        assert all(each.membership.phase is classic.Phase.STABLE for each in world.users)


class ModernGroup:
    """A KIP-848 coordinator: takes away first, and gives what no member holds any more."""

    def __init__(self, partitions: int) -> None:
        self.places = [(TOPIC, each) for each in range(partitions)]
        self.epochs: dict[str, int] = {}
        self.held: dict[str, Partitions] = {}
        self.sent: dict[str, Partitions] = {}
        self.seen: dict[str, float] = {}
        self.epoch = 1

    def is_member(self, member_id: str) -> bool:
        return member_id in self.epochs

    def target(self, member_id: str) -> Partitions:
        order = sorted(self.epochs)
        return frozenset(self.places[order.index(member_id) :: len(order)])

    def ask(self, membership: ConsumerMembership, step: Any, now: float) -> bool:
        member_id = step.member_id
        if isinstance(step, Leave):
            self._drop(member_id)
            membership.left()
            return True
        if step.member_epoch == 0:
            assert step.is_full
            assert step.owned == frozenset()
            self.epochs[member_id] = self.epoch = self.epoch + 1
            self.held[member_id] = frozenset()
        elif member_id not in self.epochs:
            membership.refused(step, ErrorCode.unknown_member_id, now)
            return True
        elif step.member_epoch > self.epochs[member_id]:
            membership.refused(step, ErrorCode.fenced_member_epoch, now)
            return True
        self.seen[member_id] = now
        target = self.target(member_id)
        held = self.held[member_id]
        if step.owned is not None and not (held - target) & step.owned:
            held &= target
        if not held - target:
            others = {p for m, places in self.held.items() if m != member_id for p in places}
            held = target - others
            self.epochs[member_id] = self.epoch
        self.held[member_id] = held
        membership.heartbeat_succeeded(step, self.epochs[member_id], BEAT_S, now)
        if step.is_full or self.sent.get(member_id) != held & target:
            self.sent[member_id] = held & target
            membership.target_received(held & target)
        return True

    def tick(self, now: float) -> None:
        for member_id, at in list(self.seen.items()):
            if now > at + SESSION_S:
                self._drop(member_id)

    def _drop(self, member_id: str) -> None:
        if self.epochs.pop(member_id, None) is not None:
            self.epoch += 1
        self.held.pop(member_id, None)
        self.seen.pop(member_id, None)


def test_members_of_the_new_protocol_in_random_sequences() -> None:
    options = ConsumerProtocolOptions("g", None, POLL_S)
    for seed in range(40):
        members = [ConsumerMembership(options, str(UUID(int=each)), 1000.0) for each in range(3)]
        world = World(ModernGroup(7), members, seed)
        for _ in range(400):
            world.move()
        world.become_quiet()
        owned = [each for user in world.users for each in user.membership.owned]
        assert sorted(owned) == [(TOPIC, each) for each in range(7)], f"seed {seed}"
        assert all(each.membership.phase is modern.Phase.STABLE for each in world.users)


def joining_member() -> tuple[ClassicMembership, classic.Join]:
    membership = ClassicMembership(ClassicOptions("g", None, ("range",), BEAT_S, POLL_S), 0.0)
    assert membership.next_step(0.0) == Wait(None)  # what it wants is not known yet
    membership.topics_changed(frozenset({TOPIC}), {TOPIC: 1})
    join = membership.next_step(0.0)
    assert isinstance(join, classic.Join)
    return membership, join


@pytest.mark.parametrize(
    ("code", "ends"),
    [
        (ErrorCode.rebalance_in_progress, False),
        (ErrorCode.coordinator_load_in_progress, False),
        (ErrorCode.not_coordinator, False),
        (ErrorCode.unknown_server_error, False),
        (ErrorCode.unknown_member_id, False),
        (ErrorCode.inconsistent_group_protocol, True),
        (ErrorCode.invalid_session_timeout, True),
        (ErrorCode.group_max_size_reached, True),
        (ErrorCode.fenced_instance_id, True),
        (ErrorCode.group_authorization_failed, True),
    ],
)
def test_a_join_that_is_refused(code: ErrorCode, ends: bool) -> None:
    membership, join = joining_member()
    membership.refused(join, code, 1.0)
    if ends:
        assert (membership.failure, membership.phase) == (code, classic.Phase.FAILED)
        assert membership.next_step(100.0) == Wait(None)
    else:
        assert membership.failure is None
        assert isinstance(membership.next_step(2.0), classic.Join)


def test_a_leader_that_comes_back_static_assigns_nothing() -> None:
    membership, _ = joining_member()
    answer = classic.Joined(3, "m", "m", "range", (("m", "i", b""),), skip_assignment=True)
    membership.joined(answer, 1.0)
    assert membership.next_step(1.0) == classic.Sync(3, "m", "range", None)


def test_a_commit_that_is_refused_in_the_midst_of_a_join_changes_nothing() -> None:
    membership, _ = joining_member()
    membership.joined(classic.Joined(3, "m", "x", "range", ()), 1.0)
    membership.disowned(ErrorCode.rebalance_in_progress)
    assert isinstance(membership.next_step(1.0), classic.Sync)
    membership.synced(frozenset({(TOPIC, 0)}), 1.0)
    membership.disowned(ErrorCode.rebalance_in_progress)
    assert membership.phase is classic.Phase.PREPARING
