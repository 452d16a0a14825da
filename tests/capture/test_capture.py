"""A capture from its snapshot on, by its command, as a user runs it."""

from __future__ import annotations

import json

import pytest

from capture.captured import Captured


@pytest.mark.parametrize(
    "address",
    ["drumlin_address", pytest.param("kafka_address", marks=pytest.mark.kafka)],
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
