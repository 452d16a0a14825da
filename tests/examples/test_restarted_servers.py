"""Servers that are restarted while a landing goes on: it waits, and lands every record once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

import drumlin
from drumlin.client.errors import BrokerUnreachable, RequestTimedOut
from drumlin.spark import Landing, land
from drumlin.spark.landing.targets.parquet import open_lake
from drumlin.spark.landing.targets.target import StoreUnavailable
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.fault_injection.network import Network
from rig.ports import free_ports
from rig.servers.postgres import running_postgres
from rig.servers.small_hdfs import small_hdfs
from rig.waiting import wait_until

pytestmark = [pytest.mark.spark, pytest.mark.deep]

TOPIC = "landed"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DrumlinServer]:
    (tmp_path / "broker").mkdir()
    with running_server(tmp_path / "broker") as server:
        with drumlin.connect(server.address) as client:
            client.create_topic(TOPIC, 2)
        yield server


class Going:
    """A landing that goes on, in a thread of its own."""

    def __init__(self, spark: SparkSession, address: str, to: str) -> None:
        self.offsets, self.retries = 0, list[Exception]()
        self._stop, self._pool = threading.Event(), ThreadPoolExecutor(1)
        given: dict[str, Any] = {
            "bootstrap": address,
            "every_s": 0.1,
            "stop": self._stop,
            "on_progress": self._tell,
            "on_retry": self.retries.append,
            "kafka.request.timeout.ms": "2000",
            "kafka.default.api.timeout.ms": "2000",
        }
        self._done = self._pool.submit(land, spark, TOPIC, to, **given)

    def _tell(self, now: Landing) -> None:
        self.offsets = now.offsets

    def wait_for(self, offsets: int) -> None:
        wait_until(lambda: self.offsets >= offsets or self._done.done(), "the landing", 300)
        assert not self._done.done(), self._done.result()

    def wait_for_retry(self) -> None:
        wait_until(lambda: self.retries or self._done.done(), "something to be tried again", 300)
        assert self.retries, self._done.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._pool.shutdown()
        self._done.result()


def _write(broker: DrumlinServer, numbers: range) -> None:
    with drumlin.connect(broker.address) as client:
        texts = [f"{number}" for number in numbers]
        client.append(pa.table({"key": texts, "value": texts}), TOPIC)


def test_a_broker(spark: SparkSession, broker: DrumlinServer, tmp_path: Path) -> None:
    with Going(spark, broker.address, f"delta:{tmp_path}/table") as going:
        _write(broker, range(10))
        going.wait_for(10)
        broker.stop()
        going.wait_for_retry()
        assert isinstance(going.retries[0], BrokerUnreachable | RequestTimedOut)
        broker.start()
        _write(broker, range(10, 20))
        going.wait_for(20)
    keys = DeltaTable(tmp_path / "table").to_pyarrow_table()["key"].to_pylist()
    assert sorted(map(int, keys)) == list(range(20))


def test_a_database(spark: SparkSession, broker: DrumlinServer) -> None:
    with running_postgres() as server:
        url = server.url()
        with Going(spark, broker.address, url) as going:
            _write(broker, range(10))
            going.wait_for(10)
            server.restart()
            _write(broker, range(10, 20))
            going.wait_for(20)
        with psycopg.connect(url) as connection:
            found = connection.execute(f"SELECT key FROM {TOPIC}".encode()).fetchall()
        assert sorted(int(key) for (key,) in found) == list(range(20))


def test_a_name_node(spark: SparkSession, broker: DrumlinServer, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with small_hdfs(tmp_path) as address, ExitStack() as way:
        way.enter_context(_way(port, address))
        with Going(spark, broker.address, f"hdfs://127.0.0.1:{port}/lake") as going:
            _write(broker, range(10))
            going.wait_for(10)
            way.close()
            going.wait_for_retry()
            assert isinstance(going.retries[0], StoreUnavailable)
            way.enter_context(_way(port, address))
            _write(broker, range(10, 20))
            going.wait_for(20)
        files, folder = open_lake(f"{address}/lake")
        keys = pq.read_table(folder, filesystem=files)["key"].to_pylist()
    assert sorted(map(int, keys)) == list(range(20))


@contextmanager
def _way(port: int, address: str) -> Iterator[None]:
    """The name node can be reached at this port as well."""
    target = urlsplit(address).port
    assert target is not None
    with Network() as network:
        network.carry(port, "name node", target, "landing")
        yield
