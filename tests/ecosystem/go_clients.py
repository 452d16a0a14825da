"""Programs in Go: sarama, franz-go and Watermill by their own tests, and kaf's commands."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from ecosystem.installed import go_cloned, go_program, go_tests
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.process import BrokerProcess
from rig.jvm.jars import Unavailable
from rig.ports import free_ports
from rig.servers.running import skipped_where_unavailable
from rig.waiting import wait_until

_SARAMA = "1.61.1"
_FRANZ_GO = "1.22.3"
_WATERMILL = "3.0.6"
_KAF = "0.2.9"
#: Where sarama's tests look for what controls the proxies of five brokers, and for these.
_CONTROL_PORT = 8474
_PROXY_PORTS = {node_id: 29090 + node_id for node_id in range(1, 6)}
#: As sarama configures the brokers that it is tested with.
_SARAMA_SETTINGS = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": "2",
    "group.initial.rebalance.delay.ms": "0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "transaction.state.log.replication.factor": "2",
}
_DOCKER = """#!{python}
import sys
from urllib.request import urlopen

told = " ".join(sys.argv[1:])
sys.stdout.buffer.write(urlopen("http://127.0.0.1:{port}/", told.encode()).read())
"""
Record = Callable[[str, object], None]


class Proxies(BrokerProcess):
    """Toxiproxy: a proxy for each broker, whose connections a test cuts and slows down."""

    def __init__(self, program: Path, folder: Path, targets: Mapping[int, int]) -> None:
        super().__init__(folder / "toxiproxy.out")
        config = folder / "toxiproxy.json"
        proxies = [
            {
                "name": f"kafka{node_id}",
                "listen": f"127.0.0.1:{_PROXY_PORTS[node_id]}",
                "upstream": f"127.0.0.1:{target}",
                "enabled": True,
            }
            for node_id, target in targets.items()
        ]
        config.write_text(json.dumps(proxies))
        where = ["-host", "127.0.0.1", "-port", str(_CONTROL_PORT)]
        self._command = [str(program), *where, "-config", str(config)]

    def start(self) -> None:
        ports = [_CONTROL_PORT, *_PROXY_PORTS.values()]
        taken = [port for port in ports if _is_open(port)]
        if taken:
            raise Unavailable(f"its tests want the ports {taken}, which are taken")
        self.launch(self._command)

        def are_ready() -> bool:
            self.fail_if_ended()
            return all(map(_is_open, ports))

        wait_until(are_ready, "the proxies")


class Compose:
    """What sarama's tests use of `docker compose`: it stops and starts brokers, and has their logs.

    A command of that name, in a folder for PATH, hands on what it is told to this process.
    """

    def __init__(self, cluster: DrumlinCluster, folder: Path) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told = self.rfile.read(int(self.headers["Content-Length"])).decode().split()
                broker = cluster.brokers[int(told[-1].removeprefix("kafka-"))]
                is_running = broker.process is not None
                if told[1] == "stop" and is_running:
                    broker.stop()
                elif told[1] == "start" and not is_running:
                    broker.start()
                said = broker.said().encode() if told[1] == "logs" else b""
                self.send_response(200)
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        command = folder / "bin" / "docker"
        command.parent.mkdir()
        command.write_text(_DOCKER.format(python=sys.executable, port=self._server.server_port))
        command.chmod(0o755)

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[DrumlinCluster]:
    """Five brokers, whose clients are sent to the proxies; `docker` stops and starts them."""
    cluster = DrumlinCluster(tmp_path / "cluster", 5, _SARAMA_SETTINGS)
    targets = dict(zip(cluster.brokers, free_ports(5), strict=True))
    for node_id, broker in cluster.brokers.items():
        own = f"PLAINTEXT://127.0.0.1:{broker.port},PROXIED://127.0.0.1"
        broker.settings |= {
            "broker.rack": str(node_id),
            "listeners": f"{own}:{targets[node_id]}",
            "advertised.listeners": f"{own}:{_PROXY_PORTS[node_id]}",
        }
    proxies, compose = None, Compose(cluster, tmp_path)
    try:
        program = go_program("github.com/Shopify/toxiproxy/v2/cmd/server", "v2.12.0")
        proxies = Proxies(program, tmp_path, targets)
        cluster.start()
        proxies.start()
        yield cluster
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        if proxies is not None:
            proxies.close()
        compose.close()
        cluster.close()
    cluster.check_output()


def run_tests(
    tests: tuple[Path, Path],
    arguments: Sequence[str],
    environment: Mapping[str, str],
    output: Path,
    timeout_s: float,
) -> dict[str, str]:
    """What came of each test: PASS, FAIL or SKIP."""
    program, folder = tests
    with output.open("wb") as said:
        subprocess.run(
            [str(program), "-test.v", f"-test.timeout={timeout_s:.0f}s", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=said,
            stderr=subprocess.STDOUT,
            check=False,
        )
    text = output.read_text(errors="replace")
    # A panic ends all of them, also those that were not begun.
    is_whole = re.search(r"^(PASS|FAIL)$", text, re.MULTILINE)
    assert is_whole, f"they have broken off:\n{text[-4000:]}"
    results = re.findall(r"^--- (PASS|FAIL|SKIP): (\S+)", text, re.MULTILINE)
    return {name: came for came, name in results}


def report(found: Mapping[str, str], record_property: Record) -> None:
    """For the table of programs: how many, and by name which have failed."""
    came = Counter(found.values())
    failing = f" ({', '.join(sorted(failed(found)))})" if came["FAIL"] else ""
    told = f"{came['PASS']} pass, {came['FAIL']} fail{failing}, {came['SKIP']} skip themselves"
    record_property("found", told)


def failed(found: Mapping[str, str]) -> set[str]:
    return {name for name, came in found.items() if came == "FAIL"}


@pytest.mark.program(
    "sarama", _SARAMA, "its own functional tests, with five brokers behind proxies"
)
def test_sarama(proxied: DrumlinCluster, tmp_path: Path, record_property: Record) -> None:
    with skipped_where_unavailable():
        tests = go_tests("github.com/IBM/sarama", f"v{_SARAMA}", tags="functional")
    environment = {
        "TOXIPROXY_ADDR": f"http://127.0.0.1:{_CONTROL_PORT}",
        "KAFKA_VERSION": "4.3.0",
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
    }
    sources = [each.read_text() for each in tests[1].glob("functional*_test.go")]
    names = re.findall(r"^func (Test\w+)\(t ", "\n".join(sources), re.MULTILINE)
    wanted = [f"-test.run=^({'|'.join(names)})$"]
    found = run_tests(tests, wanted, environment, tmp_path / "sarama", 2700)
    report(found, record_property)
    assert found["TestFuncAdminUpdateFeatures"] == found["TestFuncAdminQuotas"] == "PASS"
    assert not failed(found)


@pytest.mark.program("franz-go", _FRANZ_GO, "its own tests: groups, transactions, shares")
def test_franz_go(drumlin: DrumlinServer, tmp_path: Path, record_property: Record) -> None:
    with skipped_where_unavailable():
        tests = go_tests("github.com/twmb/franz-go", f"v{_FRANZ_GO}", "pkg/kgo")
    environment = {
        "KGO_SEEDS": drumlin.address,
        "KGO_TEST_RF": "1",
        "KGO_TEST_RECORDS": "50000",
        "KGO_LOG_LEVEL": "none",
    }
    found = run_tests(tests, [], environment, tmp_path / "franz-go", 2700)
    report(found, record_property)
    assert not failed(found)


@pytest.mark.program("watermill-kafka", _WATERMILL, "its own tests: publishers and subscribers")
def test_watermill(drumlin: DrumlinServer, tmp_path: Path, record_property: Record) -> None:
    module = "github.com/ThreeDotsLabs/watermill-kafka/v3"
    with skipped_where_unavailable():
        tests = go_tests(module, f"v{_WATERMILL}", "pkg/kafka")
    environment = {"WATERMILL_TEST_KAFKA_BROKERS": drumlin.address}
    found = run_tests(tests, ["-test.short"], environment, tmp_path / "watermill", 2700)
    report(found, record_property)
    assert not failed(found)


@pytest.mark.program("kaf", _KAF, "topics, records, a group's lag by its commands")
def test_kaf(drumlin: DrumlinServer, tmp_path: Path) -> None:
    with skipped_where_unavailable():
        program = go_cloned("birdayz/kaf", f"v{_KAF}", "./cmd/kaf")

    def kaf(command: str, given: str = "") -> str:
        """What it prints, a space between any two words."""
        done = subprocess.run(
            [str(program), "-b", drumlin.address, *command.split()],
            env={**os.environ, "HOME": str(tmp_path)},
            input=given,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return " ".join(done.stdout.split())

    kaf("topic create kaf -p 3 -r 1 --compact")
    assert "kaf 3 1" in kaf("topics")
    assert kaf("produce kaf -k key -p 2", "one\ntwo\nthree\n").count("Sent record") == 3
    assert kaf("consume kaf --offset oldest --output raw") == "one two three"
    described = kaf("topic describe kaf")
    assert "Compacted: true" in described and "Summed HighWatermark: 3" in described
    # Its own `group commit` sends a version that brokers have no more since Apache Kafka 4.0.
    committed = ConsumerGroupTopicPartitions("kaf-group", [TopicPartition("kaf", 2, 1)])
    admin = AdminClient({"bootstrap.servers": drumlin.address})
    admin.alter_consumer_group_offsets([committed])["kaf-group"].result(60)
    assert "kaf-group" in kaf("groups")
    assert "2 1 3 2" in kaf("group describe kaf-group")  # partition, committed, end, lag
    kaf("group delete kaf-group")
    kaf("topic delete kaf")
    assert "kaf 3 1" not in kaf("topics")
