"""The console's answers, from a broker."""

from __future__ import annotations

import base64
from typing import Any

import pyarrow as pa
import pytest

import drumlin
from console.console_process import Visitor
from drumlin.client.client import Client
from rig.brokers.secured_drumlin import SecuredDrumlin

HOSTILE = "</script><img src=x onerror=alert(1)>\u202e\0"


@pytest.fixture(scope="module")
def client(broker: SecuredDrumlin):
    with drumlin.connect(broker.address) as client:
        yield client


def _bytes(field: dict[str, Any] | None) -> bytes | None:
    return None if field is None else base64.b64decode(field["base64"])


@pytest.fixture(scope="module")
def users(client: Client) -> str:
    """300 records with 20 keys in two partitions, and a tombstone."""
    configs = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"}  # never cleaned
    client.create_topic("answered-users", 2, configs=configs)
    rows = {"key": [f"user{i % 20}" for i in range(300)], "value": [f"v{i}" for i in range(300)]}
    client.append(pa.table({**rows, "timestamp": list(range(1000, 1300))}), "answered-users")
    client.append(
        pa.table({"key": ["user3"], "value": pa.array([None], pa.string())}), "answered-users"
    )
    return "answered-users"


def test_the_cluster_and_its_brokers(visitor: Visitor, broker: SecuredDrumlin, users: str) -> None:
    found = visitor.get("cluster").json
    (one,) = found["brokers"]
    assert one["port"] == broker.port
    assert found["topics"] >= 1
    assert one["leaders"] == found["partitions"]
    assert (found["under_replicated"], found["offline"]) == (0, 0)
    (directory,) = one["directories"]
    assert directory["path"] == str(broker.data)
    assert 0 < directory["used_bytes"] < directory["total_bytes"]


def test_topics_with_sizes(visitor: Visitor, users: str) -> None:
    rows = {each["name"]: each for each in visitor.get("topics").json["topics"]}
    assert rows[users]["partitions"] == 2
    assert rows[users]["offsets"] == rows[users]["end_offsets"] == 301
    assert rows[users]["size_bytes"] > 300
    parts = visitor.get("topic", topic=users).json["partitions"]
    assert sum(each["end_offset"] for each in parts) == 301
    assert sum(each["size_bytes"] for each in parts) == rows[users]["size_bytes"]


def test_configurations_with_what_differs(visitor: Visitor, users: str) -> None:
    rows = visitor.get("configs", topic=users).json["configs"]
    assert [
        (each["key"], each["value"], each["default"]) for each in rows if not each["is_default"]
    ] == [
        ("cleanup.policy", "compact", "delete"),
        ("max.message.bytes", "110000000", "1048588"),
        ("min.cleanable.dirty.ratio", "1.0", "0.5"),
    ]
    broker_rows = visitor.get("broker", id=1).json["configs"]
    secret = [each for each in broker_rows if each["is_sensitive"]]
    assert secret
    assert all(each["value"] is None for each in secret)


def test_records_from_any_place(visitor: Visitor, users: str) -> None:
    def read(**where: object) -> dict[str, Any]:
        return visitor.get("records", topic=users, partition=0, **where).json

    end = read()["end_offset"]
    last = read(limit=5)
    assert [each["offset"] for each in last["records"]] == list(range(end - 5, end))
    assert last["next_offset"] == end
    some = read(at=7, limit=3)
    assert [each["offset"] for each in some["records"]] == [7, 8, 9]
    assert some["next_offset"] == 10
    moment = some["records"][1]["timestamp_ms"]
    assert read(at=f"time:{moment}", limit=1)["records"] == [some["records"][1]]
    assert read(at=10**15)["records"] == []
    assert read(at=f"time:{10**15}")["first_offset"] == end
    everything, offset = [], 0
    while offset < end:
        found = read(at=offset, limit=50)
        everything += found["records"]
        offset = found["next_offset"]
    assert [each["offset"] for each in everything] == list(range(end))


def test_the_latest_value_of_a_key_and_its_history(visitor: Visitor, users: str) -> None:
    def search(partition: int, key: str, **more: object) -> dict[str, Any]:
        return visitor.get("search", topic=users, partition=partition, key=key, **more).json

    home = search(0, "user3")["hashed_partition"]
    assert search(1 - home, "user3")["records"] == []
    found = search(home, "user3", limit=500)
    values = [_bytes(each["value"]) for each in found["records"]]
    assert values == [None, *(f"v{i}".encode() for i in range(283, 0, -20))]
    assert found["before_offset"] is None
    assert search(home, b"user3".hex(), format="hex", limit=500) == found
    pages, before = [], None
    while True:
        more = {} if before is None else {"before": before}
        page = search(home, "user3", limit=4, **more)
        pages += page["records"]
        before = page["before_offset"]
        if before is None:
            break
    assert pages == found["records"]
    assert search(0, "nobody")["records"] == []


def test_a_key_is_found_among_large_values(visitor: Visitor, client: Client) -> None:
    """More bytes than are looked through at once."""
    client.create_topic("answered-wide", 1)
    with client.writer("answered-wide") as writer:
        for number in range(24):
            writer.send(str(number) + "." * 1_000_000, key=f"key{number % 3}")
    rows, before = [], {}
    while before is not None:
        where = {"topic": "answered-wide", "partition": 0, "key": "key1"}
        found = visitor.get("search", **where, **before, cut=10).json
        rows += [each["offset"] for each in found["records"]]
        at = found["before_offset"]
        before = None if at is None else {"before": at}
    assert rows == list(range(22, 0, -3))


