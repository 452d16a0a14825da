"""Random clients against one group: what must hold after every step, whatever they do.

Clients join, sync, beat, commit, leave, restart under their instance id and fall silent; writes
succeed at once, late or not at all; time passes. What is decided for all members is told to them,
and made a record, at once or step by step, with all of that in between. Counters that the group
keeps for speed are compared with a slow twin that counts again. In the end all members fall
silent: none may be left waiting, and the group must be empty.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pytest

from coordination.groups.classic.scenario import subscription
from coordination.settings import Settings
from drumlin.clock import ManualClock
from drumlin.coordination.deadlines import DeadlineQueue
from drumlin.coordination.groups.classic import membership
from drumlin.coordination.groups.classic.group import Group
from drumlin.coordination.groups.classic.records import GroupMetadata, MemberMetadata
from drumlin.coordination.groups.every_kind.committer import Committer
from drumlin.coordination.groups.every_kind.messages import (
    Answer,
    Answers,
    Assigned,
    Effect,
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    Protocols,
    StaticMemberReplaced,
    Store,
    SyncAnswer,
    SyncRequest,
)
from drumlin.coordination.groups.every_kind.states import Deadline, GroupState
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.depth import seeds
from rig.time.stepped import Stepped

PROTOCOLS = ("range", "sticky", "cooperative")
SILENCE_MS = 4_000_000


class Client:
    """What one client knows of itself."""

    def __init__(self, name: str, is_static: bool) -> None:
        self.name = name
        self.instance_id = name if is_static else None
        self.member_id = ""
        self.generation_id = -1
        self.members: tuple[str, ...] = ()
        self.protocols: Protocols = (("range", subscription("t")), ("sticky", subscription("t")))


class Making(NamedTuple):
    """A record that is made step by step."""

    store: Store
    work: Stepped[GroupMetadata | None]


class Simulation:
    """One group, its clients, and the checks."""

    def __init__(self, seed: int, *, in_steps: float = 0.5) -> None:
        self.chance = random.Random(seed)
        self.in_steps = in_steps
        self.clock = ManualClock()
        self.deadlines: DeadlineQueue[Deadline] = DeadlineQueue()
        settings = Settings(group_initial_rebalance_delay_ms=self.chance.choice([0, 3_000]))
        settings.group_max_size = self.chance.choice([3, 100])
        numbers = iter(range(1_000_000))
        self.group = Group("g", settings, self.clock, self.deadlines, lambda: str(next(numbers)))
        self.clients = [Client(f"c{n}", is_static=n % 3 == 0) for n in range(5)]
        self.waiting: dict[int, Client] = {}
        self.requests = 0
        self.telling: list[Answers] = []
        self.making: list[Making] = []
        self.held: list[tuple[Store, GroupMetadata]] = []
        self.log: list[tuple[Store, GroupMetadata]] = []
        self.joined: dict[int, JoinAnswer] = {}
        self.stored: dict[int, GroupMetadata] = {}
        self.generation_id = 0

    # -- what clients do -------------------------------------------------------------------

    def step(self) -> None:
        client = self.chance.choice(self.clients)
        actions: list[tuple[int, Callable[[Client], None]]] = [
            (8, self.join),
            (8, self.sync),
            (4, self.beat),
            (2, self.commit),
            (1, self.leave),
            (1, self.forget),
            (4, self.let_time_pass),
            (4, self.release),
            (6, self.tell_some),
            (6, self.make_some),
            (3, self.behave),
            (2, self.restart),
        ]
        weights = [weight for weight, _ in actions]
        self.chance.choices([action for _, action in actions], weights)[0](client)
        self.check()

    def join(self, client: Client) -> None:
        if self.chance.random() < 0.1:
            names = self.chance.sample(PROTOCOLS, self.chance.randint(1, 3))
            topics = self.chance.choice(["t", "t,u"])
            client.protocols = tuple((name, subscription(topics)) for name in names)
        request = JoinRequest(
            client.member_id,
            client.instance_id,
            client.name,
            "/127.0.0.1",
            self.chance.choice([10_000, 60_000]),
            self.chance.choice([6_000, 30_000]),
            "consumer",
            client.protocols,
            requires_known_member_id=self.chance.random() < 0.5,
            can_skip_assignment=self.chance.random() < 0.5,
        )
        self.carry_out(self.group.join(request, self.waiter(client)))

    def sync(self, client: Client) -> None:
        assignments = {
            member_id: f"{member_id}@{client.generation_id}".encode()
            for member_id in client.members
        }
        request = SyncRequest(
            client.member_id,
            client.instance_id,
            client.generation_id,
            "consumer",
            None,
            assignments.items(),
        )
        self.carry_out(self.group.sync(request, self.waiter(client)))

    def beat(self, client: Client) -> None:
        self.ask(self.group.heartbeat, client)

    def commit(self, client: Client) -> None:
        def commit(member_id: str, instance_id: str | None, generation_id: int) -> None:
            committer = Committer(member_id, instance_id, generation_id)
            before = dict(self.deadlines.items())
            try:
                self.group.check_offset_commit(committer)
            finally:
                assert dict(self.deadlines.items()) == before  # to check changes nothing
            self.group.note_commit(committer)

        self.ask(commit, client)

    def ask(self, question: Callable[[str, str | None, int], None], client: Client) -> None:
        try:
            question(client.member_id, client.instance_id, client.generation_id)
        except KafkaError as refusal:
            self.learn(client, refusal.code)

    def leave(self, client: Client) -> None:
        _, effects = self.group.leave([LeavingMember(client.member_id, client.instance_id)])
        client.member_id, client.generation_id = "", -1
        self.carry_out(effects)

    def forget(self, client: Client) -> None:
        """The client is restarted."""
        client.member_id, client.generation_id, client.members = "", -1, ()

    def restart(self, client: Client) -> None:
        self.forget(client)
        self.join(client)

    def behave(self, _: Client) -> None:
        """Everybody does what a good client does, so that there is something to disturb."""
        for _ in range(2):
            for client in self.clients:
                if client not in self.waiting.values():
                    self.join(client)
            self.advance(3_000)
        for client in self.clients:
            self.sync(client)
        self.settle()

    def let_time_pass(self, _: Client) -> None:
        self.advance(self.chance.choice([10, 1_000, 3_000, 7_000]))

    # -- what the broker does --------------------------------------------------------------

    def waiter(self, client: Client) -> int:
        self.requests += 1
        self.waiting[self.requests] = client
        return self.requests

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answer):
                self.give(effect)
            elif isinstance(effect, Answers):
                self.telling.append(effect)
                if self.chance.random() >= self.in_steps:
                    self.tell(effect, math.inf)
            else:
                self.make(effect)

    def give(self, answer: Answer | None) -> None:
        if answer is not None:
            client = self.waiting.pop(answer.waiter)  # no member is answered twice
            self.answered(client, answer.answer)

    def tell_some(self, _: Client) -> None:
        if self.telling:
            self.tell(self.chance.choice(self.telling), self.chance.randint(1, 4))

    def tell(self, answers: Answers, steps: float) -> None:
        while steps > 0:
            try:
                self.give(next(answers.answers))
            except StopIteration:
                self.telling.remove(answers)
                return
            steps -= 1

    def make(self, store: Store) -> None:
        making = Making(store, Stepped(self.group.to_store(store.purpose)))
        waits = self.making and self.group.membership.members
        if waits or self.chance.random() < self.in_steps:
            self.making.append(making)
        else:
            self.written(store, making.work.to_end())

    def make_some(self, _: Client) -> None:
        for _ in range(self.chance.randint(1, 4)):
            self.make_step()

    def make_step(self) -> None:
        if not self.making:
            return
        try:
            next(self.making[0].work)
        except StopIteration as done:
            self.written(self.making.pop(0).store, done.value)

    def written(self, store: Store, metadata: GroupMetadata | None) -> None:
        if metadata is None or not self.group.awaits(store.purpose):
            return
        if self.chance.random() < 0.1:
            self.carry_out(self.group.stored(store, ErrorCode.not_coordinator))
            return
        self.log.append((store, metadata))
        self.group.in_log(metadata)
        if self.chance.random() < 0.6:
            self.finish(store, metadata, None)
        else:
            self.held.append((store, metadata))

    def release(self, _: Client) -> None:
        if self.held:
            failed = self.chance.random() < 0.3
            self.finish(*self.held.pop(0), ErrorCode.not_coordinator if failed else None)

    def finish(self, store: Store, metadata: GroupMetadata, error: ErrorCode | None) -> None:
        if error is None:
            self.stored[metadata.generation_id] = metadata
        self.carry_out(self.group.stored(store, error))

    def settle(self) -> None:
        """All that is under way comes to its end."""
        while self.telling or self.making or self.held:
            for answers in list(self.telling):
                self.tell(answers, math.inf)
            self.make_step()
            if self.held:
                self.finish(*self.held.pop(0), None)

    def advance(self, duration_ms: int) -> None:
        end = self.clock.monotonic() + duration_ms / 1000
        while (deadline := self.deadlines.next_deadline()) is not None and deadline <= end:
            self.clock.advance_ms(math.ceil(max(deadline - self.clock.monotonic(), 0) * 1000))
            for due in self.deadlines.due(self.clock.monotonic()):
                self.carry_out(self.group.expire(due))
                self.check()
        self.clock.advance_ms(max(round((end - self.clock.monotonic()) * 1000), 0))

    def answered(self, client: Client, answer: JoinAnswer | SyncAnswer) -> None:
        if isinstance(answer, SyncAnswer):
            self.learn(client, answer.error)
            return
        if answer.error is ErrorCode.none:
            client.member_id, client.generation_id = answer.member_id, answer.generation_id
            client.members = tuple(member.member_id for member in answer.members)
            first = self.joined.setdefault(answer.generation_id, answer)
            assert answer.protocol_name == first.protocol_name
        elif answer.error is ErrorCode.member_id_required:
            client.member_id = answer.member_id
        else:
            self.learn(client, answer.error)

    def learn(self, client: Client, code: ErrorCode) -> None:
        if code in (ErrorCode.unknown_member_id, ErrorCode.fenced_instance_id):
            self.forget(client)

    # -- what must hold --------------------------------------------------------------------

    def check(self) -> None:
        group, membership = self.group, self.group.membership
        members = membership.members
        assert group.generation_id >= self.generation_id
        self.generation_id = group.generation_id
        self._check_twin()
        assert (membership.leader_id in members) if members else membership.leader_id is None
        assert membership.pending_sync <= members.keys()
        assert not membership.pending_join & members.keys()
        waiting = [member.join_waiter for member in members.values() if member.join_waiter]
        waiting += [member.sync_waiter for member in members.values() if member.sync_waiter]
        assert set(waiting) <= self.waiting.keys()
        assert len(self.waiting) - len(waiting) <= sum(each.number for each in self.telling)
        if not self.telling:
            assert sorted(waiting) == sorted(self.waiting)  # no member is forgotten
            assert not any(member.answers_under_way for member in members.values())
        if group.state is GroupState.EMPTY:
            assert not members
        elif group.state is GroupState.PREPARING_REBALANCE:
            assert not any(member.sync_waiter for member in members.values())
        else:
            assert members
            replaced = {
                store.purpose.new_member_id
                for store, _ in [*self.held, *self.making]
                if isinstance(store.purpose, StaticMemberReplaced)
            }
            joining = {each.member_id for each in members.values() if each.join_waiter}
            assert joining <= replaced
            for member in members.values():
                assert group.protocol_name in dict(member.protocols)
        if group.state is GroupState.STABLE:
            self._check_assignment()
            if not self.making:
                self._check_log()
        assigned = [each.generation_id for store, each in self.log if _is_assigned(store)]
        assert assigned == sorted(set(assigned))  # once for each generation, in their order

    def _check_twin(self) -> None:
        membership = self.group.membership
        members = membership.members.values()
        assert membership.awaiting_join == sum(bool(member.join_waiter) for member in members)
        supporters = Counter(name for member in members for name, _ in member.protocols)
        for name in PROTOCOLS:
            assert membership.supported_by_all(((name, b""),)) == (
                supporters[name] == len(membership.members)
            )
        static = {each.group_instance_id: each.member_id for each in members}
        for client in self.clients:
            assert membership.static_member_id(client.name) == static.get(client.name)

    def _check_assignment(self) -> None:
        """Members of a stable group have what was stored, and stored it was for this generation."""
        stored = self.stored[self.group.generation_id]
        assigned = Counter(member.assignment for member in stored.members)
        for member in self.group.membership.members.values():
            assert assigned[member.assignment]

    def _check_log(self) -> None:
        """Whatever could not be written, or was not confirmed, loading gives the same members."""
        name = self.group.protocol_name
        _, logged = self.log[-1]
        assert {each.member_id: each for each in logged.members} == {
            each.member_id: MemberMetadata(
                each.member_id,
                each.group_instance_id,
                each.client_id,
                each.client_host,
                each.rebalance_timeout_ms,
                each.session_timeout_ms,
                each.metadata(name),
                each.assignment,
            )
            for each in self.group.membership.members.values()
        }

    def fall_silent(self) -> None:
        self.settle()
        for _ in range(3):
            self.advance(SILENCE_MS)
            self.settle()
        self.check()
        assert not self.waiting
        assert self.group.state is GroupState.EMPTY
        assert not self.group.membership.pending_join
        assert not len(self.deadlines)


def _is_assigned(store: Store) -> bool:
    return isinstance(store.purpose, Assigned)


@pytest.fixture(autouse=True)
def every_member_is_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(membership, "MEMBERS_PER_STEP", 1)


@pytest.mark.parametrize("in_steps", [0, 0.5, 1])
@pytest.mark.parametrize("seed", seeds(20, 60))
def test_whatever_clients_do(seed: int, in_steps: float) -> None:
    simulation = Simulation(seed, in_steps=in_steps)
    for _ in range(120):
        simulation.step()
    simulation.fall_silent()


def test_simulations_get_everywhere() -> None:
    """The random clients are good for something: they reach all states and outcomes."""
    seen: Counter[str] = Counter()
    for seed in range(40):
        simulation = Simulation(seed, in_steps=seed % 2 / 2)
        for _ in range(120):
            simulation.step()
            seen[simulation.group.state.value] += 1
            for store, _ in simulation.held:
                seen[type(store.purpose).__name__] += 1
            for store, _ in simulation.making:
                seen[f"{type(store.purpose).__name__} in the making"] += 1
            seen["several are told"] += len(simulation.telling) > 1
    assert seen.keys() >= {
        "Empty",
        "PreparingRebalance",
        "CompletingRebalance",
        "Stable",
        Assigned.__name__,
        StaticMemberReplaced.__name__,
        "Assigned in the making",
        "StaticMemberReplaced in the making",
        "several are told",
    }
    assert all(seen.values())
