"""Very many items, each once."""

from __future__ import annotations

import gc

import pytest

import drumlin.distinct
from drumlin.distinct import Distinct, Growing, distinct
from drumlin.turns import to_end


def test_items_are_there_once_in_their_order() -> None:
    found = to_end(distinct(["b", "a", *("ab" * 1_000), "c"]))
    assert list(found) == ["b", "a", "c"]
    assert len(found) == 3
    assert "a" in found
    assert "d" not in found
    assert not to_end(distinct(()))
    assert [found.times(each) for each in "abcd"] == [1_001, 1_001, 1, 0]


@pytest.mark.parametrize("count", [1, 499, 500, 501, 2_000])
def test_few_in_one_dictionary_become_many_in_others(count: int) -> None:
    found = Distinct[tuple[str, int]]()
    items = [("t", number * 7 % count) for number in range(count)]
    for some in (items, items[: count // 2], [("u", 1)]):
        to_end(found.add(some))
    assert list(found) == [*items, ("u", 1)]
    assert [found.times(each) for each in items] == [2] * (count // 2) + [1] * (count - count // 2)
    assert ("t", count) not in found
    assert len(found._shards) == (64 if count >= 499 else 1)


def test_many_are_looked_at_and_let_go_of_in_turns() -> None:
    found = Distinct[int]()
    steps = sum(1 for _ in found.add(range(0, 5_000 * 64, 64)))
    assert steps >= 10
    assert max(map(len, found._shards)) < 200
    assert sum(1 for _ in found.let_go()) >= 50
    assert not found
    assert 7 not in found


def test_no_dictionary_of_what_grows_becomes_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drumlin.distinct, "_TOGETHER_MAX", 10)
    growing, expected = Growing[str, int](), dict[str, int]()
    for number in range(500):
        key = str(number * 37 % 95)
        assert (key in growing) is (key in expected)
        if number % 3:
            growing[key] = expected[key] = number
        else:
            assert growing.setdefault(key, number) == expected.setdefault(key, number)
        assert growing[key] == expected[key]
    assert list(growing.items()) == list(expected.items())
    assert list(growing) == list(expected)
    assert len(growing) == 95
    assert max(map(len, growing._parts)) == 10
    assert sum(1 for _ in growing.let_go()) == 10
    assert not len(growing)


def test_the_look_for_garbage_does_not_meet_the_same_dictionaries_again_and_again() -> None:
    """Without tuples of which something might be garbage they would be new each time."""
    found = to_end(distinct(("t", number) for number in range(1_000)))
    gc.collect()
    gc.collect()
    assert all(map(gc.is_tracked, found._shards))
    assert ("t", 7) in found
    assert list(found)[:2] == [("t", 0), ("t", 1)]
