"""Very many items, each once."""

from __future__ import annotations

from drumlin.distinct import counted, each_once
from drumlin.turns import to_end
from rig.time.stepped import Stepped


def test_items_are_counted_in_the_order_in_which_they_come_first() -> None:
    found = to_end(counted(["b", "a", *("ab" * 1_000), "c"]))
    assert list(found.items()) == [("b", 1_001), ("a", 1_001), ("c", 1)]
    assert not to_end(counted(()))


def test_many_are_looked_at_in_turns() -> None:
    looking = Stepped(counted(range(0, 5_000 * 64, 64)))
    assert looking.count() >= 10


def test_each_is_asked_about_once() -> None:
    asked = []

    async def ask(item: str) -> str:
        asked.append(item)
        return item.upper()

    assert to_end(each_once("abcab", ask)) == ["A", "B", "C"]
    assert asked == ["a", "b", "c"]
