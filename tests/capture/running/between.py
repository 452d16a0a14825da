"""A capture that reaches its database and its broker by a network that can fail."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import pytest

import drumlin.client.client
from capture.captured import Captured
from drumlin.client.client import connect
from rig.brokers.drumlin_server import DrumlinServer
from rig.fault_injection.network import Network, Way, both_ways
from rig.ports import free_ports

_CAPTURE: Final = "capture"
DATABASE: Final = both_ways(_CAPTURE, "database")
BROKER: Final = both_ways(_CAPTURE, "broker")


class Between:
    """The network between a capture in this process and what it connects."""

    def __init__(self, network: Network, broker: DrumlinServer, distant: str) -> None:
        self.network = network
        #: Of the broker: directly, and by the network.
        self.address, self.distant_address = broker.address, distant

    def url(self, captured: Captured, port: int) -> str:
        """The database's URL by the network. `port`: where it listens."""
        (before,) = free_ports(1)
        self.network.carry(before, "database", port, _CAPTURE)
        return captured.url.replace(f":{port}/", f":{before}/")

    def start(self, captured: Captured, url: str) -> None:
        """Start a capture that has the network between it, its database and its broker."""
        direct = captured.url, captured.broker
        captured.url, captured.broker = url, self.distant_address
        captured.start_here()
        captured.url, captured.broker = direct

    def fail(self, source: random.Random) -> None:
        """Fail somehow, for a moment; after that new connections are whole."""
        ways = source.choice((DATABASE, BROKER, DATABASE + BROKER))
        if source.random() < 0.3:
            ways = (source.choice(ways),)
        kind = source.choice((self._reset, self._stall, self._swallow, self._lose))
        kind(ways, source.uniform(0.05, 1.0))

    def _reset(self, ways: tuple[Way, ...], _: float) -> None:
        self.network.break_off(ways)

    def _stall(self, ways: tuple[Way, ...], moment_s: float) -> None:
        self.network.cut(ways)
        threading.Event().wait(moment_s)
        self.network.heal(ways)

    def _swallow(self, ways: tuple[Way, ...], moment_s: float) -> None:
        self.network.cut(ways)
        threading.Event().wait(moment_s)
        self.network.heal(ways, breaks=True)

    def _lose(self, ways: tuple[Way, ...], _: float) -> None:
        self.network.lose(ways)


@contextmanager
def between(directory: Path) -> Iterator[Between]:
    """A network, and a broker with two listeners, one of which is behind it."""
    behind, before = free_ports(2)
    distant = f"127.0.0.1:{before}"
    broker = DrumlinServer(directory)
    broker.settings = {
        "listeners": f"PLAINTEXT://{broker.address},DISTANT://127.0.0.1:{behind}",
        "advertised.listeners": f"PLAINTEXT://{broker.address},DISTANT://{distant}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DISTANT:PLAINTEXT",
    }
    with contextlib.closing(broker), Network() as network:
        broker.start()
        network.carry(before, "broker", behind, _CAPTURE)
        yield Between(network, broker, distant)
    broker.check_output()


def with_quick_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A capture's client notices sooner that a broker does not answer."""
    quick: Callable[..., object] = partial(connect, request_timeout_ms=1500)
    monkeypatch.setattr(drumlin.client.client, "connect", quick)
