"""Who may lead a partition besides its ISR: scenarios, and what holds after any steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from random import Random

import pytest

from drumlin.metadata.image import NO_LEADER, NO_LOG, LastKnown, LogEnd, PartitionState
from drumlin.metadata.rules.elections import elected
from drumlin.metadata.rules.eligible import Election, complete, election, needed_replicas
from drumlin.metadata.rules.isr_requests import IsrRequest, granted
from drumlin.metadata.rules.leadership import (
    Returned,
    handed_over,
    in_next_epoch,
    is_settled,
    returned,
    settled,
)
from drumlin.metadata.rules.reassignment import cancelled, completed, reassigned
from drumlin.wire.error_codes import KafkaError
from rig.depth import so_many

REPLICAS = (1, 2, 3)
MIN_ISR = 2
ALL = PartitionState(0, 1, 4, REPLICAS, REPLICAS, 9)
END = LogEnd(4, 1000)
EMPTY = Returned(NO_LOG)


def back(state: PartitionState, *node_ids: int, **ends: int) -> PartitionState:
    """All are dead; these have come back, one after the other, from an unclean stop."""
    alive: set[int] = set()
    for node_id in node_ids:
        found = Returned(LogEnd(4, ends.get(f"end_{node_id}", END.end_offset)))
        state = settled(returned(state, node_id, found, alive, MIN_ISR), alive, MIN_ISR)
        alive.add(node_id)
        state = settled(state, alive, MIN_ISR)
    return state


def test_who_leaves_is_eligible_while_too_few_are_in_sync() -> None:
    two = settled(ALL, {1, 2}, MIN_ISR)
    assert (two.isr, two.elr) == ((1, 2), ())
    one = settled(two, {1}, MIN_ISR)
    assert (one.leader, one.isr, one.elr) == (1, (1,), (2,))
    nobody = settled(one, {3}, MIN_ISR)
    assert (nobody.leader, nobody.isr, nobody.elr, nobody.last_leader) == (NO_LEADER, (1,), (2,), 1)
    after = settled(nobody, {2, 3}, MIN_ISR)
    assert (after.leader, after.isr, after.elr, after.last_leader) == (2, (2,), (1,), NO_LEADER)
    assert election(nobody, after) is Election.CLEAN
    wish = IsrRequest(after.leader_epoch, 9, ((2, 7), (3, 7)))
    grown = granted(wish, after, 2, {2: 7, 3: 7}, MIN_ISR)
    assert (grown.isr, grown.elr) == ((2, 3), ())


def test_a_power_cut_ends_as_soon_as_enough_are_back() -> None:
    first = back(ALL, 2)
    assert first.leader == NO_LEADER
    assert first.last_known == (LastKnown(2, END, was_complete=True),)
    second = back(ALL, 2, 3, end_2=999)
    assert (second.leader, second.isr) == (3, (3,))  # its log is the longer one
    assert back(ALL, 3, 2).leader == 2  # else the first in the order of the replicas
    assert complete(second) == {1, 2, 3}  # should it go, too


def test_the_log_of_the_later_epoch_is_the_longer_one() -> None:
    known = (LastKnown(2, LogEnd(3, 2000), True), LastKnown(3, LogEnd(4, 10), True))
    state = replace(ALL, leader=NO_LEADER, isr=(1,), last_known=known)
    after = settled(state, {2, 3}, MIN_ISR)
    assert after.leader == 3
    assert election(state, after) is Election.RECOVERY


def test_of_equal_logs_that_of_the_last_leader_is_chosen() -> None:
    known = tuple(LastKnown(each, END, True) for each in (2, 3))
    state = replace(ALL, leader=NO_LEADER, isr=(1,), last_known=known, last_leader=3)
    assert settled(state, {2, 3}, MIN_ISR).leader == 3
    assert settled(replace(state, last_leader=1), {2, 3}, MIN_ISR).leader == 2


@pytest.mark.parametrize("found", [EMPTY, Returned(LogEnd(4, 100), is_copy=True)])
@pytest.mark.parametrize("first", [True, False])
def test_an_empty_or_older_disk_never_leads(found: Returned, first: bool) -> None:
    if first:
        state = settled(returned(ALL, 3, found, (), MIN_ISR), {3}, MIN_ISR)
        assert state.leader == NO_LEADER
        assert 3 not in complete(state)
        state = back(state, 1, 2)
    else:
        state = back(ALL, 1, 2)
        state = settled(returned(state, 3, found, {1, 2}, MIN_ISR), {1, 2, 3}, MIN_ISR)
    assert state.leader == 1
    assert 3 not in complete(state)


def test_not_even_as_the_last_member() -> None:
    alone = replace(ALL, isr=(3,), leader=3)
    gone = settled(returned(alone, 3, EMPTY, {1, 2}, MIN_ISR), REPLICAS, MIN_ISR)
    assert (gone.leader, gone.isr, gone.elr) == (NO_LEADER, (), ())
    assert elected(gone, REPLICAS, MIN_ISR, is_unclean=True).leader == 1
    unclean = settled(gone, REPLICAS, MIN_ISR, may_be_unclean=True)
    assert election(gone, unclean) is Election.UNCLEAN


def test_the_last_member_stays_with_its_log() -> None:
    alone = replace(ALL, isr=(3,), leader=3)
    assert returned(alone, 3, Returned(END), {1, 2}, MIN_ISR) is alone
    # So it does while its log dir is offline: others would be asked in vain.
    assert returned(alone, 3, Returned(None), {1, 2}, MIN_ISR) is alone
    assert returned(ALL, 3, Returned(None), {1, 2}, MIN_ISR).isr == (1, 2)


def test_who_returns_to_a_leader_does_not_lead_in_its_stead() -> None:
    """The leader has what the page caches of two machines have lost, and begins anew for once."""
    alone = settled(ALL, {3}, MIN_ISR)
    assert (alone.leader, alone.elr) == (3, (1, 2))
    first = returned(alone, 1, Returned(LogEnd(4, 900)), {3}, MIN_ISR)
    both = returned(first, 2, Returned(LogEnd(4, 900)), {1, 3}, MIN_ISR)
    assert (both.leader, both.isr, both.elr) == (3, (3,), ())
    wish = IsrRequest(both.leader_epoch, both.partition_epoch, ((3, 7),))
    renewed = granted(wish, both, 3, dict.fromkeys(REPLICAS, 7), MIN_ISR)
    waiting = settled(renewed, {1, 2}, MIN_ISR)
    assert (waiting.leader, waiting.isr) == (NO_LEADER, (3,))
    assert settled(waiting, REPLICAS, MIN_ISR).leader == 3
    asked = elected(waiting, {1, 2}, MIN_ISR, is_unclean=True)
    assert asked.leader == 1


def test_whose_leader_comes_back_without_its_log_wait_for_an_operator() -> None:
    """They lack what it alone had, and have fetched since: nobody knows by now who lacks least."""
    known = (LastKnown(1, LogEnd(4, 900), True), LastKnown(2, LogEnd(4, 950), True))
    alone = replace(ALL, leader=3, isr=(3,), last_known=known)
    wish = IsrRequest(alone.leader_epoch, alone.partition_epoch, ((3, 7),))
    renewed = settled(granted(wish, alone, 3, dict.fromkeys(REPLICAS, 7), MIN_ISR), {1, 2}, MIN_ISR)
    gone = settled(returned(renewed, 3, EMPTY, {1, 2}, MIN_ISR), REPLICAS, MIN_ISR)
    assert (gone.leader, gone.isr) == (NO_LEADER, ())
    assert complete(gone) == set()
    asked = elected(gone, REPLICAS, MIN_ISR, is_unclean=True)
    assert asked.leader == 2
    assert election(gone, asked) is Election.UNCLEAN


def test_the_last_one_that_lacks_nothing_stays_while_its_log_dir_is_offline() -> None:
    """Others came back from the same power cut before it: it may be back in a moment."""
    known = (LastKnown(2, LogEnd(4, 900), True),)
    alone = replace(ALL, leader=3, isr=(3,), last_known=known)
    assert returned(alone, 3, Returned(None), REPLICAS, MIN_ISR) is alone
    gone = returned(alone, 3, EMPTY, {1, 2}, MIN_ISR)
    assert settled(gone, {1, 2}, MIN_ISR).leader == 2


@pytest.mark.parametrize("min_isr", [1, 2])
def test_one_copy_alone_is_not_believed(min_isr: int) -> None:
    """The first one back has lost what the others have, which are about to come."""
    cut = settled(ALL, (), min_isr)
    first = returned(cut, 1, Returned(LogEnd(4, 10)), (), min_isr)
    assert settled(first, {1}, min_isr).leader == NO_LEADER
    assert settled(first, {1, 2}, min_isr).leader == 2  # it has stopped cleanly
    second = returned(first, 2, Returned(END), {1}, min_isr)
    assert settled(second, {1, 2}, min_isr).leader == 2
    only = replace(ALL, replicas=(1, 2), isr=(1,), leader=1)
    assert returned(only, 1, Returned(LogEnd(4, 10)), {2}, min_isr) is only


def test_who_never_was_in_sync_is_not_waited_for() -> None:
    two = settled(ALL, {2, 3}, MIN_ISR)
    cut = settled(two, (), MIN_ISR)
    first = settled(returned(cut, 1, Returned(END), (), MIN_ISR), {1}, MIN_ISR)
    assert first.leader == NO_LEADER
    assert complete(first) == {2, 3}
    second = returned(first, 2, Returned(LogEnd(4, 10)), {1}, MIN_ISR)
    assert settled(second, {1, 2}, MIN_ISR).leader == NO_LEADER
    third = returned(second, 3, EMPTY, {1, 2}, MIN_ISR)
    assert settled(third, REPLICAS, MIN_ISR).leader == 2


def test_those_that_were_back_need_not_be_there() -> None:
    """What they had is known: nobody has more than the one that is there."""
    state = replace(ALL, leader=NO_LEADER, isr=(1,))
    known = (LastKnown(2, LogEnd(4, 900), True), LastKnown(3, END, True))
    assert settled(replace(state, last_known=known), {3}, MIN_ISR).leader == 3
    assert settled(replace(state, last_known=known), {2}, MIN_ISR).leader == NO_LEADER
    last = replace(state, isr=(), last_known=known, last_leader=2)
    assert settled(last, {2}, MIN_ISR).leader == NO_LEADER  # Apache Kafka would take the last one
    equal = replace(last, last_known=(known[0], LastKnown(3, LogEnd(4, 900), True)))
    assert settled(equal, {2}, MIN_ISR).leader == 2


def test_all_disks_are_lost() -> None:
    state = ALL
    for node_id in REPLICAS:
        assert settled(state, REPLICAS[: node_id - 1], MIN_ISR).leader == NO_LEADER or node_id == 1
        state = returned(state, node_id, EMPTY, REPLICAS[: node_id - 1], MIN_ISR)
    after = settled(state, REPLICAS, MIN_ISR)
    assert after.leader == 1  # there is nothing to wait for
    assert election(state, after) is Election.UNCLEAN


def test_fewer_may_be_asked_for_from_now_on() -> None:
    one = settled(ALL, {1}, MIN_ISR)
    assert one.elr == (2, 3)
    assert settled(one, {1}, 1).elr == ()


# -- any steps -----------------------------------------------------------------------------------

BROKERS = range(1, 6)
#: How each step may go; those that leave less than all in sync come often.
STEPS = (
    *("die", "come", "come_unclean") * 3,
    *("settle", "commit") * 4,
    *("empty", "copy", "grow", "grow", "grow", "shrink"),
    *("hand", "prefer", "next", "reassign", "cancel", "complete"),
)


@dataclass
class World:
    """A partition, its brokers, and what each of them has: records that were told to be there."""

    random: Random
    min_isr: int
    state: PartitionState = field(
        default_factory=lambda: PartitionState(0, 1, 0, (1, 2, 3), (1, 2, 3))
    )
    alive: set[int] = field(default_factory=lambda: set(BROKERS))
    committed: int = 0
    has: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, 0))
    copies: dict[int, int] = field(default_factory=dict)
    history: list[object] = field(default_factory=list)

    def choose(self) -> int:
        return self.random.choice(list(BROKERS))

    def step(self) -> None:
        before, name = self.state, self.random.choice(STEPS)
        try:
            getattr(self, name)()
        except KafkaError:
            self.state = before
        self.history.append((name, self.state, sorted(self.alive), self.committed, dict(self.has)))
        self.follow()
        self.check(before)

    def follow(self) -> None:
        """Whoever is in sync has what is committed; a leader's log is what counts from then on."""
        state = self.state
        if state.leader != NO_LEADER and state.leader in self.alive:
            for each in state.isr:
                if each in self.alive:
                    self.has[each] = self.has[state.leader]

    # -- what happens --

    def die(self) -> None:
        self.alive.discard(self.choose())

    def come(self) -> None:
        self.alive.add(self.choose())

    def _returns(self, node_id: int, found: Returned) -> None:
        self.alive.discard(node_id)
        self.state = returned(self.state, node_id, found, self.alive, self.min_isr)
        self.alive.add(node_id)

    def come_unclean(self) -> None:
        node_id = self.choose()
        self._returns(node_id, Returned(LogEnd(0, self.has[node_id])))

    def empty(self) -> None:
        """No more disks are lost than records can bear."""
        node_id = self.choose()
        if self.may_lose(node_id):
            self.has[node_id] = 0
            self._returns(node_id, EMPTY)

    def copy(self) -> None:
        node_id = self.choose()
        if node_id not in self.copies:
            self.copies[node_id] = self.has[node_id]
        elif self.may_lose(node_id):
            self.has[node_id] = self.copies.pop(node_id)
            self._returns(node_id, Returned(LogEnd(0, self.has[node_id]), is_copy=True))

    def may_lose(self, node_id: int) -> bool:
        return any(
            self.has[each] >= self.committed for each in complete(self.state) - {node_id}
        ) and (node_id not in complete(self.state) or len(complete(self.state)) > 1)

    def settle(self) -> None:
        before, self.state = self.state, settled(self.state, self.alive, self.min_isr)
        assert self.state is before or not is_settled(before, self.alive), self.history[-3:]

    def hand(self) -> None:
        self.state = handed_over(self.state, self.choose(), self.alive, self.min_isr)

    def prefer(self) -> None:
        self.state = elected(self.state, self.alive, self.min_isr)

    def reassign(self) -> None:
        target = self.random.sample(list(BROKERS), self.random.randint(2, 4))
        self.state = reassigned(self.state, target, self.alive, self.min_isr)

    def cancel(self) -> None:
        self.state = cancelled(self.state, self.alive, self.min_isr)

    def complete(self) -> None:
        self.state = completed(self.state, self.alive, self.min_isr)

    def next(self) -> None:
        self.state = in_next_epoch(self.state, self.choose())

    def shrink(self) -> None:
        self.wish([each for each in self.state.isr if self.random.random() < 0.5])

    def grow(self) -> None:
        new = [each for each in self.state.replicas if each not in self.state.isr]
        self.wish([*self.state.isr, *(each for each in new if self.random.random() < 0.5)])

    def wish(self, isr: list[int]) -> None:
        state = self.state
        if state.leader in self.alive:
            members = tuple((each, 7) for each in dict.fromkeys([state.leader, *isr]))
            wish = IsrRequest(state.leader_epoch, state.partition_epoch, members)
            epochs = dict.fromkeys(self.alive, 7)
            self.state = granted(wish, state, state.leader, epochs, self.min_isr)

    def commit(self) -> None:
        """As a leader does: never while others are remembered, or too few are in sync."""
        state = self.state
        if (
            state.leader in self.alive
            and set(state.isr) <= self.alive
            and len(state.isr) >= needed_replicas(state, self.min_isr)
            and not state.elr
            and not state.last_known
        ):
            self.committed += 1
            for each in state.isr:
                self.has[each] = self.committed

    # -- what holds --

    def check(self, before: PartitionState) -> None:
        state = self.state
        isr, elr = set(state.isr), set(state.elr)
        known = {each.node_id for each in state.last_known}
        assert isr | elr | known <= set(state.replicas), self.history[-3:]
        assert not isr & elr and not isr & known and not elr & known, self.history[-3:]
        assert state.leader in {NO_LEADER, *isr}, self.history[-3:]
        if state.leader != NO_LEADER and len(isr) >= needed_replicas(state, self.min_isr):
            assert not elr and not known, self.history[-3:]
        if state.leader != before.leader:
            assert state.leader_epoch > before.leader_epoch, self.history[-3:]
        for each in complete(state):
            assert self.has[each] >= self.committed, (each, self.history[-6:])
        if election(before, state) is not None:
            assert self.has[state.leader] >= self.committed, self.history[-6:]
        assert complete(state), self.history[-6:]


