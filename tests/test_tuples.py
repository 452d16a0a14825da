"""Named tuples made of plain ones are what a call of their class gives."""

from __future__ import annotations

from typing import NamedTuple

from drumlin.tuples import from_tuple


class Place(NamedTuple):
    offset: int
    position: int
    name: str = "log"

    @property
    def end(self) -> int:
        return self.offset + self.position


def test_a_named_tuple_of_a_plain_one() -> None:
    made = from_tuple(Place)((3, 4, "index"))
    assert type(made) is Place
    assert made == Place(3, 4, "index")
    assert (made.name, made.end) == ("index", 7)
    assert made._replace(offset=5) == Place(5, 4, "index")
