"""Client quotas: what can be set, and what is told of it."""

from __future__ import annotations

from typing import Any

from differential.peer import Peer
from differential.scripts import differential
from rig.waiting import wait_until

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_RATE = {"key": "producer_byte_rate", "value": 1000.0, "remove": False}


def _of(entity_type: str, match_type: int = _EXACT, match: str | None = "a") -> dict[str, Any]:
    return {"entity_type": entity_type, "match_type": match_type, "match": match}


def _name(entity_type: str, name: str | None = "a") -> dict[str, Any]:
    return {"entity_type": entity_type, "entity_name": name}


@differential("describe_client_quotas")
def test_there_are_none(peer: Peer) -> None:
    peer.ask(components=[], strict=False)
    peer.ask(components=[], strict=True)
    for entity_type in ("user", "client-id", "ip"):
        peer.ask(components=[_of(entity_type)], strict=True)
        peer.ask(components=[_of(entity_type, _EXACT, "")])
        peer.ask(components=[_of(entity_type, _DEFAULT, None)])
        peer.ask(components=[_of(entity_type, _SPECIFIED, None)])
    peer.ask(components=[_of("user"), _of("client-id", _SPECIFIED, None)], strict=True)


@differential("describe_client_quotas")
def test_what_cannot_be_asked(peer: Peer) -> None:
    for components in (
        [_of("user", _EXACT, None)],
        [_of("user", _DEFAULT)],
        [_of("user", _SPECIFIED)],
        [_of("user", 3)],
        [_of("user", -1, None)],
        [_of("")],
        [_of("group")],
        [_of("user"), _of("user")],
        [_of("user"), _of("user", _EXACT, None)],
        [_of("ip"), _of("user")],
        [_of("client-id", _SPECIFIED, None), _of("ip", _DEFAULT, None)],
        [_of("user"), _of("group", 7)],
        [_of("ip"), _of("user"), _of("group")],
    ):
        peer.note(str(components))
        peer.ask(components=components)


def _alter(peer: Peer, entity: list[dict[str, Any]], ops: list[dict[str, Any]]) -> None:
    peer.ask(entries=[{"entity": entity, "ops": ops}], validate_only=True)


_ENTITIES = (
    [_name("user")],
    [_name("user", None)],
    [_name("client-id", None)],
    [_name("user"), _name("client-id")],
    [_name("user"), _name("user", "b")],
    [_name("ip", "1.2.3.4")],
    [_name("ip", "::1")],
    [_name("ip", None)],
)
_NO_ENTITIES = (
    [],
    [_name("user", "")],
    [_name("client-id", ""), _name("user")],
    [_name("group")],
    [_name("ip", "no host")],
    [_name("client-id"), _name("ip", "1.2.3.4")],
)


@differential("alter_client_quotas")
def test_removing(peer: Peer) -> None:
    peer.ask(entries=[], validate_only=False)
    for entity in (*_ENTITIES, *_NO_ENTITIES):
        peer.note(str(entity))
        _alter(peer, entity, [])
        _alter(peer, entity, [_RATE | {"remove": True}])
        _alter(peer, entity, [_RATE | {"remove": True, "key": "no.such.key"}])
    entry = {"entity": [_name("user")], "ops": [_RATE | {"remove": True}]}
    peer.ask(entries=[entry, entry], validate_only=True)
    peer.ask(entries=[entry], validate_only=False)


@differential("alter_client_quotas")
def test_what_cannot_be_set(peer: Peer) -> None:
    for entity in _NO_ENTITIES:
        _alter(peer, entity, [_RATE])
    user, address = [_name("user")], [_name("ip", "1.2.3.4")]
    for value in (-1.0, 0.0, 1.5, float("inf"), 1e300, -1.5):
        peer.note(str(value))
        _alter(peer, user, [_RATE | {"value": value}])
        _alter(peer, address, [{"key": "connection_creation_rate", "value": value}])
    for value in (-2.5, 0.0):
        peer.note(str(value))
        _alter(peer, user, [_RATE | {"key": "controller_mutation_rate", "value": value}])
    for ops in (
        [_RATE, _RATE],
        [_RATE, _RATE | {"remove": True}],
        [_RATE | {"key": "no.such.key"}],
        [_RATE | {"key": "connection_creation_rate"}],
        [_RATE | {"key": ""}, _RATE],
    ):
        peer.note(str(ops))
        _alter(peer, user, ops)
    _alter(peer, address, [_RATE])
    entry = {"entity": user, "ops": [_RATE]}
    peer.ask(entries=[entry, entry], validate_only=True)


@differential("alter_client_quotas")
def test_setting(peer: Peer) -> None:
    peer.note("a quota that is set")
    for entity in _ENTITIES[:5]:
        _alter(peer, entity, [_RATE, {"key": "request_percentage", "value": 1.5, "remove": False}])
    _alter(peer, [_name("ip", "1.2.3.4")], [{"key": "connection_creation_rate", "value": 5.0}])


@differential("describe_client_quotas")
def test_what_is_set(peer: Peer) -> None:
    user, app = peer.unique("user"), peer.unique("app *")
    entities = {
        "both": [_name("user", user), _name("client-id", app)],
        "default": [_name("user", user), _name("client-id", None)],
        "user": [_name("user", user)],
        "app": [_name("client-id", app)],
    }
    rates = [0.5, 1e15, 12.0, 1024.0]
    keys = ["request_percentage", "producer_byte_rate", "controller_mutation_rate"]
    keys += ["consumer_byte_rate"]

    def change(**how: Any) -> None:
        entries = [
            {"entity": entity, "ops": [{"key": key, "value": rate, "remove": False} | how]}
            for entity, key, rate in zip(entities.values(), keys, rates, strict=True)
        ]
        told = peer.ask_quietly("alter_client_quotas", 1, entries=entries, validate_only=False)
        assert [each.error_code.value for each in told.entries] == [0] * 4

    def count() -> int:
        found = [
            peer.ask_quietly("describe_client_quotas", 1, components=[filtered], strict=False)
            for filtered in (_of("user", match=user), _of("client-id", match=app))
        ]
        return sum(len(each.entries) for each in found)

    change()
    wait_until(lambda: count() == 5, f"quotas on {peer.name}", 10)  # that of both is found twice
    of_user, of_app = _of("user", match=user), _of("client-id", match=app)
    for components in (
        [of_user, of_app],
        [of_user],
        [of_app],
        [of_user, _of("client-id", _DEFAULT, None)],
        [of_app, _of("user", _SPECIFIED, None)],
        [of_app, _of("user", _DEFAULT, None)],
        [_of("ip", _SPECIFIED, None)],
    ):
        peer.note(str(components))
        peer.ask(components=components, strict=True)
    peer.ask(components=[of_user, of_app], strict=False)
    change(value=7.0)
    change(remove=True)
    wait_until(lambda: count() == 0, f"no quotas on {peer.name}", 10)
    peer.ask(components=[of_user], strict=False)