@pytest.mark.parametrize("min_isr", [1, 2, 3])
def test_whoever_may_lead_has_all_that_is_committed(min_isr: int) -> None:
    elections = 0
    for seed in range(so_many(300, 6000)):
        world = World(Random(f"{min_isr} {seed}"), min_isr)
        for _ in range(60):
            before = world.state
            world.step()
            elections += election(before, world.state) is not None
    assert elections > 100


def test_old_states_know_nobody() -> None:
    """Written by Apache Kafka, or by an earlier version."""
    state = PartitionState(0, NO_LEADER, 4, REPLICAS, (3,))
    assert settled(state, {1, 2}, MIN_ISR) is state
    assert settled(state, {3}, MIN_ISR).leader == 3


def test_a_log_of_which_all_records_were_deleted() -> None:
    """It tells no epoch, and still ends where it did: no shorter one is to give offsets again."""
    state = replace(ALL, leader=NO_LEADER, isr=())
    for emptied, other, leader in (
        (LogEnd(-1, 133), LogEnd(0, 8), 2),
        (LogEnd(-1, 133), LogEnd(3, 137), 3),
        (LogEnd(-1, 0), LogEnd(0, 8), 3),
    ):
        known = (LastKnown(2, emptied, True), LastKnown(3, other, True))
        assert settled(replace(state, last_known=known), {2, 3}, MIN_ISR).leader == leader


def test_nobody_is_forgotten_for_those_that_are_not_there() -> None:
    """Their sessions are over, and no controller has looked yet."""
    found = Returned(END)
    after = returned(ALL, 3, found, {1}, MIN_ISR)
    assert (after.leader, after.isr, after.elr) == (1, (1,), (2,))
    assert after.last_known == (LastKnown(3, END, was_complete=True),)
    assert returned(ALL, 3, found, {1, 2}, MIN_ISR).last_known == ()
