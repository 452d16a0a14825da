"""How the processes of a server of several brokers end, wanted or not."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest
from confluent_kafka import KafkaException

from machine.clients import create, leaders, produce, read
from machine.conftest import MakeServer
from rig.brokers.machine_server import MachineServer, await_end
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

VALUES = [str(each) for each in range(2000)]


def test_a_broker_that_is_killed_is_back_with_all_that_was_acknowledged(
    make_server: MakeServer,
) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 4)
    acknowledged = produce(server, "t", VALUES)
    for node_id in (1, 2):
        server.kill_workers([node_id])()
        wait_until(lambda: sorted(leaders(server, "t")) == [1, 1, 2, 2], "all leaders to be back")
        acknowledged += produce(server, "t", [f"{node_id}-{each}" for each in VALUES])
    assert len(acknowledged) == 3 * len(VALUES)
    assert sorted(read(server, "t", acknowledged)) == sorted(acknowledged)
    server.stop()


def test_no_broker_outlives_the_server(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 4)
    acknowledged = produce(server, "t", VALUES)
    workers = server.workers()
    assert sorted(workers) == [1, 2]
    server.kill()
    await_end(workers)
    server.start_brokers(2)
    assert sorted(read(server, "t", acknowledged)) == sorted(acknowledged)
    server.stop()


@pytest.mark.deep
def test_no_broker_outlives_a_server_that_is_killed_at_its_start(make_server: MakeServer) -> None:
    server = make_server()
    for _ in range(3):
        server.launch(server.command(2))
        workers = wait_until(server.workers, "a broker's process")
        server.kill()
        await_end(workers)
    server.start_brokers(2)
    server.stop()


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.deep), signal.SIGHUP],
)
def test_a_signal_stops_all_cleanly(make_server: MakeServer, number: signal.Signals) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2)
    workers = server.workers()
    # As Ctrl-C, and the end of a terminal or a service, which all processes are told.
    for process in (psutil.Process(server.pid), *workers.values()):
        process.send_signal(number)
    assert server.wait_until_ended() == 0
    await_end(workers)
    assert server.said().count("stopped cleanly") == 3
    for folder in (server.data, server.data / ".brokers" / "2"):
        assert (folder / ".kafka_cleanshutdown").exists()


@pytest.mark.deep
def test_a_broker_that_hangs_is_replaced(make_server: MakeServer) -> None:
    """Others lead what it has led, though its process has not ended by itself."""
    server = make_server({"zookeeper.session.timeout.ms": "6000", "min.insync.replicas": "2"})
    server.start_brokers(3)
    create(server, "t", 3, replicas=3)
    acknowledged = produce(server, "t", VALUES)
    node_id = leaders(server, "t")[0]
    hanging = server.workers()[node_id]
    hanging.suspend()
    missed = "hangs: it was not heard for 6 s, and is killed"
    wait_until(lambda: missed in server.said(), "the broker to be missed")
    with suppress(psutil.NoSuchProcess):
        hanging.resume()  # too late: it would serve on beside those that lead now
    acknowledged += produce(server, "t", [f"again-{each}" for each in VALUES])
    assert len(acknowledged) == 2 * len(VALUES)
    await_end({0: hanging})
    wait_until(lambda: f"broker {node_id} was killed by signal 9" in server.said(), "its end")
    wait_until(lambda: "is ready again" in server.said(), "the broker to be back", 60.0)
    assert sorted(read(server, "t", acknowledged)) == sorted(acknowledged)
    server.stop()


@pytest.mark.deep
def test_a_server_that_hangs_is_waited_for(make_server: MakeServer) -> None:
    """Its brokers serve on, as nobody else can lead what they lead, and say what is not done."""
    server = make_server({"zookeeper.session.timeout.ms": "4000"})
    server.start_brokers(2)
    create(server, "t", 2, replicas=2)
    workers = server.workers()
    with stopped(psutil.Process(server.pid)):
        with pytest.raises(KafkaException, match="does not answer"):
            create(server, "refused", 1)
        acknowledged = produce(server, "t", VALUES, is_idempotent=False)
    wait_until(lambda: "answers again" in server.said(), "the server to be heard")
    create(server, "u", 1)
    assert sorted(read(server, "t", acknowledged)) == sorted(acknowledged)
    assert server.workers() == workers
    server.stop()


@contextmanager
def stopped(process: psutil.Process) -> Iterator[None]:
    process.suspend()
    try:
        yield
    finally:
        process.resume()


def test_a_server_may_be_stopped_before_it_is_ready(make_server: MakeServer) -> None:
    server = make_server()
    server.launch(server.command(2))
    workers = wait_until(server.workers, "a broker's process")
    assert server.terminate() == 0
    await_end(workers)


@pytest.mark.deep
def test_a_port_that_is_taken_ends_all_with_one_line(make_server: MakeServer) -> None:
    server = make_server()
    with socket.create_server(("127.0.0.1", server.port + 2)):
        where = f"127.0.0.1:{server.port + 2}"
        expected = f"drumlin server: broker 3: cannot listen on {where}: Address already in use"
        assert failed_start(server, 4) == [expected]
    server.start_brokers(4)
    server.stop()


def test_a_data_directory_has_one_server(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    expected = [f"drumlin server: log dir {server.data} is in use by another server"]
    other = MachineServer(server.data.parent)
    other.output = server.data.parent / "other.out"
    for brokers in (1, 3):
        assert failed_start(other, brokers) == expected
    server.stop()


def test_zookeeper_is_for_servers_of_one_broker(make_server: MakeServer) -> None:
    server = make_server({"zookeeper.connect": "127.0.0.1:1/x"})
    (line,) = failed_start(server, 2)
    assert "zookeeper.connect" in line
    assert "--brokers" in line


def taken(port: int) -> socket.socket | None:
    """The port, taken; None as long as somebody else has it."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return None


def failed_start(server: MachineServer, brokers: int) -> list[str]:
    """What it says of a start that fails."""
    done = subprocess.run(
        server.command(brokers), capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "asyncio" not in done.stderr
    return [line for line in done.stderr.splitlines() if line.startswith("drumlin server")]


@pytest.mark.deep
def test_a_broker_that_cannot_come_back_is_tried_again(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2)
    values = produce(server, "t", VALUES)
    await_it = server.kill_workers([2])
    # Before the next process has it.
    with wait_until(lambda: taken(server.port + 1), "the port to be free"):
        line = f"broker 2: cannot listen on 127.0.0.1:{server.port + 1}"
        wait_until(lambda: server.said().count(line) >= 2, "it to be tried twice")
        assert sorted(leaders(server, "t")) == [-1, 1]  # the other one serves on
    await_it()
    assert sorted(read(server, "t", values)) == sorted(values)
    server.stop()
