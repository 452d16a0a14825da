"""Any history of leaders: who follows gets the leader's log, and keeps what both agree on."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from drumlin.replication.divergence import Reset, reset_for, truncation_offset
from drumlin.storage.leader_epochs import EpochEnd, EpochEntry, LeaderEpochs

REPLICAS = 3
#: A record: the epoch of the leader that wrote it, and a number that no other record has.
Record = tuple[int, int]


@dataclass
class Replica:
    """A log without bytes."""

    records: list[Record] = field(default_factory=list)  # from offset 0 on
    start: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)

    @property
    def end(self) -> int:
        return len(self.records)

    def append(self, record: Record) -> None:
        if record[0] > self.epochs.latest_epoch:
            self.epochs.assign(record[0], self.end)
        self.records.append(record)

    def truncate_to(self, offset: int) -> None:
        del self.records[offset:]
        self.start = min(self.start, offset)
        self.epochs.truncate_from_end(offset)

    def start_anew(self, offset: int) -> None:
        self.records = [(-1, -1)] * offset
        self.start = offset
        self.epochs.clear()

    def delete_before(self, offset: int) -> None:
        if offset > self.start:
            self.start = offset
            self.epochs.truncate_from_start(offset)

    # -- following ---------------------------------------------------------------------

    def fetch_from(self, leader: Replica, most: int) -> bool:
        """One round, in which at most so many records come; whether it changed anything."""
        last_epoch = self.epochs.latest_epoch
        if last_epoch >= 0:
            end = leader.epochs.end_offset_for(last_epoch, leader.end)
            if end.end_offset < 0:
                return self._reset(leader)
            if end.epoch < last_epoch or end.end_offset < self.end:
                self._agree(leader, end)
                return True
        if not leader.start <= self.end <= leader.end:
            return self._reset(leader)
        new = leader.records[self.end :][:most]
        for record in new:
            self.append(record)
        has_news = bool(new) or leader.start > self.start
        self.delete_before(min(leader.start, self.end))
        return has_news

    def _agree(self, leader: Replica, end: EpochEnd) -> None:
        before = self.end, self.epochs.latest_epoch
        agreed = agreed_end(self, leader)
        offset = truncation_offset(self.epochs, self.end, end)
        assert offset >= min(agreed, self.end)
        self.truncate_to(offset)
        assert (self.end, self.epochs.latest_epoch) != before

    def _reset(self, leader: Replica) -> bool:
        reset = reset_for(self.end, leader.start, leader.end)
        if reset.offset is None:
            return False
        if reset.is_anew:
            self.start_anew(reset.offset)
        else:
            self.truncate_to(reset.offset)
        return True


def agreed_end(one: Replica, other: Replica) -> int:
    """Up to where both logs are the same, as far as both still have records."""
    start = max(one.start, other.start)
    if start > min(one.end, other.end):
        return 0
    offset = start
    while offset < min(one.end, other.end) and one.records[offset] == other.records[offset]:
        offset += 1
    return offset if offset > start else 0


#: What happens: (what, replica, how much).
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["lead", "append", "append", "fetch", "fetch", "fetch", "delete"]),
        st.integers(0, REPLICAS - 1),
        st.integers(1, 4),
    ),
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
    assert follower.records[start:] == leader.records[start:]
    for offset in range(start, leader.end):
        assert follower.epochs.epoch_for(offset) == leader.epochs.epoch_for(offset)


@given(EVENTS)
def test_followers_come_to_have_their_leaders_log(events: list[tuple[str, int, int]]) -> None:
    replicas = [Replica() for _ in range(REPLICAS)]
    epoch, number = 0, 0
    leader = replicas[0]
    leader.epochs.assign(0, 0)
    for what, index, count in events:
        replica = replicas[index]
        if what == "lead":  # clean or not
            epoch, leader = epoch + 1, replica
            leader.epochs.assign(epoch, leader.end)
        elif what == "append":
            for _ in range(count):
                number += 1
                leader.append((epoch, number))
        elif what == "delete":
            leader.delete_before(min(leader.start + count, leader.end))
        elif replica is not leader:
            replica.fetch_from(leader, count)
    for replica in replicas:
        if replica is not leader:
            follow_to_the_end(replica, leader)


def epochs(*entries: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs(EpochEntry(*entry) for entry in entries)


def test_a_leader_that_ends_the_epoch_earlier() -> None:
    assert truncation_offset(epochs((0, 0), (3, 10)), 20, EpochEnd(3, 15)) == 15


def test_records_of_an_epoch_that_the_leader_does_not_know() -> None:
    assert truncation_offset(epochs((0, 0), (1, 10)), 20, EpochEnd(0, 30)) == 10


def test_an_epoch_of_the_leaders_that_is_not_known_here_takes_another_round() -> None:
    own = epochs((0, 0), (4, 10))
    assert truncation_offset(own, 20, EpochEnd(3, 18)) == 10
    own.truncate_from_end(10)
    assert truncation_offset(own, 10, EpochEnd(0, 7)) == 7


def test_a_log_without_epochs_is_cut_where_the_leader_says() -> None:
    assert truncation_offset(epochs(), 20, EpochEnd(3, 15)) == 15


def test_resets() -> None:
    assert reset_for(20, 0, 15) == Reset(15)
    assert reset_for(20, 30, 40) == Reset(30, is_anew=True)
    assert reset_for(20, 10, 40) == Reset(None)
    assert reset_for(20, 20, 20) == Reset(None)
