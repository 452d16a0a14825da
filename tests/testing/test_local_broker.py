"""`drumlin.testing.broker`: starts, restarts, and leaves nothing behind, however its user ends."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

import drumlin
from drumlin.testing import Broker, BrokerFailed, broker
from rig.data.raw import RawClient
from rig.waiting import wait_until


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where brokers have their folders."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    """One for tests that need none of their own. The thread that has started it is gone."""
    config = {"num.partitions": 3, "auto.create.topics.enable": False}
    with ExitStack() as stack:
        stack.enter_context(pytest.MonkeyPatch.context()).setenv("DRUMLIN_NUM_PARTITIONS", "7")
        found: list[Broker] = []
        thread = threading.Thread(target=lambda: found.append(stack.enter_context(broker(config))))
        thread.start()
        thread.join()
        yield found[0]


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except ConnectionRefusedError:
        return False
    return True


def server_of(user: int) -> psutil.Process:
    """The broker that a process has started last; it may have started other programs too."""

    def find() -> psutil.Process | None:
        brokers = [each for each in psutil.Process(user).children() if _is_broker(each)]
        return max(brokers, key=psutil.Process.create_time, default=None)

    return wait_until(find, "the broker's process")


def _is_broker(process: psutil.Process) -> bool:
    try:
        return "drumlin.testing" in str(process.cmdline())
    except psutil.NoSuchProcess:  # it has ended, whether or not anybody knows
        return False


def write(started: Broker, topic: str, value: str) -> None:
    with drumlin.connect(started.bootstrap) as client, client.writer(topic) as writer:
        writer.send(value)


def read(started: Broker, topic: str) -> list[bytes]:
    with drumlin.connect(started.bootstrap) as client:
        values: list[bytes] = client.read(topic)["value"].to_pylist()
        return values


def test_it_is_there_within_the_block_and_gone_after_it(temporary: Path) -> None:
    with broker() as started:
        with RawClient(started.port) as client:
            (told,) = client.ask("metadata", 12, topics=[]).brokers
        assert (told.host, told.port) == ("127.0.0.1", started.port)
        assert started.bootstrap == f"127.0.0.1:{started.port}"
        assert started.bootstrap_servers == started.bootstrap, "as other clients call it"
        assert started.data.is_relative_to(temporary)
        assert started.is_running
    assert not started.is_running
    assert not answers(started.port)
    assert list(temporary.iterdir()) == []


@pytest.mark.deep
def test_data_survive_a_restart_and_a_kill_and_the_port_stays() -> None:
    with broker() as started, started.topic("kept") as topic:
        port = started.port
        write(started, topic, "first")
        started.restart()
        write(started, topic, "second")
        started.kill()
        assert not started.is_running
        assert not answers(port)
        started.start()
        assert read(started, topic) == [b"first", b"second"]
        assert started.port == port


def test_a_folder_that_is_given_stays(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with broker(data=data) as started:
        with drumlin.connect(started.bootstrap) as client:
            client.create_topic("t")
        write(started, "t", "kept")
    with broker(data=data) as started:
        assert "unclean" not in started.log
        assert read(started, "t") == [b"kept"]


def test_the_configuration(shared: Broker) -> None:
    """What the block says comes before the environment."""
    with drumlin.connect(shared.bootstrap) as client:
        client.create_topic("t")
        assert client.partitions("t") == [0, 1, 2]


def test_topics_have_names_of_their_own_and_go(shared: Broker) -> None:
    with drumlin.connect(shared.bootstrap) as client:
        before = client.list_topics()
        with (
            shared.topic("test_x[ä/1]", 2, {"retention.ms": -1}) as one,
            shared.topic("test_x[ä/1]") as other,
        ):
            assert one != other
            assert client.partitions(one) == [0, 1]
            assert client.topic_configs(one)["retention.ms"].value == "-1"
            client.delete_topic(other)
        assert client.list_topics() == before


def test_what_it_cannot_be_configured_with(tmp_path: Path) -> None:
    with pytest.raises(BrokerFailed, match="no such configuration key"), broker({"num.x": 1}):
        pass
    for key, argument in (("listeners", "port"), ("log.dirs", "data")):
        with pytest.raises(ValueError, match=f"{key}.*{argument}"), broker({key: "x"}):
            pass


def test_a_start_that_takes_too_long(temporary: Path) -> None:
    with pytest.raises(BrokerFailed, match="not ready after 0 s"), broker(timeout_s=0):
        pass
    assert list(temporary.iterdir()) == []


def test_a_port_of_ones_own_choice_may_be_taken(shared: Broker) -> None:
    with pytest.raises(OSError, match="in use"), broker(port=shared.port):
        pass


def test_an_end_of_its_own_is_told() -> None:
    with pytest.raises(BrokerFailed, match="ended by itself with -9"), broker() as started:
        server_of(os.getpid()).kill()
        wait_until(lambda: not started.is_running, "the end of the broker")
        assert not started.is_stopped
        with pytest.raises(BrokerFailed, match="ended by itself with -9"):
            started.restart()
        assert started.is_stopped
        started.start()
        server_of(os.getpid()).kill()
        wait_until(lambda: not started.is_running, "the end of the broker")


def test_many_start_at_once() -> None:
    with ExitStack() as stack:
        with ThreadPoolExecutor(3) as threads:
            starting = [threads.submit(stack.enter_context, broker()) for _ in range(3)]
            started = [each.result() for each in starting]
        assert len({each.port for each in started}) == 3
        assert all(answers(each.port) for each in started)


def test_it_outlives_the_thread_that_started_it(shared: Broker) -> None:
    with RawClient(shared.port) as client:
        assert client.ask("metadata", 12, topics=[]).brokers


# -- a user that is killed -----------------------------------------------------------------------


def start_user(source: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", source, *arguments], stdout=subprocess.PIPE)


def kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


USER = """
import sys, time, drumlin.testing
with drumlin.testing.broker(data=sys.argv[1] if sys.argv[1:] else None) as broker:
    print(broker.port, flush=True)
    time.sleep(600)
"""


def test_it_ends_with_a_killed_user(temporary: Path) -> None:
    user = start_user(USER)
    assert user.stdout is not None
    port = int(user.stdout.readline())
    server = server_of(user.pid)
    assert answers(port)
    assert list(temporary.iterdir()) != []
    kill(user)
    wait_until(lambda: not server.is_running(), "the end of the broker")
    assert not answers(port)
    assert list(temporary.iterdir()) == []


def test_it_stops_cleanly_with_a_killed_user_who_keeps_the_data(
    temporary: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    user = start_user(USER, str(data))
    assert user.stdout is not None
    user.stdout.readline()
    server = server_of(user.pid)
    kill(user)
    wait_until(lambda: not server.is_running(), "the end of the broker")
    assert (data / ".kafka_cleanshutdown").exists()
    assert list(temporary.iterdir()) == []


def test_it_ends_with_a_user_who_is_killed_while_it_starts(temporary: Path) -> None:
    user = start_user(USER)
    server = server_of(user.pid)
    kill(user)
    wait_until(lambda: not server.is_running(), "the end of the broker")
    assert list(temporary.iterdir()) == []


def test_an_interrupt_is_for_the_user_only(shared: Broker) -> None:
    """Ctrl-C goes to the whole foreground group, of which the broker is none."""
    process = server_of(os.getpid())
    assert os.getpgid(process.pid) != os.getpgid(0)
    assert shared.is_running
