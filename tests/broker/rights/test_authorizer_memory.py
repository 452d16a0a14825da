"""What an authorizer remembers: answers, and topics that requests may use."""

from __future__ import annotations

import pytest

from drumlin.broker.rights import authorizer as rights
from drumlin.broker.rights.acls import Kind, Operation, Pattern, Permission, Rule, Target
from drumlin.broker.rights.authorizer import Authorizer
from drumlin.broker.rights.session import Session

_ALICE = ("User:alice", "127.0.0.1", Operation.READ, Kind.TOPIC)
_SESSION = Session("User:alice", "127.0.0.1", "LISTENER")
_USE = (_SESSION, Operation.READ, False)
_ALLOWED = Rule("User:alice", "*", Operation.READ, Permission.ALLOW)
_TARGET = Target(Kind.TOPIC, Pattern.LITERAL, "t")


@pytest.fixture
def authorizer() -> Authorizer:
    made = Authorizer([], allows_without_acls=False)
    made.put(_TARGET, frozenset({_ALLOWED}))
    return made


def test_a_request_that_holds_topics_sees_that_an_acl_has_changed(authorizer: Authorizer) -> None:
    assert authorizer.allows(*_ALICE, "t")
    authorizer.note_allowed(_USE, b"t")
    held = authorizer.allowed_topics(_USE)
    assert set(held) == {b"t"}
    authorizer.put(_TARGET, frozenset())
    assert not held
    assert not authorizer.allows(*_ALICE, "t")
    authorizer.note_allowed(_USE, b"u")
    assert not held, "only what is remembered now is emptied by the next change"


@pytest.mark.parametrize(
    "other",
    [
        _SESSION._replace(principal="User:bob"),
        _SESSION._replace(host="127.0.0.2"),
        _SESSION._replace(is_by_token=True),
    ],
)
def test_topics_are_of_one_use(authorizer: Authorizer, other: Session) -> None:
    authorizer.note_allowed(_USE, b"t")
    assert authorizer.allowed_topics(_USE) == {b"t"}
    for use in ((other, *_USE[1:]), (_SESSION, Operation.WRITE, False), (*_USE[:2], True)):
        assert not authorizer.allowed_topics(use)


def test_both_are_bounded(authorizer: Authorizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rights, "_REMEMBERED_MAX", 3)
    uses = [(_SESSION._replace(principal=f"User:{n}"), *_USE[1:]) for n in range(2)]

    def remembered() -> int:
        kept = (*authorizer._remembered.values(), *authorizer._allowed.values())
        return sum(map(len, kept))

    for number in range(10):
        for use in uses:
            authorizer.allows(use[0].principal, *_ALICE[1:], f"{number}")
            authorizer.note_allowed(use, f"{number}".encode())
            assert remembered() <= 3
    before = remembered()
    authorizer.allows(*_ALICE, "x" * 250)
    assert remembered() == before
