"""The checks of clusters find what they must find: in groups, in replicas, and in plans."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from guarantees.cluster.groups import check_groups
from guarantees.cluster.plans import FAULTS, plan
from guarantees.cluster.replicas import Replica, differences
from guarantees.cluster.sharing import Deliveries
from guarantees.histories.history import History
from rig.data.batches import Batch, Rec, batch

# -- groups ------------------------------------------------------------------------------------


def _written(count: int) -> list[list[Any]]:
    """Records 1, 2, 3 ... at offsets 0, 1, 2 ... of one partition."""
    events: list[list[Any]] = []
    for number in range(1, count + 1):
        events += [
            ["begin", 0, "w", number],
            ["write", 0, "w", number, "a", number],
            ["commit", 0, "w", number],
            ["ack", 1, "w", number, number - 1],
            ["end", 1, "w", number, "committed"],
        ]
    return events


def _member(name: str, *steps: tuple[str, int, Any]) -> list[list[Any]]:
    """What a member does at some time: `assign` or `commit` (or `ask`) an offset, `read` some."""
    events: list[list[Any]] = [["member", 0, name, "g"]]
    for kind, at, what in steps:
        if kind == "assign":
            events.append(["jump", at, name, {"a": None}])
        elif kind == "read":
            events.append(["poll", at, name, None, [["a", each, each + 1] for each in what]])
        else:
            events.append(["committing", at, name, {"a": what}])
            if kind == "commit":
                events.append(["committed", at + 1, name])
    return events


_FIRST = _member("m", ("assign", 10, None), ("read", 11, range(4)), ("commit", 12, 4))


def _complaints(*events: list[Any]) -> list[str]:
    return check_groups(History.of([*_written(8), *events]))


def test_a_group_goes_on_where_it_has_committed() -> None:
    assert not _complaints(*_FIRST, *_member("n", ("assign", 20, None), ("read", 21, range(4, 8))))


def test_what_was_not_committed_may_be_read_again() -> None:
    again = _member("n", ("assign", 20, None), ("read", 21, range(2, 8)))
    asked = _member("m", ("assign", 10, None), ("read", 11, range(4)), ("ask", 12, 2))
    assert not _complaints(*asked, *again)


def test_a_commit_that_is_lost() -> None:
    (complaint,) = _complaints(
        *_FIRST, *_member("n", ("assign", 20, None), ("read", 21, range(2, 8)))
    )
    assert complaint == "group g: n begins a at 2: 4 was committed"


def test_a_commit_after_the_assignment_says_nothing_of_it() -> None:
    assert not _complaints(
        *_FIRST, *_member("n", ("assign", 11, None), ("read", 21, range(8)), ("commit", 22, 8))
    )


def test_a_commit_without_an_answer_may_be_made_later() -> None:
    late = _member("m", ("ask", 9, 2), *[("assign", 10, None), ("read", 11, range(4))])
    assert not _complaints(
        *late, ["committing", 12, "m", {"a": 4}], ["committed", 13, "m"],
        *_member("n", ("assign", 20, None), ("read", 21, range(2, 8))),
    )  # fmt: skip


def test_records_that_no_member_was_given() -> None:
    (complaint,) = _complaints(
        *_FIRST, *_member("n", ("assign", 20, None), ("read", 21, range(6, 8)))
    )
    assert complaint == "group g: 2 records of a are left out, the first at 4"


# -- replicas ----------------------------------------------------------------------------------

_TRANSACTIONAL, _CONTROL = 0x10, 0x20


def _replica(node_id: int, *batches: bytes, path: Path) -> Replica:
    """As read from a folder, below the offset 100."""
    folder = path / str(node_id)
    folder.mkdir()
    (folder / "00000000000000000000.log").write_bytes(b"".join(batches))
    return Replica.read(node_id, folder, 100)


def _keyed(offset: int, key: bytes, value: bytes | None, **fields: Any) -> bytes:
    return Batch((Rec(value, key),), base_offset=offset, **fields).encode()


def _marker(offset: int, kind: int, producer_id: int) -> bytes:
    key = b"\0\0" + kind.to_bytes(2, "big")
    attributes = _TRANSACTIONAL | _CONTROL
    return _keyed(offset, key, b"", extra_attributes=attributes, producer_id=producer_id)


def _differ(path: Path, one: list[bytes], other: list[bytes], *, is_compacted: bool) -> list[str]:
    replicas = [_replica(1, *one, path=path), _replica(2, *other, path=path)]
    return list(differences(replicas, is_compacted=is_compacted))


def test_replicas_are_the_same_bytes(tmp_path: Path) -> None:
    same = [batch(b"a", b"b", base_offset=0), batch(b"c", base_offset=2)]
    above = batch(b"d", base_offset=100)
    assert not _differ(tmp_path, [*same, above], same, is_compacted=False)


def test_a_replica_that_begins_later_has_the_same_from_there(tmp_path: Path) -> None:
    same = [batch(b"a", b"b", base_offset=0), batch(b"c", base_offset=2)]
    assert not _differ(tmp_path, same, same[1:], is_compacted=False)


@pytest.mark.parametrize(
    "other",
    [
        [batch(b"a", base_offset=0)],
        [batch(b"a", base_offset=0), batch(b"x", base_offset=1)],
        [batch(b"a", base_offset=0), batch(b"b", base_offset=2)],
        [],
    ],
)
def test_replicas_that_are_not(tmp_path: Path, other: list[bytes]) -> None:
    one = [batch(b"a", base_offset=0), batch(b"b", base_offset=1)]
    assert len(_differ(tmp_path, one, other, is_compacted=False)) == 1


def test_where_a_cleaner_runs_the_last_values_are_the_same(tmp_path: Path) -> None:
    first, last = _keyed(0, b"k", b"1"), _keyed(1, b"k", b"2")
    gone = [_keyed(2, b"gone", b"1"), _keyed(3, b"gone", None)]
    aborted = _keyed(4, b"k", b"3", extra_attributes=_TRANSACTIONAL, producer_id=5)
    abort = _marker(5, 0, 5)
    assert not _differ(
        tmp_path, [first, last, *gone, aborted, abort], [last, abort], is_compacted=True
    )


@pytest.mark.parametrize(
    "other",
    [
        [_keyed(0, b"k", b"1")],
        [_keyed(1, b"k", b"other")],
        [
            _keyed(1, b"k", b"2"),
            _keyed(4, b"l", b"1", extra_attributes=_TRANSACTIONAL, producer_id=5),
        ],
    ],
)
def test_where_it_runs_and_they_are_not(tmp_path: Path, other: list[bytes]) -> None:
    one = [_keyed(0, b"k", b"1"), _keyed(1, b"k", b"2")]
    assert len(_differ(tmp_path, one, other, is_compacted=True)) == 1


# -- shares, and plans -------------------------------------------------------------------------


def test_what_is_accepted_twice_was_forgotten() -> None:
    deliveries = Deliveries()
    for offset in (0, 1, 1):
        deliveries.note_delivered([("t", 0, offset)])
    deliveries.note_accepted([("t", 0, 0), ("t", 0, 1)])
    assert not deliveries.twice
    assert deliveries.lacking({("t", 0): {0, 1, 2}}) == {("t", 0): 1}
    deliveries.note_accepted([("t", 0, 1)])
    assert deliveries.twice == {("t", 0, 1)}


def test_a_seed_makes_the_same_plan() -> None:
    def some(seed: str) -> list[Any]:
        return list(islice(plan(seed, (0.5, 4.0)), 300))

    assert some("1") == some("1") != some("2")
    assert {each.fault for each in some("1")} == set(FAULTS)
