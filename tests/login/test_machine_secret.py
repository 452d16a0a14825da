"""The secret of a machine: what shows it, and what does not."""

from __future__ import annotations

import pytest

from drumlin.broker.login.machine_secret import MachineSecret, new_secret
from drumlin.broker.login.mechanisms.exchange import Accepted, LoginRefused
from drumlin.broker.machine.greeting import Greeting
from drumlin.peer.security.scram import ScramExchange
from drumlin.peer.security.settings import Scram


def log_in(login: Scram, at: MachineSecret) -> Accepted:
    client, server = ScramExchange(login), at.exchange()
    challenge = server.take(client.first())
    assert isinstance(challenge, bytes)
    proof = client.answer(challenge)
    assert proof is not None
    accepted = server.take(proof)
    assert isinstance(accepted, Accepted)
    assert client.answer(accepted.token) is None  # the other side has shown it, too
    return accepted


def test_brokers_of_one_machine_know_each_other() -> None:
    secret = new_secret()
    first, second = MachineSecret(secret, 1), MachineSecret(secret, 2)
    assert log_in(first.login_at(2), second).is_of_machine
    assert log_in(second.login_at(1), first).is_of_machine


def test_what_is_shown_to_one_broker_is_nothing_to_another() -> None:
    """Else whoever has taken the port of one could pass it on."""
    secret = new_secret()
    first, third = MachineSecret(secret, 1), MachineSecret(secret, 3)
    with pytest.raises(LoginRefused):
        log_in(first.login_at(2), third)


def test_another_machine_is_unknown() -> None:
    with pytest.raises(LoginRefused):
        log_in(MachineSecret(new_secret(), 1).login_at(2), MachineSecret(new_secret(), 2))


def test_it_is_not_shown_by_accident() -> None:
    secret = new_secret()
    known = MachineSecret(secret, 1)
    greeting = Greeting({}, 2, "INFO", 1, {}, secret)
    shown = f"{known!r} {vars(known)!r} {known.login_at(2)!r} {greeting!r}"
    assert secret not in shown
    assert "password=***" in shown
