"""Moving the offsets of groups from the command line, and what groups show of them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import confluent_kafka
import kafka  # type: ignore[import-untyped]
import pytest

from cli.conftest import Result, Run
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.raw import RawClient
from rig.waiting import wait_until

GROUP = "resetting"
EARLY_MS = (int(time.time()) - 7200) * 1000


@pytest.fixture(params=["drumlin", pytest.param("kafka", marks=pytest.mark.kafka)])
def address(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(f"{request.param}_address")
    return found


#: Of what Kafka decides nothing about, or what it does for another test here too.
WITH_KAFKA_WHERE_DEEP = pytest.mark.parametrize(
    "address",
    ["drumlin", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.deep])],
    indirect=True,
)


@pytest.fixture
def topic(run: Run, address: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Three partitions with ten records in each of the first two; 0 begins at offset 4.

    Record n of a partition was written at EARLY_MS + n.
    """
    name = request.node.name.replace("[", "-").replace("]", "")
    assert run("topics", "create", name, "--partitions", "3", "-b", address).code == 0
    for partition in ("0", "1"):
        lines = "".join(
            json.dumps({"value": "v", "timestamp": EARLY_MS + n}) + "\n" for n in range(10)
        )
        records = tmp_path / f"{partition}.jsonl"
        records.write_text(lines)
        written = run("produce", name, str(records), "-j", "-p", partition, "-b", address)
        assert written.code == 0, written.err
    arguments = ("topics", "delete-records", name, "--before", "4", "-p", "0", "--yes")
    deleted = run(*arguments, "-b", address)
    assert deleted.code == 0, deleted.err
    return name


@pytest.fixture
def group(topic: str) -> str:
    return f"{GROUP}-{topic}"


def offsets(run: Run, address: str, group: str) -> dict[int, int | None]:
    rows = run("groups", "describe", group, "--json", "-b", address).json[0]["offsets"]
    return {row["partition"]: row["committed_offset"] for row in rows}


def test_places_to_go_to(run: Run, address: str, topic: str, group: str) -> None:
    def reset(*arguments: str) -> Result:
        result = run("groups", "reset", group, *arguments, "--yes", "-b", address)
        assert result.code == 0, result.err
        return result

    reset(topic, "--to", "earliest")
    assert offsets(run, address, group) == {0: 4, 1: 0, 2: 0}
    reset("--to", "latest")
    assert offsets(run, address, group) == {0: 10, 1: 10, 2: 0}
    # As Kafka's own tool has it, an offset outside the log is its start or its end.
    reset("--to", "shift:-7")
    assert offsets(run, address, group) == {0: 4, 1: 3, 2: 0}
    reset("--to", "shift:+2")
    assert offsets(run, address, group) == {0: 6, 1: 5, 2: 0}
    reset("--to", "offset:8")
    assert offsets(run, address, group) == {0: 8, 1: 8, 2: 0}
    reset(f"{topic}:1", "--to", f"@{EARLY_MS + 5}")
    assert offsets(run, address, group) == {0: 8, 1: 5, 2: 0}
    moment = datetime.fromtimestamp(EARLY_MS / 1000, UTC) + timedelta(milliseconds=7)
    shown = reset("--to", moment.isoformat(), "--json").json
    assert offsets(run, address, group) == {0: 7, 1: 7, 2: 0}
    assert [(row["old_offset"], row["new_offset"], row["lag"], row["remark"]) for row in shown] == [
        (8, 7, 3, None),
        (5, 7, 3, None),
        (0, 0, 0, "no record since then: the end"),
    ]
    reset(f"{topic}:0,1", "--to", "1h")
    assert offsets(run, address, group) == {0: 10, 1: 10, 2: 0}
    reset(f"{topic}:0", "--to", "0")
    reset("--to", "current")
    assert offsets(run, address, group) == {0: 4, 1: 10, 2: 0}


@WITH_KAFKA_WHERE_DEEP
def test_a_dry_run_changes_nothing(run: Run, address: str, topic: str, group: str) -> None:
    run("groups", "reset", group, topic, "--to", "9", "--yes", "-b", address)
    before = offsets(run, address, group)
    asked = ["groups", "reset", group, "--to", "shift:-6", "--dry-run", "--yes", "-b", address]
    dry = run(*asked)
    assert dry.code == 0
    assert dry.rows == [
        [group, topic, "0", "9", "4", "6", "dry run", "3 is outside the log: its start"],
        [group, topic, "1", "9", "3", "7", "dry run", ""],
        [group, topic, "2", "0", "0", "0", "dry run", "-6 is outside the log: its start"],
    ]
    assert offsets(run, address, group) == before


def test_offsets_from_a_file(
    run: Run, address: str, topic: str, group: str, tmp_path: Path
) -> None:
    exported = tmp_path / "exported.csv"  # as kafka-consumer-groups --export writes it
    exported.write_text(f'"{group}","{topic}",0,5\nother,{topic},0,9\n"{group}","{topic}",1,99\n')
    result = run("groups", "reset", group, "--from-file", str(exported), "--yes", "-b", address)
    assert result.code == 0, result.err
    assert offsets(run, address, group) == {0: 5, 1: 10}
    exported.write_text(f"{topic},0,6\n{topic},1,7\n")
    run("groups", "reset", group, f"{topic}:1", "--from-file", str(exported), "-y", "-b", address)
    assert offsets(run, address, group) == {0: 5, 1: 7}
    exported.write_text(f"{topic},77,6\n")
    refused = run("groups", "reset", group, "--from-file", str(exported), "-y", "-b", address)
    assert (refused.code, refused.err) == (1, f"drumlin: there is no {topic}-77\n")


