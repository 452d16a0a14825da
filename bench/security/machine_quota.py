"""What a client gets of its quota that loads a machine's brokers unevenly, beside one broker.

The window of quotas is short, so that what there is at first is over before it is measured.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator

from bench.brokers import Broker, require_no_error
from bench.cores import Machine, several_brokers
from bench.harness import Comparison, Metric, Metrics, Options, compare
from bench.load import batch_of, request_frame
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import Closed, RawClient

_WINDOW = {"quota.window.num": "2", "quota.window.size.seconds": "1"}
_BYTES_A_SECOND = 4_000_000
_BATCH_BYTES = 50_000
#: Of the client, to each partition.
_CONNECTIONS = (3, 1)
_SETTLING_S = 4.0
_MEASURED_S = 30.0
_OFF_MAX = 5.0


def _quota(options: Options) -> list[Comparison]:
    metrics = (
        Metric("off", "% off the quota", higher_is_better=False, limit=_OFF_MAX),
        Metric("rate", "% of the quota"),
    )
    folder = options.directory / "quota"
    folder.mkdir()
    with several_brokers(options, _WINDOW) as several, _alone(options) as alone:
        sides = {each.name: _round(each) for each in (several, alone)}
        scenario = "produce under one quota, 3 to 1"
        return compare("security", scenario, metrics, sides, options)


@contextlib.contextmanager
def _alone(options: Options) -> Iterator[Machine]:
    with contextlib.closing(DrumlinServer(options.directory / "quota", _WINDOW)) as server:
        server.start()
        yield Machine("one", server, [])


def _round(machine: Machine) -> Callable[[], Metrics]:
    _limit(machine.broker)
    batch = batch_of(_BATCH_BYTES)

    def measure() -> Metrics:
        with machine.broker.topic(len(_CONNECTIONS)) as topic, contextlib.ExitStack() as stack:
            sent: list[int] = []
            leaders = machine.leaders(topic)
            for index, (leader, connections) in enumerate(zip(leaders, _CONNECTIONS, strict=True)):
                data = [{"name": topic, "partition_data": [{"index": index, "records": batch}]}]
                frame = request_frame("produce", 9, acks=1, timeout=30_000, topic_data=data)
                for _ in range(connections):
                    stack.enter_context(_producing(leader.port, frame, sent))
            time.sleep(_SETTLING_S)
            before, began_s = sum(sent), time.monotonic()
            time.sleep(_MEASURED_S)
            share = 100 * (sum(sent) - before) / (time.monotonic() - began_s) / _BYTES_A_SECOND
        return {"off": abs(100 - share), "rate": share}

    return measure


@contextlib.contextmanager
def _producing(port: int, frame: bytes, sent: list[int]) -> Iterator[None]:
    """A connection that produces all the time; `sent` gets the bytes that were taken."""
    client = RawClient(port)

    def produce() -> None:
        with contextlib.suppress(OSError, Closed):
            while True:
                client.send_bytes(frame)
                client.receive_frame()
                sent.append(len(frame))

    thread = threading.Thread(target=produce, daemon=True)
    thread.start()
    try:
        yield
    finally:
        client.socket.shutdown(socket.SHUT_RDWR)
        thread.join()
        client.close()


def _limit(broker: Broker) -> None:
    entity = [{"entity_type": "client-id", "entity_name": None}]
    ops = [{"key": "producer_byte_rate", "value": float(_BYTES_A_SECOND), "remove": False}]
    entries = [{"entity": entity, "ops": ops}]
    for each in broker.ask("alter_client_quotas", 1, entries=entries, validate_only=False).entries:
        require_no_error(each)


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {"machine_quota": _quota}
