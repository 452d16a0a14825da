"""Opening and closing, and what must not be done with a client."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.client.errors import BrokerUnreachable, ClientError
from rig.brokers.scripted_broker import ScriptedBroker, Silence
from rig.ports import free_ports


def test_the_package_imports_neither_arrow_nor_numba() -> None:
    code = "import drumlin, sys; print(sorted({'pyarrow', 'numba', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert drumlin.connect is not None
    with pytest.raises(AttributeError, match="no attribute 'disconnect'"):
        drumlin.disconnect  # noqa: B018


def test_nobody_there() -> None:
    first, second = free_ports(2)
    started = time.monotonic()
    with pytest.raises(BrokerUnreachable, match=f":{first}: .*refused.*:{second}: .*refused"):
        drumlin.connect(f"127.0.0.1:{first},127.0.0.1:{second}")
    assert isinstance(BrokerUnreachable("x"), ConnectionError)
    assert time.monotonic() - started < 20


def test_one_broker_of_several_is_enough() -> None:
    with ScriptedBroker({"t": 2}) as broker:
        nobody = free_ports(1)[0]
        with drumlin.connect(f"127.0.0.1:{nobody}, {broker.address}") as client:
            assert client.partitions("t") == [0, 1]


def test_a_broker_that_is_away_is_waited_for_unless_connect_is_to_say_so() -> None:
    port = free_ports(1)[0]
    with drumlin.connect(f"127.0.0.1:{port}", check=False, call_timeout_ms=30_000) as client:
        answers: list[list[int]] = []
        caller = threading.Thread(target=lambda: answers.append(client.partitions("t")))
        caller.start()
        with ScriptedBroker({"t": 2}, port=port):
            caller.join(30)
    assert answers == [[0, 1]]


def test_a_call_outlives_a_broker_that_hangs() -> None:
    with (
        ScriptedBroker({"t": 2}) as broker,
        drumlin.connect(broker.address, request_timeout_ms=200, call_timeout_ms=30_000) as client,
    ):
        broker.script("metadata", lambda *_: Silence(), lambda *_: Silence(), broker.metadata)
        assert client.partitions("t") == [0, 1]


@pytest.mark.parametrize("bootstrap", ["", " , ", "host:port", "host:0", "host:70000", ":9092"])
def test_addresses_that_are_none(bootstrap: str) -> None:
    with pytest.raises(ValueError, match=r"broker address"):
        drumlin.connect(bootstrap)


def test_a_closed_client_says_so() -> None:
    with ScriptedBroker({"t": 1}) as broker:
        client = drumlin.connect(broker.address)
        client.close()
        client.close()
        with pytest.raises(ClientError, match="closed"):
            client.partitions("t")


def test_its_thread_ends_with_it() -> None:
    with ScriptedBroker({"t": 1}) as broker:
        before = threading.active_count()
        with drumlin.connect(broker.address):
            pass
        assert threading.active_count() <= before


def test_a_client_is_not_pickled() -> None:
    with (
        ScriptedBroker({"t": 1}) as broker,
        drumlin.connect(broker.address) as client,
        pytest.raises(TypeError, match="connect again"),
    ):
        pickle.dumps(client)


def exit_code_of_child(client: Client) -> int:
    child = os.fork()
    if child == 0:
        try:
            client.partitions("t")
        except ClientError as error:
            os._exit(7 if "before a fork" in str(error) else 1)
        os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_client_does_not_cross_a_fork() -> None:
    with ScriptedBroker({"t": 1}) as broker, drumlin.connect(broker.address) as client:
        assert exit_code_of_child(client) == 7
        assert client.partitions("t") == [0]
