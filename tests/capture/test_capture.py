"""A capture from its snapshot on, as a user runs it; and names that need quotes."""

from __future__ import annotations

import json
from typing import Any

import pytest

import drumlin.capture
from capture.captured import Captured
from drumlin.capture.database.checks import matches
from drumlin.capture.errors import DatabaseRefused
from drumlin.capture.running import following, supervised
from rig.waiting import wait_until

_KEY = 'a"b'
_COLUMNS = ("Select", "%s", "x'y", "{k}", "back\\slash", "Ü €", "a.b", "1", "tab\there", " ")


@pytest.mark.parametrize(
    "address",
    ["drumlin_address", pytest.param("kafka_address", marks=[pytest.mark.kafka, pytest.mark.deep])],
    indirect=True,
)
def test_a_snapshot_then_the_stream(captured: Captured) -> None:
    captured.run(
        "CREATE TABLE item (id int PRIMARY KEY, name text, price numeric)",
        "INSERT INTO item VALUES (1, 'one', 1.50), (2, 'two', NULL), (3, 'three', 'NaN')",
    )
    captured.start()
    captured.await_all()
    captured.check_equal("item")
    captured.run(
        "INSERT INTO item VALUES (4, 'four', 4)",
        "UPDATE item SET name = 'zwei' WHERE id = 2",
        "DELETE FROM item WHERE id = 1",
        "UPDATE item SET id = 30 WHERE id = 3",
    )
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 3 + 1 + 1 + 1 + 2
    assert captured.state("item")['{"id":2}'] == '{"id":2,"name":"zwei","price":null}'
    assert captured.stop() == 0
    captured.run("INSERT INTO item VALUES (5, 'five', 5)")
    captured.start()
    captured.await_all()
    captured.check_equal("item")
    assert len(captured.records("item")) == 9
    told = json.loads(captured.ask("status", "--json").stdout)
    assert told[0]["phase"] == "stream" and told[0]["is_running"]


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _columns_of(state: dict[str, str]) -> dict[int, dict[str, Any]]:
    return {json.loads(key)[_KEY]: json.loads(value) for key, value in state.items()}


def test_names_that_need_quotes(captured: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "LOOK_S", 0.1)
    monkeypatch.setattr(supervised, "_FENCED_S", 0.1)
    columns = ", ".join(f"{_quoted(each)} text" for each in _COLUMNS)
    key, last = _quoted(_KEY), _quoted(_COLUMNS[-1])
    captured.run(
        'CREATE SCHEMA "My.Shop"',
        'CREATE TYPE "My.Shop"."Si""ze" AS ENUM (\'it\'\'s\', \'"m"\')',
        f'CREATE TABLE "My.Shop"."Order-1" ({key} int, {columns}, "Size" "My.Shop"."Si""ze"[],'
        f" PRIMARY KEY ({key}, {last}))",
        f'INSERT INTO "My.Shop"."Order-1" ({key}, {last}, "%s", "Size")'
        " SELECT i, '%', '%(x)s', '{it''s,\"\\\"m\\\"\"}' FROM generate_series(1, 30) i",
        'CREATE TABLE "order" ("user" int PRIMARY KEY)',
        'INSERT INTO "order" VALUES (1)',
    )
    topic = "My.Shop.Order-1"
    captured.start_here(tables=["My.Shop.*", "public.order"])
    captured.await_all()
    captured.run(
        f'UPDATE "My.Shop"."Order-1" SET "back\\slash" = \'new\' WHERE {key} = 1',
        f'UPDATE "My.Shop"."Order-1" SET {last} = \'other\' WHERE {key} = 2',
        f'DELETE FROM "My.Shop"."Order-1" WHERE {key} = 3',
    )
    captured.await_all()
    state = captured.state(topic)
    rows = _columns_of(state)
    assert sorted(rows) == [1, 2, *range(4, 31)]
    assert list(rows[1]) == [_KEY, *_COLUMNS, "Size"]
    assert rows[1]["%s"] == "%(x)s" and rows[1]["back\\slash"] == "new"
    assert rows[1]["Size"] == ["it's", '"m"']
    assert rows[2][_COLUMNS[-1]] == "other"
    assert captured.state("order") == {'{"user":1}': '{"user":1}'}
    with captured.client.writer(captured.topic(topic)) as writer:
        writer.send(None, key=next(iter(state)))
    drumlin.capture.reread(captured.broker, tables=["My.Shop.Order-1"], name=captured.name)
    wait_until(lambda: "29 rows read" in captured.said(), "the table")
    captured.await_all()
    assert captured.state(topic) == state


def test_databases_and_roles_that_need_quotes(captured: Captured) -> None:
    number = captured.name
    captured.run(
        f'CREATE DATABASE "My shop {number}"', f'CREATE ROLE "The ""{number}" SUPERUSER LOGIN'
    )
    captured.url = captured.server.url(f"My%20shop%20{number}", f"The%20%22{number}")
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    captured.start_here()
    captured.await_all()
    captured.run("INSERT INTO item VALUES (2)")
    captured.await_all()
    captured.check_equal("item")
    assert captured.stop() == 0
    assert len(drumlin.capture.remove(captured.url, captured.broker, name=number)) == 3
    captured.url = captured.server.url(f"None%20of%20{number}")
    with pytest.raises(DatabaseRefused, match=f'database "None of {number}" does not exist'):
        drumlin.capture.setup(captured.url)


def test_only_stars_and_question_marks_are_special() -> None:
    assert matches("public.a[1]", ["public.a[1]"]) and not matches("public.a1", ["public.a[1]"])
    assert matches("public.item", ["other.*", "p*.ite?"]) and not matches("public.Item", ["*.item"])
