"""The set of a transaction's partitions, beside a plain one."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drumlin.coordination.transactions.markers import TopicPartition
from drumlin.coordination.transactions.participants import Participants
from drumlin.wire.uvarint import uvarint

_PARTITIONS = st.tuples(
    st.sampled_from(["a", "b", "topic", "ü", ""]), st.integers(0, 40) | st.integers(0, 2**31 - 1)
)
_SETS = st.frozensets(_PARTITIONS, max_size=30)


def _encoded(partitions: frozenset[TopicPartition]) -> bytes:
    """As the record has them, field by field."""
    topics = sorted({topic for topic, _ in partitions})
    data = []
    for topic in topics:
        indexes = sorted(index for name, index in partitions if name == topic)
        name = topic.encode()
        data += [uvarint(len(name) + 1), name, uvarint(len(indexes) + 1)]
        data += [struct.pack(">i", index) for index in indexes]
        data.append(b"\0")  # no tagged fields
    return b"".join(data)


def _check(made: Participants, plain: frozenset[TopicPartition]) -> None:
    assert made == plain
    assert len(made) == len(plain)
    assert set(made) == plain
    assert b"".join(made.encoded()) == _encoded(plain)
    assert len(made.encoded()) == len({topic for topic, _ in plain})


@given(st.lists(_SETS, max_size=6), _SETS)
def test_the_same_as_a_plain_set(
    joins: list[frozenset[TopicPartition]], gone: frozenset[TopicPartition]
) -> None:
    made, plain = Participants(), frozenset[TopicPartition]()
    for joining in joins:
        before = made
        made, plain = made.with_added(joining), plain | joining
        _check(made, plain)
        assert before <= made
        assert joining <= made
        assert all(each in made for each in joining)
    _check(made.without(gone), plain - gone)
    _check(Participants(made), plain)


@given(_SETS, _PARTITIONS)
def test_whether_one_is_in_it(plain: frozenset[TopicPartition], one: TopicPartition) -> None:
    made = Participants(plain)
    assert (one in made) == (one in plain)
    assert one[0] not in made


@given(_SETS, _SETS, st.integers(0, 2_000))
def test_those_among_it(
    held: frozenset[TopicPartition], asked: frozenset[TopicPartition], more: int
) -> None:
    many = held | {("many", number) for number in range(more)}
    assert Participants(many).among(asked) == many & asked
    assert Participants(many).among(many) == many


def test_very_many_are_not_looked_for_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """What costs five microseconds each would be a turn of 25 ms."""
    many = frozenset(("t", number) for number in range(5_000))
    participants = Participants(many)
    looked_for = 0

    def contains(_: Participants, _partition: object) -> bool:
        nonlocal looked_for
        looked_for += 1
        return True

    monkeypatch.setattr(Participants, "__contains__", contains)
    assert participants.among(many) == many
    assert looked_for == 0
    few = [("t", 1), ("t", 2)]
    assert participants.among(few) == set(few)
    assert looked_for == 2