def test_metadata_comes_back(run: Run, address: str, topic: str, group: str) -> None:
    text = 'página 7, "so far"'
    run("groups", "reset", group, topic, "--to", "5", "--metadata", text, "-y", "-b", address)
    rows = run("groups", "describe", group, "--json", "-b", address).json[0]["offsets"]
    assert {row["metadata"] for row in rows} == {text}
    # Not by confluent-kafka, which reads metadata up to a zero byte that librdkafka does not add.
    consumer = kafka.KafkaConsumer(bootstrap_servers=address, group_id=group)
    try:
        found = consumer.committed(kafka.TopicPartition(topic, 1), metadata=True)
        assert (found.offset, found.metadata) == (5, text)
    finally:
        consumer.close(autocommit=False)


@WITH_KAFKA_WHERE_DEEP
def test_what_cannot_be_reset(run: Run, address: str, topic: str, group: str) -> None:
    def complaint(*arguments: str) -> str:
        result = run("groups", "reset", group, *arguments, "--yes", "-b", address)
        assert result.code in (1, 2)
        assert result.err.count("\n") == 1
        return result.err

    assert "has committed nothing: name topics" in complaint("--to", "earliest")
    assert "has committed nothing for" in complaint(topic, "--to", "shift:1")
    assert "has no partition 7" in complaint(f"{topic}:7", "--to", "earliest")
    assert "write shift:-7" in complaint(topic, "--to", "-7")
    assert "does not name a place in a log" in complaint(topic, "--to", "somewhere")
    assert "does not name a place in a log" in complaint(topic, "--to", "+10m")
    assert "either --to or --from-file" in complaint(topic)
    assert "unknown topic" in complaint("nowhere", "--to", "latest")
    assert "is not TOPIC or TOPIC:0,1" in complaint(f"{topic}:x", "--to", "latest")
    assert "No such file" in complaint(topic, "--from-file", "/nowhere/offsets.csv")


@pytest.fixture(params=["consumer", pytest.param("classic", marks=pytest.mark.deep)])
def member(
    address: str, topic: str, group: str, request: pytest.FixtureRequest
) -> Iterator[confluent_kafka.Consumer]:
    settings = {"bootstrap.servers": address, "group.id": group, "group.protocol": request.param}
    consumer = confluent_kafka.Consumer(settings | {"auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is not None, "a first record", 60)
        consumer.commit(asynchronous=False)
        yield consumer
    finally:
        consumer.close()


def test_a_group_with_members_is_left_alone(
    run: Run, address: str, group: str, topic: str, member: confluent_kafka.Consumer
) -> None:
    before = offsets(run, address, group)
    for more in ((), ("--dry-run",)):
        refused = run("groups", "reset", group, "--to", "latest", "-y", "-b", address, *more)
        assert (refused.code, refused.out) == (1, "")
        assert refused.err == (
            f"drumlin: group '{group}' is Stable with 1 member: "
            "stop its consumers first, to reset offsets\n"
        )
    assert offsets(run, address, group) == before
    forgotten = run("groups", "delete-offsets", group, topic, "--yes", "-b", address)
    assert (forgotten.code, "group subscribed to topic" in forgotten.err) == (1, True)


def test_share_groups_are_moved_too(run: Run, address: str, topic: str, group: str) -> None:
    member = str(uuid.uuid4())

    def beat(epoch: int) -> int:
        joining = {"group_id": group, "member_id": member, "rack_id": None}
        topics = [topic] if epoch == 0 else None
        fields = {"member_epoch": epoch, "subscribed_topic_names": topics}
        return client.ask("share_group_heartbeat", 1, **joining, **fields).error_code

    assert run("groups", "describe", group, "-b", address).code == 1  # has a coordinator now
    with RawClient(int(address.rpartition(":")[2])) as client:
        wait_until(lambda: beat(0) == ErrorCode.none, "a member to join", 60)
        shown = run("groups", "describe", group, "--json", "-b", address).json[0]
        assert (shown["type"], len(shown["members"])) == ("share", 1)
        refused = run("groups", "reset", group, topic, "--to", "5", "-y", "-b", address)
        assert "is Stable with 1 member" in refused.err
        assert beat(-1) == ErrorCode.none
    result = run("groups", "reset", group, topic, "--to", "5", "-y", "-b", address)
    assert result.code == 0, result.err
    assert offsets(run, address, group) == {0: 5, 1: 5, 2: 0}
    shifted = run("groups", "reset", group, f"{topic}:1", "--to", "shift:2", "-y", "-b", address)
    assert shifted.code == 0, shifted.err
    assert offsets(run, address, group) == {0: 5, 1: 7, 2: 0}
    some = run("groups", "delete-offsets", group, topic, "-p", "0", "-y", "-b", address)
    assert "it forgets whole topics only" in some.err
    assert run("groups", "delete-offsets", group, topic, "--yes", "-b", address).code == 0
    assert offsets(run, address, group) == {}
    assert run("groups", "delete", group, "--yes", "-b", address).code == 0


def test_offsets_of_a_deleted_topic_are_left_alone(run: Run, cluster: DrumlinServer) -> None:
    for name in ("kept", "dropped"):
        assert run("topics", "create", name).code == 0
        assert run("groups", "reset", "two-topics", name, "--to", "latest", "-y").code == 0
    assert run("topics", "delete", "dropped", "--yes").code == 0
    result = run("groups", "reset", "two-topics", "--to", "earliest", "--yes")
    assert result.code == 0
    assert {row[1] for row in result.rows} == {"kept"}
