"""How long ago a moment was, whatever was done to the clocks since."""

from __future__ import annotations

import pytest

from drumlin.serving.moments import Moment
from drumlin.serving.owned import Owned
from drumlin.serving.target import Position

BEFORE = Moment("this boot", 1_000_000, 50_000_000)


@pytest.mark.parametrize(
    ("later", "elapsed_ms"),
    [
        (Moment("this boot", 1_000_300, 50_000_300), 300),
        (Moment("this boot", 1_000_300, 10_000_000), 300),  # the wall clock was set back
        (Moment("this boot", 1_000_300, 60_000_000), 10_000_000),  # the machine was paused
        (Moment("another boot", 1_000_300, 50_000_300), None),
        (Moment("this boot", 999_999, 50_000_300), None),
    ],
)
def test_how_long_ago_it_was(later: Moment, elapsed_ms: int | None) -> None:
    assert Moment.parse(str(BEFORE)).until_ms(later) == elapsed_ms
    owned = Owned(0, 1, Position("id", 5, 0, str(BEFORE)))
    assert owned.may_lack_deletions(10_060_000, later) == (elapsed_ms in (None, 10_000_000))


def test_text_that_is_no_moment() -> None:
    for text in ("", "then", "a/b/c", "/1/", "a/1/2/3", "a/-1/2"):
        assert Moment.parse(text).until_ms(Moment.now()) is None
    now = Moment.now()
    assert Moment.parse(str(now)) == now
    assert now.until_ms(Moment.now()) is not None
