"""Any history of leaders: who follows gets the leader's log, and keeps what both agree on."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drumlin.replication.divergence import Cut, Extent, cut_after, cut_out_of_range
from drumlin.storage.log.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs
from rig.depth import so_many

REPLICAS = 3
OWN = Extent(0, 20)
#: A record: the epoch of the leader that wrote it, and a number that no other record has.
Record = tuple[int, int]


@dataclass
class Replica:
    """A log without bytes. A batch is a record."""

    #: From offset 0 on, those included that are not there any more, but were once.
    records: list[Record] = field(default_factory=list)
    #: Where the first segment begins, and where the log does.
    base: int = 0
    start: int = 0
    cleaned: set[int] = field(default_factory=set)
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    @property
    def end(self) -> int:
        return len(self.records)

    @property
    def extent(self) -> Extent:
        return Extent(self.start, self.end)

    def there(self, start: int) -> list[int]:
        return [each for each in range(start, self.end) if each not in self.cleaned]

    def take_over(self, leader: Replica, offset: int) -> None:
        """Append the leader's record at `offset`, and what was cleaned away before it."""
        epoch = leader.records[offset][0]
        if epoch > self.epochs.latest_epoch:
            self.epochs.assign(epoch, self.end)
        self.cleaned.update(range(self.end, offset))
        self.records += leader.records[self.end : offset + 1]

    def cut(self, cut: Cut, leader: Replica) -> None:
        if not cut.is_full and cut.offset > self.start:
            stay = [each for each in self.there(self.base) if each < cut.offset]
            end = stay[-1] + 1 if stay else self.base
            if end >= self.start:
                del self.records[end:]
                self.cleaned = {each for each in self.cleaned if each < end}
                self.epochs.truncate_from_end(end)
                return
            cut = Cut(self.start)
        # What was there before may be anything: nobody will know.
        self.records = (leader.records + [(-1, -1)] * cut.offset)[: cut.offset]
        self.base = self.start = cut.offset
        self.cleaned.clear()
        self.epochs.clear()

    def delete_before(self, offset: int) -> None:
        self.start = max(offset, self.start)

    def expire(self) -> None:
        """Remove the files of what is deleted."""
        if self.start > self.base:
            self.base = self.start
            self.epochs.truncate_from_start(self.base)

    def clean(self, count: int) -> None:
        """The last record stays."""
        self.cleaned.update(self.there(self.base)[:-1][::count])

    def crash(self) -> None:
        """It may have forgotten where its log starts, and finds the epochs in its batches."""
        self.start = self.base
        self.epochs.clear()
        end = self.base
        for offset in self.there(self.base):
            if self.records[offset][0] > self.epochs.latest_epoch:
                self.epochs.assign(self.records[offset][0], end)
            end = offset + 1

    # -- following ---------------------------------------------------------------------

    def fetch_from(self, leader: Replica, most: int) -> bool:
        """One round, in which at most so many records come; whether it changed anything."""
        self.epochs.truncate_from_end(self.end)  # where one began, and got no record
        last_epoch = self.epochs.latest_epoch
        if last_epoch >= 0:
            end = leader.epochs.end_offset_for(last_epoch, leader.end)
            if end.end_offset < 0:
                return self._reset(leader)
            is_known = leader.epochs.reaches_back_to(last_epoch)
            if not is_known:
                end = EpochEnd(last_epoch, leader.start)
            if not is_known or end.epoch < last_epoch or end.end_offset < self.end:
                self._agree(leader, end)
                return True
        if not leader.start <= self.end <= leader.end:
            return self._reset(leader)
        if last_epoch < 0:  # it has nothing
            self.records = leader.records[: self.end]
        # The leader believes now that it has nothing else.
        assert self.records[self.base :] == leader.records[self.base : self.end]
        new = leader.there(self.end)[:most]
        for offset in new:
            self.take_over(leader, offset)
        has_news = bool(new) or leader.start > self.start
        self.delete_before(min(leader.start, self.end))
        return has_news

    def _agree(self, leader: Replica, end: EpochEnd) -> None:
        before = self.extent, self.epochs.latest_epoch
        agreed = agreed_end(self, leader)
        cut = cut_after(self.epochs, self.extent, end, leader.start)
        if not self.cleaned and not leader.cleaned and not cut.is_full:
            assert cut.offset >= min(agreed, self.end)
        self.cut(cut, leader)
        assert (self.extent, self.epochs.latest_epoch) != before

    def _reset(self, leader: Replica) -> bool:
        cut = cut_out_of_range(self.extent, leader.extent)
        if cut is not None:
            self.cut(cut, leader)
        return cut is not None


class World:
    """Replicas, one of which leads."""

    def __init__(self) -> None:
        self.replicas = [Replica() for _ in range(REPLICAS)]
        self.leader = self.replicas[0]
        self._epoch = self._number = 0
        self.leader.epochs.assign(0, 0)

    def lead(self, replica: Replica, _: int) -> None:
        """Clean or not."""
        self.leader = replica
        self._epoch += 1
        replica.epochs.assign(self._epoch, replica.end)

    def append(self, _: Replica, count: int) -> None:
        for _ in range(count):
            self._number += 1
            self.leader.records.append((self._epoch, self._number))

    def fetch(self, replica: Replica, count: int) -> None:
        if replica is not self.leader:
            replica.fetch_from(self.leader, count)

    def delete(self, _: Replica, count: int) -> None:
        self.leader.delete_before(min(self.leader.start + 2**count, self.leader.end))

    def expire(self, replica: Replica, _: int) -> None:
        replica.expire()

    def clean(self, replica: Replica, count: int) -> None:
        replica.clean(count)

    def crash(self, replica: Replica, count: int) -> None:
        replica.crash()
        if replica is self.leader:
            self.lead(replica, count)


