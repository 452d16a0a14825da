"""The process of one of several brokers: it lives as long as its parent process.

    python -m drumlin.broker.machine.worker NODE-ID DESCRIPTOR

All other settings come through the inherited connection with that descriptor. An error at start is
one line on standard error, as for a single broker.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import sys
from typing import Any, Final

from drumlin.broker.http.message import Request
from drumlin.broker.log_lines.forms import Form, say
from drumlin.broker.login.machine_secret import MachineSecret
from drumlin.broker.machine.greeting import (
    EXIT_FAILED,
    INSPECT,
    MEASURE,
    READY,
    Greeting,
    receive_greeting,
)
from drumlin.broker.machine.usages import exchange_usages
from drumlin.broker.start.broker import Broker
from drumlin.broker.start.process import run_broker
from drumlin.broker.start.process_setup import prepare_process
from drumlin.broker.start.shared_machine import SharedMachine
from drumlin.broker.start.startup import StartFailed
from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.metadata.shared.channel import Channel, ChannelEnded
from drumlin.metadata.shared.metadata import SharedMetadata
from drumlin.metadata.store.store import UnusableMetadata

_PR_SET_PDEATHSIG: Final = 1


def main(node_id: int, descriptor: int) -> int:
    """Run the broker until SIGTERM, or the end of the parent process."""
    # Ctrl-C reaches all processes, but the parent stops the brokers, in order.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    try:
        greeting = receive_greeting(sock)
    except EOFError:
        return EXIT_FAILED
    _die_with(greeting.parent)
    form, name = Form.of(greeting.properties), f"broker {node_id}"
    prepare_process(greeting.log_level, form, name)
    try:
        config = BrokerConfig.load(greeting.properties, greeting.brokers)
        member = _Member(config, sock, greeting)
        run_broker(config, member.tell_ready, member.machine, [signal.SIGTERM])
    except (ConfigError, StartFailed) as error:
        say(form, str(error), process=name)
        return EXIT_FAILED
    return 0


def _die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; without this, the end of the channel
    would do so a little later.

    (The kernel sends the signal when the thread that started us ends: the parent's main thread.)
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FAILED)


class _Member:
    """This broker's end of the channel to the parent process."""

    def __init__(self, config: BrokerConfig, sock: socket.socket, greeting: Greeting) -> None:
        self._config = config
        self._sock = sock
        self._channel: Channel | None = None
        self._broker: Broker | None = None
        secret = MachineSecret(greeting.secret, config.node_id)
        self.machine = SharedMachine(self._open_metadata, greeting.locks, secret)

    async def _open_metadata(self) -> SharedMetadata:
        self._channel = await Channel.open(self._sock)
        try:
            store = await SharedMetadata.open(self._channel, self._config.node_id, _end)
        except ChannelEnded as error:
            raise UnusableMetadata("the server is gone") from error
        store.watch(self._config.zookeeper_session_timeout_ms / 1000)
        return store

    def tell_ready(self, broker: Broker) -> None:
        assert self._channel is not None
        self._broker = broker
        self._channel.handle({INSPECT: self._inspect, MEASURE: self._measure})
        exchange_usages(broker.client_quotas, self._channel)
        addresses = [each.address for each in broker.listeners]
        self._channel.tell(READY, addresses)

    async def _inspect(self, body: Any) -> list[Any]:
        """The answer to the operator: HTTP status and JSON."""
        method, path, query, text = body
        assert self._broker is not None
        request = Request(method, path, query, {}, text.encode())
        response = await self._broker.endpoints.answer(request)
        return [int(response.status), response.body.decode()]

    async def _measure(self, _: Any) -> str:
        """This broker's measures. As one text, as the channel encodes on the event loop."""
        assert self._broker is not None
        endpoints = self._broker.endpoints
        return await endpoints.look_at_measures(lambda source: json.dumps(list(source())))


def _end() -> None:
    """End at once: without the metadata, later acknowledgements would be void."""
    os._exit(EXIT_FAILED)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
