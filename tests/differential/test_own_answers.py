"""Answers that may differ from Kafka's are pinned: another one is found."""

from __future__ import annotations

import re
from typing import Any

from differential.allowed import ALLOWED
from differential.compare import Difference
from differential.now import NOW
from differential.own_answers import OwnAnswers
from differential.transcripts import Transcripts


def difference(value: Any, path: str = "topics[t].error_code") -> Difference:
    return Difference(1, "fetch", 12, path, "what Kafka says", value)


def pinned(*values: Difference) -> OwnAnswers:
    own = OwnAnswers(is_recording=True)
    assert own.check("a test", values) == ""
    own._is_recording = False
    return own


def test_the_same_again() -> None:
    assert pinned(difference(NOW - 5)).check("a test", [difference(NOW - 5)]) == ""


def test_another_value() -> None:
    changed = pinned(difference(3)).check("a test", [difference(4)])
    assert "topics[t].error_code" in changed
    assert "pinned: 3" in changed
    assert "now:    4" in changed


def test_a_difference_that_is_new_or_gone() -> None:
    assert "pinned: no difference" in pinned().check("a test", [difference(4)])
    assert "now:    no difference" in pinned(difference(4)).check("a test", [])


def test_what_is_of_this_run_alone() -> None:
    path = "results[4 1].configs[log.dirs].value"
    assert pinned(difference("a", path)).check("a test", [difference("b", path)]) == ""


def test_nothing_is_pinned_of_a_test_that_is_gone() -> None:
    transcripts = Transcripts()
    orphans = [
        test
        for test in OwnAnswers(is_recording=False).pinned
        if not transcripts.has(*test.rsplit(".", 1))
    ]
    assert not orphans, "nobody compares with these: take them out"


def test_every_difference_that_may_be_is_met() -> None:
    paths = {path for said in OwnAnswers(is_recording=False).pinned.values() for _, path in said}
    unmet = [
        each.path for each in ALLOWED if not any(re.fullmatch(each.path, path) for path in paths)
    ]
    assert not unmet, "no script comes across such a difference"