def agreed_end(one: Replica, other: Replica) -> int:
    """Up to where both logs are the same, as far as both still have records."""
    start = max(one.start, other.start)
    if start > min(one.end, other.end):
        return 0
    offset = start
    while offset < min(one.end, other.end) and one.records[offset] == other.records[offset]:
        offset += 1
    return offset if offset > start else 0


_WHAT = ["lead", "append", "append", "fetch", "fetch", "fetch", "delete", "expire", "crash"]
#: What happens: (what, replica, how much).
EVENTS = st.lists(
    st.tuples(st.sampled_from([*_WHAT, "clean"]), st.integers(0, REPLICAS - 1), st.integers(1, 4)),
    max_size=80,
)


def follow_to_the_end(follower: Replica, leader: Replica) -> None:
    for _ in range(4 * (follower.end + leader.end) + 20):
        if not follower.fetch_from(leader, 2):
            break
    else:
        raise AssertionError("it does not come to an end")
    start = max(follower.start, leader.start)
    assert follower.end == leader.end
    assert follower.records[follower.base :] == leader.records[follower.base :]
    for offset in range(start, leader.end):
        if offset not in follower.cleaned | leader.cleaned:
            assert follower.epochs.epoch_for(offset) == leader.epochs.epoch_for(offset)


@settings(max_examples=so_many(500, 20_000))
@given(EVENTS)
def test_followers_come_to_have_their_leaders_log(events: list[tuple[str, int, int]]) -> None:
    world = World()
    for what, index, count in events:
        getattr(world, what)(world.replicas[index], count)
    for replica in world.replicas:
        if replica is not world.leader:
            follow_to_the_end(replica, world.leader)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_a_leader_that_ends_the_epoch_earlier() -> None:
    assert cut_after(epochs((0, 0), (3, 10)), OWN, EpochEnd(3, 15), 0) == Cut(15)


def test_records_of_an_epoch_that_the_leader_does_not_know() -> None:
    assert cut_after(epochs((0, 0), (1, 10)), OWN, EpochEnd(0, 30), 0) == Cut(10)


def test_an_epoch_of_the_leaders_that_is_not_known_here_takes_another_round() -> None:
    own = epochs((0, 0), (4, 10))
    assert cut_after(own, OWN, EpochEnd(3, 18), 0) == Cut(10)
    own.truncate_from_end(10)
    assert cut_after(own, Extent(0, 10), EpochEnd(0, 7), 0) == Cut(7)


def test_a_log_without_epochs_is_cut_where_the_leader_says() -> None:
    assert cut_after(epochs(), OWN, EpochEnd(3, 15), 0) == Cut(15)


@pytest.mark.parametrize("leaders_start", [15, 16])
def test_nothing_is_known_to_be_shared_before_the_leaders_log_start(leaders_start: int) -> None:
    own = epochs((0, 0), (3, 10))
    assert cut_after(own, OWN, EpochEnd(3, 15), leaders_start) == Cut(leaders_start, is_full=True)


def test_a_leader_whose_log_parts_before_all_that_is_here() -> None:
    """As after an unclean election: what was deleted here is there again."""
    own = epochs((3, 10))
    assert cut_after(own, Extent(10, 20), EpochEnd(0, 5), 2) == Cut(2, is_full=True)


def test_a_log_whose_records_are_all_cut_off_still_ends_after_what_was_committed() -> None:
    """It was deleted here, and is not yet at the leader: offsets must not be given out again."""
    assert cut_after(epochs((3, 10)), Extent(10, 20), EpochEnd(0, 50), 2) == Cut(10)
    assert cut_after(epochs((0, 0), (3, 10)), Extent(10, 20), EpochEnd(0, 10), 2) == Cut(10)


def test_an_empty_log_only_forgets_an_epoch() -> None:
    empty = Extent(20, 20)
    assert cut_after(epochs((4, 20)), empty, EpochEnd(3, 30), 0) == Cut(20)
    assert cut_after(epochs((4, 20)), empty, EpochEnd(3, 12), 0) == Cut(0, is_full=True)


def test_a_leader_that_has_not_the_next_offset() -> None:
    assert cut_out_of_range(OWN, Extent(0, 15)) == Cut(15)
    assert cut_out_of_range(OWN, Extent(15, 15)) == Cut(15, is_full=True)
    assert cut_out_of_range(Extent(17, 20), Extent(3, 15)) == Cut(3, is_full=True)
    assert cut_out_of_range(OWN, Extent(30, 40)) == Cut(30, is_full=True)
    assert cut_out_of_range(OWN, Extent(10, 40)) is None
    assert cut_out_of_range(OWN, Extent(20, 20)) is None
