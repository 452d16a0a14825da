"""The answers that an authorizer remembers."""

from __future__ import annotations

import pytest

from drumlin.broker.rights import authorizer as rights
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.authorizer import Authorizer

_ALICE = ("User:alice", "127.0.0.1", Operation.READ, Kind.TOPIC)
_ALLOWED = Rule("User:alice", "*", Operation.READ, Permission.ALLOW)
_TARGET = Target(Kind.TOPIC, Pattern.LITERAL, "t")


@pytest.fixture
def authorizer() -> Authorizer:
    made = Authorizer([], allows_without_acls=False)
    made.put(_TARGET, frozenset({_ALLOWED}))
    return made


def test_a_request_that_holds_them_sees_that_an_acl_has_changed(authorizer: Authorizer) -> None:
    assert authorizer.allows(*_ALICE, "t")
    assert not authorizer.allows(*_ALICE, "u")
    held = authorizer.remembered(*_ALICE)
    assert dict(held) == {"t": True, "u": False}
    authorizer.put(_TARGET, frozenset())
    assert not held
    assert not authorizer.allows(*_ALICE, "t")
    assert authorizer.remembered(*_ALICE)["t"] is False
    assert not held, "only what is remembered now is emptied by the next change"


def test_they_are_bounded(authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_REMEMBERED_MAX", 3)
    askers = [(f"User:{n}", *_ALICE[1:]) for n in range(2)]
    for number in range(10):
        for asker in askers:
            authorizer.allows(*asker, f"{number}")
            assert sum(len(authorizer.remembered(*each)) for each in askers) <= 3
    authorizer.allows(*_ALICE, "x" * 250)
    assert "x" * 250 not in authorizer.remembered(*_ALICE)
