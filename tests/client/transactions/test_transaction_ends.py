"""A dead process or a late batch holds readers up for a limited time."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import drumlin
from client.transactions.reading import is_stable
from drumlin import lowlevel
from drumlin.client.client import Client
from drumlin.client.errors import RequestRefused
from drumlin.client.transactions.errors import ProducerFenced, TransactionTimedOut
from drumlin.client.transactions.requests import OpenTransaction
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.jvm.jars import Unavailable
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.older_kafka import OlderKafka
from rig.waiting import wait_until

_TRANSACTIONAL = 0x10
_TIMEOUT_MS = 3_000

_PROGRAM = """
import sys, time
import pyarrow as pa
import drumlin
address, name, topic, timeout_ms = sys.argv[1:]
client = drumlin.connect(address)
transaction = client.transaction(name, timeout_ms=int(timeout_ms))
transaction.append(pa.table({"value": ["dead"]}), topic)
print(transaction.producer_id, transaction.epoch, flush=True)
time.sleep(600)
"""


def kill_in_the_middle(address: str, name: str, topic: str, timeout_ms: int) -> OpenTransaction:
    """A process that dies (kill -9) with a transaction open."""
    arguments = [sys.executable, "-c", _PROGRAM, address, name, topic, str(timeout_ms)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        said = program.stdout.readline().split()
        program.kill()
    return OpenTransaction(name, *map(int, said))


def values(client: Client, topic: str) -> list[str]:
    table = client.read(topic, isolation="read_committed")
    return [each.as_py().decode() for each in table["value"]]


def test_a_dead_process_holds_readers_up_until_the_timeout(
    address: str, client: Client, topic: str
) -> None:
    opened = kill_in_the_middle(address, topic, topic, _TIMEOUT_MS)
    client.append(
        pa.table({"value": ["after"] * 9, "partition": [0, 1, 2] * 3}), topic, partition="partition"
    )
    assert not is_stable(client, topic)
    wait_until(lambda: is_stable(client, topic), "the time-out", 60)
    assert values(client, topic) == ["after"] * 9
    with pytest.raises(TransactionTimedOut):
        lowlevel.end_transaction(client, opened, commit=True)


def test_a_dead_process_is_aborted_from_outside(address: str, client: Client, topic: str) -> None:
    opened = kill_in_the_middle(address, topic, topic, 600_000)
    assert client.describe_transactions([topic])[topic].is_open
    assert not is_stable(client, topic)
    client.abort_transaction(topic)
    wait_until(lambda: is_stable(client, topic), "the abort")
    with pytest.raises(ProducerFenced):
        lowlevel.end_transaction(client, opened, commit=True)


def test_what_a_dead_process_has_written_can_be_committed(
    address: str, client: Client, topic: str
) -> None:
    opened = kill_in_the_middle(address, topic, topic, 600_000)
    lowlevel.end_transaction(client, opened, commit=True)
    wait_until(lambda: values(client, topic) == ["dead"], "the commit to be seen")


# -- transactions that no coordinator knows ------------------------------------------------------


@pytest.fixture(
    params=[
        "drumlin",
        pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep]),
        pytest.param("kafka 3.0", marks=[pytest.mark.kafka, pytest.mark.deep]),
    ]
)
def lax_port(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[int]:
    """A broker that lets a batch begin a transaction in a partition, as all did before 3.6."""
    lax = {"transaction.partition.verification.enable": "false"}
    server: DrumlinServer | ApacheKafka | None = None
    try:
        match request.param:
            case "drumlin":
                server = DrumlinServer(tmp_path, lax)
            case "kafka":
                server = ApacheKafka(tmp_path, lax)
            case _:
                server = OlderKafka("3.0", tmp_path, {})
        server.start()
        yield server.port
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        if server is not None:
            server.close()


def test_a_transaction_that_hangs_is_aborted_where_it_does(lax_port: int) -> None:
    topic = f"t-{uuid.uuid4().hex[:12]}"
    with drumlin.connect(f"127.0.0.1:{lax_port}") as client:
        client.create_topic(topic, 1)
        with client.transaction(topic) as transaction:
            transaction.append(pa.table({"value": ["a"]}), topic)
        wait_until(lambda: values(client, topic) == ["a"], "the commit to be seen")
        late = batch(
            b"late",
            producer_id=transaction.producer_id,
            producer_epoch=transaction.epoch,
            base_sequence=1,
            extra_attributes=_TRANSACTIONAL,
        )
        with RawClient(lax_port) as raw:
            data = [{"name": topic, "partition_data": [{"index": 0, "records": late}]}]
            answer = raw.ask(
                "produce", 9, transactional_id=topic, acks=-1, timeout=10_000, topic_data=data
            )
        assert answer.responses[0].partition_responses[0].error_code == 0
        client.append(pa.table({"value": ["b"]}), topic)
        (hanging,) = client.open_producers([(topic, 0)])[topic, 0]
        assert hanging.producer_id == transaction.producer_id
        assert values(client, topic) == ["a"]
        client.abort_hanging_transaction(topic, 0, hanging.producer_id)
        wait_until(lambda: values(client, topic) == ["a", "b"], "what came after it")
        assert client.open_producers([(topic, 0)]) == {(topic, 0): []}
        with pytest.raises(RequestRefused, match="has no open transaction there"):
            client.abort_hanging_transaction(topic, 0, hanging.producer_id)
