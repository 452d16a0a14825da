"""Rights that a transaction takes, on a real Apache Kafka: each one that lacks is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from drumlin import lowlevel
from drumlin.cli import app
from drumlin.client.client import Client
from drumlin.client.errors import ClientError, DeliveryFailed, NotAuthorized
from drumlin.client.transactions.errors import TransactionFailed
from drumlin.client.transactions.requests import OpenTransaction
from drumlin.security import Plain, Security
from rig.data.secured_listeners import PASSWORD, Secured
from rig.servers.rights import DESCRIBE, TOPIC, TRANSACTIONAL_ID, WRITE, Right, granted, withdraw

pytestmark = pytest.mark.kafka

ROWS = pa.table({"value": ["a"]})


@pytest.fixture
def alice(secured: Secured) -> Iterator[Client]:
    security = Security(None, Plain("alice", PASSWORD))
    with drumlin.connect(secured.addresses["login"], security=security) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"x-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def write_id(secured: Secured, name: str) -> Iterator[Right]:
    """WRITE on the transactional id."""
    right = Right(TRANSACTIONAL_ID, name, WRITE)
    with granted(secured, right):
        yield right


def lacks(right: str, code: str) -> str:
    """What the sentence says of it."""
    return rf"this user has no right to it, as it takes {right} \({code}\)"


_ID = "transactional_id_authorization_failed"
_TOPIC_CODE = "topic_authorization_failed"
_SEE = "WRITE on the topic, and CREATE if it is not there"  # the broker does not tell which


def test_the_transactional_id(secured: Secured, alice: Client, name: str) -> None:
    describe = "this user has no right to it, as it takes DESCRIBE on the transactional id"
    for what in (
        lambda: alice.transaction(name),
        lambda: alice.describe_transactions([name]),
        lambda: alice.abort_transaction(name),
        lambda: lowlevel.end_transaction(alice, OpenTransaction(name, 1, 0), commit=True),
    ):
        with pytest.raises(NotAuthorized, match=f"'{name}': {describe}"):
            what()
    with (
        granted(secured, Right(TRANSACTIONAL_ID, name, DESCRIBE)),
        pytest.raises(NotAuthorized, match=lacks("WRITE on the transactional id", _ID)),
    ):
        alice.transaction(name)


def test_a_topic_that_would_have_to_be_created(secured: Secured, alice: Client, name: str) -> None:
    """WRITE includes DESCRIBE: what lacks is another right."""
    with (
        granted(secured, Right(TOPIC, name, WRITE)),
        pytest.raises(NotAuthorized, match=f"'{name}': {lacks(_SEE, _TOPIC_CODE)}"),
    ):
        alice.append(ROWS, name)


@pytest.mark.usefixtures("write_id")
@pytest.mark.parametrize(("topic", "right"), [("locked", "WRITE on the topic"), ("hidden", _SEE)])
def test_a_topic_to_write_to(alice: Client, name: str, topic: str, right: str) -> None:
    lacking = lacks(right, _TOPIC_CODE)
    transaction = alice.transaction(name)
    with pytest.raises((DeliveryFailed, NotAuthorized), match=f"^topic '{topic}'.*{lacking}"):
        transaction.append(ROWS, topic)
    with pytest.raises(ClientError):
        transaction.append(ROWS, "open")
    with pytest.raises(TransactionFailed, match="can only be aborted: topic"):
        transaction.commit()
    transaction.abort()


@pytest.mark.usefixtures("write_id")
def test_one_topic_of_several_is_named_to_all(alice: Client, name: str) -> None:
    """Partitions are added together, or not at all."""
    transaction = alice.transaction(name)
    rows = pa.RecordBatch.from_pydict({"topic": ["open", "locked"], "value": ["a", "b"]})
    appender = lowlevel.stream_appender(transaction)
    appender.add(rows)
    with pytest.raises(DeliveryFailed, match=r"topic 'locked' partition 0.*as it takes WRITE"):
        appender.finish()
    transaction.abort()


@pytest.mark.parametrize("topic", ["locked", "hidden"])
def test_a_topic_without_a_transaction(alice: Client, topic: str) -> None:
    lacking = lacks("WRITE on the topic" if topic == "locked" else _SEE, _TOPIC_CODE)
    with pytest.raises((DeliveryFailed, NotAuthorized), match=f"^topic '{topic}'.*{lacking}"):
        alice.append(ROWS, topic)
    if topic == "locked":
        with alice.writer(topic) as writer:
            delivery = writer.send("a")
            with pytest.raises(DeliveryFailed, match=lacking):
                writer.flush()
            with pytest.raises(DeliveryFailed, match=lacking):
                delivery.result()


@pytest.mark.usefixtures("write_id")
def test_a_group_and_what_it_reads(alice: Client, name: str) -> None:
    def offsets(topic: str) -> dict[Any, int]:
        return {(topic, 0): 1}

    transaction = alice.transaction(name)
    group = lacks("READ on the group", "group_authorization_failed")
    with pytest.raises(NotAuthorized, match=f"offsets of group 'others'.*{group}"):
        transaction.send_offsets(offsets("open"), "others")
    transaction.abort()
    for topic in ("locked", "hidden"):
        transaction = alice.transaction(name)
        read = lacks("READ on the topic", "topic_authorization_failed")
        with pytest.raises(NotAuthorized, match=f"group 'readers', topic '{topic}'.*{read}"):
            transaction.send_offsets(offsets(topic), "readers")
        transaction.abort()
    with alice.transaction(name) as transaction:
        transaction.send_offsets(offsets("open"), "readers")


def test_a_right_that_is_withdrawn_before_the_end(
    secured: Secured, alice: Client, name: str, write_id: Right
) -> None:
    """Nothing has changed by the refusal: with the right the same transaction is ended."""
    transaction = alice.transaction(name)
    transaction.append(ROWS, "open")
    withdraw(secured, write_id)
    describe = Right(TRANSACTIONAL_ID, name, DESCRIBE)
    with granted(secured, describe):
        lacking = lacks("WRITE on the transactional id", _ID)
        for end in (transaction.commit, transaction.abort):
            with pytest.raises(NotAuthorized, match=f"end_txn of '{name}': {lacking}"):
                end()
            assert transaction.state == "open"
    with granted(secured, write_id):
        transaction.commit()


def test_what_partitions_and_the_cluster_tell(
    secured: Secured, alice: Client, name: str, write_id: Right
) -> None:
    read = lacks("READ on the topic", "topic_authorization_failed")
    with pytest.raises(NotAuthorized, match=read):
        alice.open_producers([("locked", 0)])
    with alice.transaction(name) as transaction:
        transaction.append(ROWS, "open")
        (found,) = alice.open_producers([("open", 0)])["open", 0]
        assert [each.transactional_id for each in alice.list_transactions()] == [name]
        cluster = lacks("CLUSTER_ACTION on the cluster", "cluster_authorization_failed")
        withdraw(secured, write_id)  # no id that alice may see has it: it seems to hang
        with pytest.raises(NotAuthorized, match=cluster):
            alice.abort_hanging_transaction("open", 0, found.producer_id)
        with granted(secured, write_id):
            transaction.commit()


def test_on_the_command_line(
    secured: Secured, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    config = tmp_path / "alice.properties"
    config.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="{escaped}";\n'
    )
    where = ["--bootstrap", secured.addresses["login"], "--command-config", str(config)]
    for command in (["describe", name], ["abort", name, "--yes"]):
        assert app.main(["transactions", *command, *where]) == 1
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert f"'{name}': this user has no right to it, as it takes DESCRIBE on the" in said.err
    assert app.main(["transactions", "list", *where]) == 0
    assert capsys.readouterr().out == ""
    assert app.main(["sinks", "describe", name, *where]) == 1
    said = capsys.readouterr()
    assert "topic 'drumlin-sinks': this user has no right to it, as it takes DESCRIBE" in said.err
