"""DeleteTopics: codes are those of Apache Kafka 4.3."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.conftest import Ask
from broker.in_process import running
from rig.brokers.drumlin_server import DrumlinServer
from rig.data.messages import render
from rig.data.raw import RawClient

Create = Callable[..., str]
UNKNOWN = "there is no topic of this name"


def topic_id(ask: Ask, name: str) -> uuid.UUID:
    (topic,) = ask("metadata", 13, topics=[{"name": name, "topic_id": None}])["topics"]
    found: uuid.UUID = topic["topic_id"]
    return found


def delete(
    ask: Ask, *targets: tuple[str | None, uuid.UUID | None], timeout: int = 10_000
) -> set[Any]:
    topics = [{"name": name, "topic_id": topic_id} for name, topic_id in targets]
    responses = ask("delete_topics", 6, topics=topics, timeout=timeout)["responses"]
    return {
        (each["name"], each["topic_id"], each["error_code"], each["error_message"])
        for each in responses
    }


def test_by_name_and_by_id(ask: Ask, create: Create) -> None:
    first, second = create("first"), create("second")
    ids = topic_id(ask, first), topic_id(ask, second)
    assert delete(ask, (first, None), (None, ids[1])) == {
        (first, ids[0], "none", None),
        (second, ids[1], "none", None),
    }
    answer = ask(
        "metadata",
        13,
        topics=[{"name": first, "topic_id": None}, {"name": second, "topic_id": None}],
    )
    assert {each["error_code"] for each in answer["topics"]} == {"unknown_topic_or_partition"}


def test_what_does_not_exist(ask: Ask) -> None:
    unknown = uuid.uuid4()
    assert delete(ask, ("nowhere", None), ("", None), ("a b", None), (None, unknown)) == {
        ("nowhere", None, "unknown_topic_or_partition", UNKNOWN),
        ("", None, "unknown_topic_or_partition", UNKNOWN),
        ("a b", None, "unknown_topic_or_partition", UNKNOWN),
        (None, unknown, "unknown_topic_id", "no topic has this id"),
    }


def test_named_in_wrong_ways(ask: Ask, create: Create) -> None:
    name, other = create("t"), create("other")
    its_id, other_id = topic_id(ask, name), topic_id(ask, other)
    invalid = "invalid_request"
    assert delete(ask, (None, None)) == {(None, None, invalid, "a topic without name and id")}
    assert delete(ask, (name, its_id)) == {
        (name, its_id, invalid, "a topic with both name and id; give one of them")
    }
    assert delete(ask, (name, None), (name, None)) == {
        (name, None, invalid, "named more than once in one request")
    }
    assert delete(ask, (None, its_id), (None, its_id)) == {
        (None, its_id, invalid, "named more than once in one request")
    }
    assert delete(ask, (name, None), (None, its_id), (other, None)) == {
        (name, its_id, invalid, "the topic of this name is named by its id too"),
        (other, other_id, "none", None),
    }
    assert topic_id(ask, name) == its_id


def test_no_time_at_all(ask: Ask, create: Create) -> None:
    name = create("t")
    assert {each[2:] for each in delete(ask, (name, None), timeout=0)} == {
        ("request_timed_out", None)
    }
    assert topic_id(ask, name)


@pytest.mark.parametrize("version", range(1, 6))
def test_earlier_versions_know_names_only(ask: Ask, create: Create, version: int) -> None:
    name = create("t")
    answer = ask("delete_topics", version, topic_names=[name, "nowhere"], timeout=10_000)
    codes = {each["name"]: each["error_code"] for each in answer["responses"]}
    assert codes == {name: "none", "nowhere": "unknown_topic_or_partition"}


def test_a_topic_comes_back_under_its_name_with_another_id(ask: Ask, create: Create) -> None:
    name = create("t", partitions=3)
    before = topic_id(ask, name)
    delete(ask, (name, None))
    topic = {"name": name, "num_partitions": 2, "replication_factor": 1}
    ask("create_topics", 7, topics=[topic], timeout=10_000)
    assert topic_id(ask, name) not in (None, before)


def test_deletion_can_be_switched_off(tmp_path: Any) -> None:
    from rig.data.messages import render

    server = DrumlinServer(tmp_path, {"delete.topic.enable": "false"})
    server.start()
    try:
        with server.connect() as client:
            answer = render(client.ask("delete_topics", 5, topic_names=["t"], timeout=1000))
            assert [each["error_code"] for each in answer["responses"]] == [
                "topic_deletion_disabled"
            ]
            answer = render(client.ask("delete_topics", 2, topic_names=["t"], timeout=1000))
            assert [each["error_code"] for each in answer["responses"]] == ["invalid_request"]
    finally:
        server.close()


def test_who_deletes_by_name_what_another_has_just_deleted(tmp_path: Path) -> None:
    """Both find the topics, and one of them deletes each."""
    names = [f"t-{each}" for each in range(50)]

    def delete_all(port: int) -> list[tuple[str, str, bool]]:
        with RawClient(port) as client:
            topics = [{"name": each, "topic_id": None} for each in names]
            answer = render(client.ask("delete_topics", 6, topics=topics, timeout=10_000))
        return [
            (each["name"], each["error_code"], each["topic_id"] is None)
            for each in answer["responses"]
        ]

    async def run() -> None:
        async with running(tmp_path) as broker:
            for name in names:
                await broker.metadata.create_topic(name, [[broker.node_id]], {})
            (port,) = (each.port for each in broker.metadata.image.brokers[1].endpoints)
            both = [asyncio.to_thread(delete_all, port) for _ in range(2)]
            answers = [answer for each in await asyncio.gather(*both) for answer in each]
        assert sorted(answers) == sorted(
            each
            for name in names
            for each in ((name, "none", False), (name, "unknown_topic_or_partition", True))
        )

    asyncio.run(run())
