"""Telemetry of clients (KIP-714): what they are asked for, and when they may push."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID, uuid5

import pytest

from differential.peer import Peer
from differential.scripts import differential, newest

_CLIENT_METRICS, _SET, _DELETE = 16, 0, 1
_NONE = UUID(int=0)
_KEYS = ("interval.ms", "match", "metrics")
#: Long enough for a slow machine to ask twice within it.
_INTERVAL_MS = 1500


class Client:
    """One instance of a client, and what it knows of its subscription."""

    def __init__(self, peer: Peer, name: str) -> None:
        self.peer, self.subscription_id = peer, 0
        self.id = uuid5(_NONE, peer.unique(name))
        peer.keep(self.id)
        self.connection = peer.connection(peer.unique(name))

    def ask(self) -> Any:
        answer = self.connection.ask("get_telemetry_subscriptions", 0, client_instance_id=self.id)
        if not answer.error_code:
            self.subscription_id = answer.subscription_id
        return answer

    def push(self, payload: bytes = b"", codec: int = 0, *, is_last: bool = False) -> None:
        self.connection.ask(
            "push_telemetry",
            0,
            client_instance_id=self.id,
            subscription_id=self.subscription_id,
            terminating=is_last,
            compression_type=codec,
            metrics=payload,
        )


def _subscribe(peer: Peer, name: str, **values: str | None) -> None:
    configs = [
        {
            "name": key.replace("_", "."),
            "config_operation": _DELETE if value is None else _SET,
            "value": value,
        }
        for key, value in values.items()
    ]
    resource = {"resource_type": _CLIENT_METRICS, "resource_name": name, "configs": configs}
    version = newest("incremental_alter_configs")
    answer = peer.ask_quietly("incremental_alter_configs", version, resources=[resource])
    assert not answer.responses[0].error_code, answer
    peer.settle()


@differential("get_telemetry_subscriptions")
def test_a_client_nobody_asks_for_anything(peer: Peer) -> None:
    client = Client(peer, "nobody")
    client.ask()
    peer.note("at once again")
    client.ask()
    peer.note("a push without a subscription")
    client.push()
    peer.note("another at once")
    client.push()


@pytest.mark.deep  # as it waits; tests/broker/telemetry has the same without a clock
@differential("push_telemetry")
def test_when_a_client_may_push(peer: Peer) -> None:
    name = peer.unique("some")
    client = Client(peer, "some")
    client.ask()
    pattern = f"client_id={client.connection.client_id}"
    _subscribe(
        peer, name, interval_ms=str(_INTERVAL_MS), match=pattern, metrics="org.b,org.a,org.b"
    )
    try:
        peer.note("by the subscription before")
        client.push()
        peer.note("the new one")
        client.ask()
        peer.note("its time is not over")
        client.push()
        _wait()
        peer.note("an unknown codec")
        client.push(codec=9)
        client.ask()
        _wait()
        peer.note("too large")
        client.push(bytes(1_048_577))
        _wait()
        peer.note("nothing, compressed")
        client.push(codec=4)
        peer.note("the last, before its time")
        client.push(is_last=True)
        peer.note("after the last")
        client.push(is_last=True)
        client.ask()
        peer.note("all metrics")
        _subscribe(peer, name, metrics="org.a,*")
        client.ask()
    finally:
        _subscribe(peer, name, **dict.fromkeys((each.replace(".", "_") for each in _KEYS), None))
    peer.note("not subscribed any more")
    client.push()
    client.ask()


@differential("push_telemetry")
def test_ids_that_are_none(peer: Peer) -> None:
    for number in (0, 1):
        client = Client(peer, "none")
        client.id = peer.keep(UUID(int=number))
        client.push()
        if number:
            client.ask()


def _wait() -> None:
    time.sleep(_INTERVAL_MS / 1000)
