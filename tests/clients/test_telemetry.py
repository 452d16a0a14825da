"""Real clients that push their metrics (KIP-714), asked for by Kafka's own tool."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.brokers.machine_server import MachineServer
from rig.brokers.prometheus import scrape
from rig.jvm.jars import Unavailable
from rig.ports import free_ports
from rig.servers.apache_kafka import run_alone
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.deep]

_TOOLS = "org.apache.kafka.tools"
_RECORDS = 3000


class Watched:
    """A server that collects, and its page."""

    def __init__(self, server: DrumlinServer, port: int) -> None:
        self.server, self.port = server, port

    def pushed(self, client_id: str) -> dict[str, float]:
        """The values that a client has pushed, added up, by metric."""
        found: dict[str, float] = {}
        for series, value in scrape(self.port).items():
            name, _, labels = series.partition("{")
            if name.startswith("drumlin_client_") and f'client_id="{client_id}"' in labels:
                found[name] = found.get(name, 0) + value
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    port = free_ports(1)[0]
    settings = {"drumlin.metrics.listener": f"127.0.0.1:{port}"}
    with running_server(tmp_path_factory.mktemp("telemetry"), settings) as server:
        yield Watched(server, port)


def _tool(server: DrumlinServer, *arguments: str) -> str:
    try:
        return run_alone(
            f"{_TOOLS}.ClientMetricsCommand", "--bootstrap-server", server.address, *arguments
        )
    except Unavailable as reason:
        pytest.skip(str(reason))


def _subscribe(server: DrumlinServer, name: str, metrics: str, match: str) -> None:
    change = ("--alter", "--name", name, "--interval", "500")
    _tool(server, *change, "--metrics", metrics, "--match", match)


def test_librdkafka(watched: Watched) -> None:
    _subscribe(watched.server, "librdkafka", "*", "client_software_name=confluent-kafka-python")
    shared = {"bootstrap.servers": watched.server.address, "enable.metrics.push": True}
    producer = Producer({**shared, "client.id": "writes"})
    settings = {"client.id": "reads", "group.id": "readers", "auto.offset.reset": "earliest"}
    with closing(Consumer({**shared, **settings})) as consumer:
        producer.produce("rows", b"1")
        assert producer.flush(30) == 0
        consumer.subscribe(["rows"])
        is_read = False

        def has_come() -> bool:
            nonlocal is_read
            producer.poll(0)
            is_read |= consumer.poll(0.1) is not None
            reads = watched.pushed("reads")
            assigned = reads.get("drumlin_client_consumer_coordinator_assigned_partitions")
            return is_read and assigned == 1 and bool(watched.pushed("writes"))

        wait_until(has_come, "metrics of both clients", 60)
    assert "drumlin_client_producer_record_queue_time_max" in watched.pushed("writes")
    labels = [each for each in scrape(watched.port) if 'client_id="reads"' in each]
    assert all('group_id="readers"' in each for each in labels)


def test_apache_kafkas_client(watched: Watched) -> None:
    _subscribe(watched.server, "java", "org.apache.kafka.producer.", "client_id=perf.*")
    shown = _tool(watched.server, "--describe", "--name", "java")
    assert "interval.ms=500" in shown
    assert "client_id=perf" in shown
    run_alone(
        f"{_TOOLS}.ProducerPerformance",
        *("--topic", "perf", "--num-records", str(_RECORDS), "--record-size", "100"),
        *("--throughput", "600", "--producer-props", f"bootstrap.servers={watched.server.address}"),
        *("client.id=perf-1", "linger.ms=0"),
    )
    found = watched.pushed("perf-1")
    # On a busy machine its pushes are few, and a client that closes does not wait for the last one.
    assert 0 < found["drumlin_client_producer_record_send_total"] <= _RECORDS
    assert found["drumlin_client_producer_connection_creation_total"] >= 1
    assert "drumlin_client_producer_node_request_latency_max" in found
    assert all(name.startswith("drumlin_client_producer_") for name in found)
    _tool(watched.server, "--delete", "--name", "java")
    assert "java" not in _tool(watched.server, "--describe")


def test_clients_of_several_brokers(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    server = MachineServer(tmp_path, {"drumlin.metrics.listener": f"127.0.0.1:{port}"})
    server.start_brokers(2)
    try:
        _subscribe(server, "all", "*", "client_id=one")
        producer = Producer(
            {"bootstrap.servers": server.address, "enable.metrics.push": True, "client.id": "one"}
        )
        seen = Watched(server, port)

        def has_come() -> bool:
            producer.poll(0.1)
            return bool(seen.pushed("one"))

        wait_until(has_come, "metrics of the client", 60)
        labels = next(each for each in scrape(port) if 'client_id="one"' in each)
        assert re.search(r'broker="[12]"', labels)
    finally:
        server.terminate()


def test_a_server_without_an_address_for_metrics_asks_nobody(tmp_path: Path) -> None:
    with running_server(tmp_path, {}) as server:
        _subscribe(server, "all", "*", "")
        producer = Producer(
            {
                "bootstrap.servers": server.address,
                "enable.metrics.push": True,
                "client.id": "one",
            }
        )
        end = time.monotonic() + 3
        while time.monotonic() < end:
            producer.poll(0.1)
        with server.connect() as client:
            software = {"client_software_name": "raw", "client_software_version": "1"}
            answer = client.ask("api_versions", 3, **software)
        assert not {71, 72} & {each.api_key for each in answer.api_keys}
