"""How a broker begins and ends: what keeps it from starting, and what a stop still delivers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import config, running
from drumlin.broker.start.broker import Broker
from drumlin.broker.start.process_setup import risks
from drumlin.broker.start.startup import StartFailed
from drumlin.clock import SystemClock
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.embedded.database import FILE_NAME, Database
from rig.brokers.drumlin_server import SERVER_PROPERTIES, DrumlinServer, server_command
from rig.data.batches import batch
from rig.data.messages import render
from rig.ports import free_ports
from rig.waiting import wait_until

PROMPTLY_S = 15.0


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DrumlinServer]:
    server = DrumlinServer(tmp_path, {"offsets.topic.num.partitions": "1"})
    try:
        yield server
        server.check_output()
    finally:
        server.close()


def create(server: DrumlinServer, name: str) -> None:
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    with server.connect() as client:
        answer = client.ask("create_topics", 7, topics=[topic], timeout=10_000)
    assert render(answer)["topics"][0]["error_code"] == "none"


def leader_epoch(server: DrumlinServer, topic: str) -> int:
    with server.connect() as client:
        answer = render(client.ask("metadata", 12, topics=[{"name": topic}]))
    return int(answer["topics"][0]["partitions"][0]["leader_epoch"])


# -- stopping ----------------------------------------------------------------------------------


def wanted(topic: str, offset: int = 0) -> dict[str, Any]:
    partition = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20}
    topics = [{"topic": topic, "partitions": [partition]}]
    return {"replica_id": -1, "max_bytes": 1 << 20, "session_epoch": -1, "topics": topics}


def join(topic: str) -> dict[str, Any]:
    return {
        "group_id": "g",
        "session_timeout": 30_000,
        "rebalance_timeout": 60_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": topic.encode()}],
    }


def test_who_waits_is_answered_before_the_end(server: DrumlinServer) -> None:
    server.settings["group.initial.rebalance.delay.ms"] = "60000"
    server.start()
    create(server, "t")
    with server.connect() as fetching, server.connect() as joining, server.connect() as greedy:
        found = joining.ask("find_coordinator", 3, key="g")
        assert found.error_code == 0
        joining.send("join_group", 3, **join("t"))
        fetching.send("fetch", 11, **wanted("t"), max_wait=60_000, min_bytes=1)
        entry = {"name": "t", "partition_data": [{"index": 0, "records": batch(b"x" * 900_000)}]}
        for _ in range(8):
            greedy.ask("produce", 9, acks=1, timeout=10_000, topic_data=[entry])
        assert render(fetching.receive("fetch", 11))["responses"][0]["partitions"][0]["records"]
        fetching.send("fetch", 11, **wanted("t", 8), max_wait=60_000, min_bytes=1)
        for _ in range(200):  # answers that no client reads
            greedy.send("fetch", 11, **wanted("t"), max_wait=0, min_bytes=1)
        server.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
        server.process.send_signal(signal.SIGTERM)  # type: ignore[union-attr]
        answer = render(fetching.receive("fetch", 11))["responses"][0]["partitions"][0]
        assert (answer["error_code"], answer["records"]) == ("none", b"")
        assert render(joining.receive("join_group", 3))["error_code"] == "not_coordinator"
        assert server.wait_until_ended(PROMPTLY_S) == 0
    server.start()
    assert leader_epoch(server, "t") == 0  # it was a clean stop


def test_stop_while_a_log_dir_is_offline(tmp_path: Path) -> None:
    dirs = tmp_path / "a", tmp_path / "b"

    async def run() -> None:
        async with running(*dirs) as broker:
            await broker.metadata.create_topic("t", [[1], [1]], {})
        dirs[1].rename(tmp_path / "elsewhere")
        dirs[1].write_text("a broken disk")
        async with running(*dirs) as broker:
            assert broker.partitions.has_offline
        async with running(dirs[0]) as broker:
            assert broker.metadata.image.topics["t"].partitions[0].leader_epoch == 0

    asyncio.run(run())


def test_stop_during_the_start(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    command = server_command(data, free_ports(1)[0])
    with (
        contextlib.closing(sqlite3.connect(data / FILE_NAME, isolation_level=None)) as metadata,
        subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process,
    ):
        metadata.execute("BEGIN EXCLUSIVE")  # a start waits some seconds for that to end
        try:
            wait_until(lambda: _minds_sigterm(process.pid), "the start to be under way")
            process.send_signal(signal.SIGTERM)
            _, said = process.communicate(timeout=PROMPTLY_S)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in said


def _minds_sigterm(pid: int) -> bool:
    return _is_among(pid, "SigCgt", signal.SIGTERM)


def _is_among(pid: int, kind: str, number: signal.Signals) -> bool:
    """Whether a process catches (SigCgt) or ignores (SigIgn) a signal."""
    status = Path(f"/proc/{pid}/status").read_text()
    mask = next(line.split()[1] for line in status.splitlines() if line.startswith(kind))
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_the_end_of_a_terminal_is_a_clean_stop(server: DrumlinServer) -> None:
    server.start()
    os.kill(server.pid, signal.SIGHUP)
    assert server.wait_until_ended() == 0
    assert "stopped cleanly" in server.said()


def test_a_server_under_nohup_outlives_its_terminal(server: DrumlinServer) -> None:
    server.launch(["nohup", *server_command(server.data, server.port)])
    server.await_ready_line(str(server.port))
    assert _is_among(server.pid, "SigIgn", signal.SIGHUP)
    server.stop()


def test_what_may_surprise_is_said(tmp_path: Path) -> None:
    def said(listen: str, data: str) -> list[str]:
        given = {
            "listeners": f"PLAINTEXT://{listen}:9092",
            "advertised.listeners": "PLAINTEXT://here:9092",
            "log.dirs": data,
        }
        return [each.split(":")[0] for each in risks(BrokerConfig.load(given))]

    def asked(protocol: str, **given: str) -> list[str]:
        settings = {f"listener.name.x.{name}": text for name, text in given.items()}
        given_too = {
            "listeners": "X://192.0.2.1:9092",
            "listener.security.protocol.map": f"X:{protocol}",
            "inter.broker.listener.name": "X",
            "log.dirs": "/var/lib/drumlin",
        }
        return [each.split(":")[0] for each in risks(BrokerConfig.load(given_too | settings))]

    everybody = "any client that reaches this machine can read, write and delete everything"
    fleeting = "the data may be gone after the next reboot"
    assert said("127.0.0.1", "/var/lib/drumlin") == []
    assert said("", "/tmp/kafka-logs") == [everybody, fleeting]
    assert said("0.0.0.0", "/var/lib/drumlin") == [everybody]
    assert said("[::]", "/var/lib/drumlin") == [everybody]
    assert said("localhost", "/var/lib/drumlin") == []
    assert said("192.0.2.1", "/var/lib/drumlin") == [everybody]
    assert asked("SSL") == [everybody]
    assert asked("SSL", **{"ssl.client.auth": "required"}) == []
    assert asked("SASL_SSL") == []
    (tmp_path / "link").symlink_to("/tmp")
    assert said("127.0.0.1", f"/var/lib/drumlin,{tmp_path}/link/x") == [fleeting]


# -- starting ----------------------------------------------------------------------------------


def refusal(directory: Path, **settings: str) -> str:
    """Why a broker does not start."""
    with pytest.raises(StartFailed) as caught:
        asyncio.run(Broker.start(config(directory, **settings), SystemClock()))
    said = str(caught.value)
    assert "\n" not in said
    return said


@pytest.mark.parametrize("host", ["no.such.host.invalid", "203.0.113.7", "a..b", "x" * 100])
def test_an_address_that_is_not_ours(tmp_path: Path, host: str) -> None:
    said = refusal(tmp_path, listeners=f"PLAINTEXT://{host}:0")
    assert host in said
    assert "Unknown error" not in said
    assert not any(tmp_path.iterdir())


def test_a_port_in_use_leaves_the_data_as_they_were(server: DrumlinServer) -> None:
    server.start()
    create(server, "t")
    server.stop()
    with socket.create_server(("127.0.0.1", server.port)):
        command = server_command(server.data, server.port)
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode == 1
        assert str(server.port) in done.stderr
    server.start()
    assert leader_epoch(server, "t") == 0


def test_what_would_hold_clients_up_is_done_before_they_are_let_in(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    refused: list[bool] = []

    def look() -> None:
        with socket.socket() as client:
            refused.append(client.connect_ex(("127.0.0.1", port)) != 0)

    async def run() -> None:
        address = f"PLAINTEXT://127.0.0.1:{port}"
        broker = await Broker.start(config(tmp_path, listeners=address), SystemClock(), look)
        look()
        await broker.stop()

    asyncio.run(run())
    assert refused == [True, False]


def _is_no_database(path: Path) -> None:
    path.write_bytes(b"certainly not a database " * 100)


def _is_of_a_later_version(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")


def _has_no_tables(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 1")


@pytest.mark.parametrize("spoil", [_is_no_database, _is_of_a_later_version, _has_no_tables])
def test_metadata_that_cannot_be_read(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / FILE_NAME)
    assert FILE_NAME in refusal(tmp_path) or "version" in refusal(tmp_path)


@pytest.mark.parametrize("content", [b"node.id=x\n", b"\xff\xfe\x00"])
def test_meta_properties_that_cannot_be_read(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "meta.properties").write_bytes(content)
    assert str(tmp_path) in refusal(tmp_path)


def test_no_room_for_the_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(database: Database, statements: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Database, "execute_durably", fail)
    assert "disk is full" in refusal(tmp_path)


def test_no_room_to_note_an_unclean_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def crash() -> None:
        async with running(tmp_path) as broker:
            await broker.metadata.create_topic("t", [[1]], {})

    asyncio.run(crash())
    (tmp_path / ".kafka_cleanshutdown").unlink()
    test_no_room_for_the_metadata(tmp_path, monkeypatch)


def test_a_second_try_in_the_same_process(tmp_path: Path) -> None:
    """What has failed has let go of everything."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        refusal(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{taken.getsockname()[1]}")

    async def run() -> None:
        async with running(tmp_path) as broker:
            assert broker.listeners[0].port

    asyncio.run(run())


def test_a_server_starts_with_the_properties_of_apache_kafka(tmp_path: Path) -> None:
    """And says once which of them do nothing here."""
    server = DrumlinServer(tmp_path, properties_file=SERVER_PROPERTIES)
    with contextlib.closing(server):
        server.start()
        with server.connect() as client:
            assert client.ask("metadata", 12, topics=[]).controller_id == 1
        server.stop()
    lines = [line for line in server.said().splitlines() if "without effect here: " in line]
    (line,) = lines
    keys = line.partition("without effect here: ")[2].split(", ")
    assert keys == sorted(keys)
    assert {"controller.quorum.bootstrap.servers", "process.roles"} <= set(keys)
    assert not {"log.dirs", "node.id", "num.partitions", "socket.send.buffer.bytes"} & set(keys)
