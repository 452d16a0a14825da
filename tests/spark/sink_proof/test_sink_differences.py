"""The comparison that the proofs of the sink rest on finds every kind of difference."""

from __future__ import annotations

import pytest

from spark.sink_proof.reading import Row, differences

_ROWS = [Row(None, b"1", 10), Row(b"a", b"2", 20, (("h", b"x"), ("none", None))), Row(b"a", b"2")]


def test_rows_are_the_same_in_any_order() -> None:
    assert differences(_ROWS, _ROWS[::-1]) == []
    assert differences([_ROWS[0]] * 2, [_ROWS[0]] * 2) == []


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (_ROWS[1:], ["1 rows are missing"]),
        ([*_ROWS, _ROWS[2]], ["1 rows are more often than they should be"]),
        ([*_ROWS, Row(b"b", b"2")], ["1 rows are never written by anybody"]),
        ([_ROWS[0], _ROWS[2], _ROWS[2]], ["1 rows are missing", "1 rows are more often"]),
        (
            [*_ROWS[:2], Row(b"a", b"3")],
            ["1 rows are missing", "1 rows are never written by anybody"],
        ),
    ],
    ids=["lost", "twice", "foreign", "exchanged", "changed"],
)
def test_differences_are_told(found: list[Row], said: list[str]) -> None:
    complaints = differences(_ROWS, found)
    assert len(complaints) == len(said)
    assert all(map(str.startswith, complaints, said))