@pytest.mark.parametrize("size", [5_000_000, pytest.param(100_000_000, marks=pytest.mark.deep)])
def test_a_large_value_is_cut(visitor: Visitor, client: Client, size: int) -> None:
    topic = f"answered-large-{size}"
    client.create_topic(topic, 1)
    with client.writer(topic) as writer:
        writer.send(b"x" * size, key=b"large")
        writer.send(b"small", key=b"small")
    answer = visitor.get("records", topic=topic, partition=0, at="earliest")
    large, small = answer.json["records"]
    assert len(answer.body) < 20_000
    assert large["value"]["size_bytes"] == size
    assert _bytes(large["value"]) == b"x" * 4096
    assert _bytes(small["value"]) == b"small"
    whole = visitor.get("records", topic=topic, partition=0, at=0, limit=1, cut=1 << 20)
    assert len(whole.body) < 2 << 20
    found = visitor.get("search", topic=topic, partition=0, key="large").json
    assert [each["offset"] for each in found["records"]] == [0]


def test_hostile_records_are_bytes_in_json(visitor: Visitor, client: Client) -> None:
    client.create_topic("answered-hostile", 1)
    with client.writer("answered-hostile") as writer:
        headers = [(HOSTILE, HOSTILE.encode()), ("empty", None)] * 200
        writer.send(HOSTILE.encode(), key=b"\xff\xfe", headers=headers)
    answer = visitor.get("records", topic="answered-hostile", partition=0)
    (record,) = answer.json["records"]
    assert answer.headers["content-type"] == "application/json"
    assert _bytes(record["key"]) == b"\xff\xfe"
    assert _bytes(record["value"]) == HOSTILE.encode()
    assert record["headers"][0]["name"] == HOSTILE
    assert (len(record["headers"]), record["headers_count"]) == (100, 400)
    for path in ("topic", "configs", "compaction"):
        answer = visitor.get(path, topic=HOSTILE)
        assert 400 <= answer.status < 500, (path, answer)
        assert "\0" not in answer.error


def test_transactions_that_are_open_hold_readers_up(visitor: Visitor, client: Client) -> None:
    client.create_topic("answered-transactions", 1)
    with client.transaction("answered-id") as transaction:
        transaction.append(pa.table({"value": ["open"]}), "answered-transactions")
        rows = visitor.get("transactions").json["transactions"]
        (mine,) = [each for each in rows if each["transactional_id"] == "answered-id"]
        assert mine["state"] == "Ongoing"
        assert mine["open"]["partitions"] == ["answered-transactions-0"]
        where = {"topic": "answered-transactions", "partition": 0, "at": "earliest"}
        assert visitor.get("records", **where).json["records"] == []
        seen = visitor.get("records", **where, isolation="read_uncommitted").json["records"]
        assert len(seen) == 1
    assert len(visitor.get("records", **where).json["records"]) == 1


def test_groups_with_lag(visitor: Visitor, client: Client, users: str) -> None:
    client.commit_offsets("answered/<group>", {(users, 0): 10, (users, 1): 20})
    (row,) = visitor.get("groups", containing="answered/").json["groups"]
    assert (row["group"], row["lag"]) == ("answered/<group>", 301 - 30)
    found = visitor.get("group", group="answered/<group>").json
    assert found["lag"] == 301 - 30
    assert [each["offset"] for each in found["offsets"]] == [10, 20]
    assert visitor.get("group", group="nobody's").status == 404


def test_quotas_and_users(visitor: Visitor) -> None:
    found = visitor.get("access").json
    assert found["quotas"] == {"rows": [], "not_shown": 0, "error": None}
    assert found["users"]["error"] is None


def test_cleaning_of_a_compacted_topic(visitor: Visitor, client: Client, users: str) -> None:
    topic = visitor.get("topic", topic=users).json
    found = visitor.get("compaction", topic=users).json
    assert found["why_not"] is None
    assert [each["partition"] for each in found["rows"]] == [0, 1]
    sizes = {each["partition"]: each["size_bytes"] for each in topic["partitions"]}
    for each in found["rows"]:
        told = each["tail_bytes"] + each["head_bytes"] + each["active_bytes"]
        assert told == sizes[each["partition"]] > 0
    assert found["configs"]["min.cleanable.dirty.ratio"] == "1.0"
    # The records are of 1970, but for the tombstone: what it was appended to has a closed segment.
    (closed,) = [each for each in found["rows"] if each["head_bytes"]]
    assert closed["dirty_ratio"] == 1.0
    asked = {"topic": users, "partition": closed["partition"]}
    (done,) = visitor.post("simulation", asked).json["results"]
    assert done["partition"] == closed["partition"]
    assert done["cleaning"]["bytes_read"] == closed["head_bytes"]
    assert 0 < done["cleaning"]["superseded"] < 300
    client.create_topic("answered-plain", 1)
    plain = visitor.get("compaction", topic="answered-plain").json
    assert "not compacted" in plain["why_not"]
