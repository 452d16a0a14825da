"""Very many items, each once."""

from __future__ import annotations

from drumlin.distinct import Distinct, distinct
from drumlin.turns import to_end


def test_items_are_there_once_in_their_order() -> None:
    found = to_end(distinct(["b", "a", *("ab" * 1_000), "c"]))
    assert list(found) == ["b", "a", "c"]
    assert len(found) == 3
    assert "a" in found
    assert "d" not in found
    assert not to_end(distinct(()))
    assert [found.times(each) for each in "abcd"] == [1_001, 1_001, 1, 0]


def test_many_are_looked_at_and_let_go_of_in_turns() -> None:
    found = Distinct[int]()
    steps = sum(1 for _ in found.add(range(0, 5_000 * 64, 64)))
    assert steps >= 10
    assert max(map(len, found._shards)) < 200
    assert sum(1 for _ in found.let_go()) >= 50
    assert not found
    assert 7 not in found
