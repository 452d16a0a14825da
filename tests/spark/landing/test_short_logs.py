"""A target that reaches further than the log: nothing is landed, and it is told why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import drumlin
from drumlin.spark import land
from drumlin.spark.landing.targets.target import RecordsLost
from spark.topics import Topic

SESSION: Any = None  # it is not come to


def test_a_log_that_has_lost_its_end(address: str, tmp_path: Path) -> None:
    topic = Topic(address, 1).create()
    topic.write([(0, b"key", b"value", 1_700_000_000_000, None)])
    with drumlin.connect(address) as client:
        described = client.describe_topics([topic.name])[topic.name]
    (tmp_path / "load=00000000").mkdir()
    reached = {"offsets": {"0": 5}, "topic": topic.name, "topic_id": described.topic_id}
    (tmp_path / "load=00000000/_offsets.json").write_text(json.dumps(reached))
    given = {"bootstrap": address, "mode": "append", "failOnDataLoss": "false"}
    with pytest.raises(RecordsLost) as refused:
        land(SESSION, topic.name, f"parquet:{tmp_path}", **given)
    assert str(refused.value) == (
        f"parquet:{tmp_path} reaches up to offset 5 of {topic.name}-0, whose log ends at 1: it has "
        "lost its end, or has a leader that lags behind. Nothing was landed"
    )
