"""How far a store is: told by the store itself, without touching it, and by Kafka's own tools."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

import drumlin
from drumlin.cli import app
from drumlin.cli.records import materialize
from drumlin.client.client import Client
from drumlin.serving import status, targets
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.postgres import running_postgres
from rig.servers.redis_server import PROGRAM, WHY_NOT, RedisServer


def test_the_command(
    client: Client,
    topic: str,
    serving_broker: DrumlinServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(materialize, "_RATE_S", 0.01)
    to = f"sqlite:///{tmp_path}/app%20of%3F.db"
    command = ["materialize", topic, "--to", to, "--group", topic, "--status", "--json"]
    command += ["--bootstrap", serving_broker.address]
    assert app.main(command) != 0
    assert "app of?.db: unable to open" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
    client.append([{"key": f"k{n}", "value": "v"} for n in range(10)], topic)
    drumlin.materialize(client, topic, to, group=topic, until_end=True)
    client.append([{"key": "k1", "value": "w"}], topic, partition=lambda data, _: [2] * len(data))
    ends = client.offsets(topic)
    assert app.main(command) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(each["partition"], each["end"], each["lag"]) for each in rows] == [
        (0, ends[0], 0),
        (1, ends[1], 0),
        (2, ends[2], 1),
    ]
    assert {each["offsets_per_s"] for each in rows} == {0}
    (database,) = tmp_path.glob("*.db")
    assert sqlite3.connect(database).execute("SELECT sum(term) FROM drumlin_positions").fetchall()
    committed = client.committed_offsets(topic)
    assert {place: each.offset for place, each in committed.items()} == {
        (topic, each["partition"]): each["position"] for each in rows
    }
    client.delete_topic(topic)
    client.create_topic(topic, 1)
    assert app.main(command) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["position"], row["lag"]) == (None, 0)
    assert app.main([*command[:-4], "--json", *command[-2:]]) != 0
    assert "--json is for --status" in capsys.readouterr().err


def test_it_says_whose_another_table_is(client: Client, topic: str, tmp_path: Path) -> None:
    client.append([{"key": "k", "value": "v"}], topic)
    for to in (f"sqlite:///{tmp_path}/app.db?table=kept", f"parquet:{tmp_path}/lake?table=kept"):
        drumlin.materialize(client, topic, to, group="its", decode="utf8", until_end=True)
        _look(client, topic, to, "its")
        with pytest.raises(drumlin.TargetRefused, match=r"by group 'its' as utf8, not .* 'other'"):
            _look(client, topic, to, "other")
        client.create_topic(f"{topic}-2", 1, if_not_exists=True)
        with pytest.raises(drumlin.TargetRefused, match=f"has topic '{topic}' .* not .*-2'"):
            _look(client, f"{topic}-2", to, "its")


def _look(client: Client, topic: str, to: str, group: str) -> list[status.PartitionStatus]:
    store = targets.open_store(to, group, None, only_looks=True)
    try:
        return status.look(client, topic, store)
    finally:
        store.close()


def test_of_other_stores(client: Client, topic: str, tmp_path: Path) -> None:
    if PROGRAM is None:
        pytest.skip(WHY_NOT)
    client.append([{"key": f"k{n}", "value": "v"} for n in range(10)], topic)
    redis = RedisServer(tmp_path)
    with running_postgres() as postgres:
        redis.start()
        try:
            for to in (postgres.url(), redis.url):
                store = targets.open_store(to, "g", None, only_looks=True)
                before = status.look(client, topic, store)
                assert {each.position for each in before} == {None}
                assert sum(each.lag for each in before) == 10
                drumlin.materialize(client, topic, to, group="g", until_end=True)
                after = status.look(client, [topic], store)
                assert {each.position == each.end for each in after} == {True}
                assert sum(each.end for each in after) == 10
                store.close()
                with pytest.raises(drumlin.TargetRefused, match=r"by group 'g', not .* 'other'"):
                    _look(client, topic, to, "other")
        finally:
            redis.close()
