"""Log dirs in which no new partition is placed (KIP-1066)."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.in_process import running
from drumlin.broker.start import chores
from drumlin.broker.topics import topics
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def server(tmp_path: Path) -> Any:
    server = DrumlinServer(tmp_path, {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"})
    server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def ask(server: DrumlinServer) -> Any:
    with server.connect() as client:

        def asked(api: str, version: int, **fields: Any) -> dict[str, Any]:
            told: dict[str, Any] = render(client.ask(api, version, **fields))
            return told

        yield asked


def cordon(ask: Ask, value: str) -> dict[str, Any]:
    change = {"name": "cordoned.log.dirs", "config_operation": 0, "value": value}
    resource = {"resource_type": 4, "resource_name": "1", "configs": [change]}
    (answer,) = ask("incremental_alter_configs", 1, resources=[resource])["responses"]
    return dict(answer)


def create(ask: Ask, name: str, count: int = 3) -> str:
    topic = {"name": name, "num_partitions": count, "replication_factor": 1}
    (answer,) = ask("create_topics", 7, topics=[topic], timeout=9000)["topics"]
    return str(answer["error_code"])


def partitions_in(directory: Path, topic: str) -> list[str]:
    return sorted(each.name for each in directory.glob(f"{topic}-*"))


def test_new_partitions_go_elsewhere(ask: Ask, tmp_path: Path) -> None:
    assert create(ask, "before", 2) == "none"
    assert cordon(ask, str(tmp_path / "b"))["error_code"] == "none"
    dirs = ask("describe_log_dirs", 5, topics=None)["results"]
    assert {each["log_dir"]: each["is_cordoned"] for each in dirs} == {
        str(tmp_path / "a"): False,
        str(tmp_path / "b"): True,
    }
    assert create(ask, "after") == "none"
    assert partitions_in(tmp_path / "a", "after") == ["after-0", "after-1", "after-2"]
    assert partitions_in(tmp_path / "b", "before")  # what was there stays
    assert cordon(ask, "")["error_code"] == "none"
    assert create(ask, "later", 2) == "none"
    assert partitions_in(tmp_path / "b", "later") == ["later-0", "later-1"]


def test_nothing_is_created_where_all_are_cordoned(ask: Ask, tmp_path: Path) -> None:
    assert create(ask, "there") == "none"
    for value in ("*", f"{tmp_path / 'a'},{tmp_path / 'b'}"):
        assert cordon(ask, value)["error_code"] == "none"
        assert create(ask, "new") == "invalid_replication_factor"
        wanted = {"name": "there", "count": 5, "assignments": None}
        (grown,) = ask("create_partitions", 3, topics=[wanted], timeout=9000)["results"]
        assert grown["error_code"] == "invalid_replication_factor"
        assert cordon(ask, "")["error_code"] == "none"
    assert create(ask, "new") == "none"


def test_no_other_dir_can_be_named(ask: Ask, tmp_path: Path) -> None:
    assert cordon(ask, str(tmp_path / "c"))["error_code"] == "invalid_request"


def test_a_dir_that_fails_leaves_no_place_but_a_cordoned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chores, "_PROBE_MS", 3_600_000)

    async def main() -> None:
        dirs = tmp_path / "a", tmp_path / "b"
        async with running(*dirs, cordoned_log_dirs=str(dirs[0])) as broker:
            plan = topics.plan_topic(broker, topics.RequestedTopic("t", 2, 1))
            broker.logs.directories[1].fail(OSError(errno.EIO, "Input/output error"), "test")
            with pytest.raises(KafkaError) as refused:
                topics.plan_topic(broker, topics.RequestedTopic("u", 2, 1))
            assert refused.value.code is ErrorCode.invalid_replication_factor
            assert plan.name == "t"

    asyncio.run(main())
