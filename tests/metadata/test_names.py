"""Topic names: which are refused."""

from __future__ import annotations

import uuid

import pytest

from drumlin.metadata.image import ClusterImage, TopicState
from drumlin.metadata.names import check_no_collision, check_topic_name
from drumlin.wire.error_codes import ErrorCode, KafkaError

_LETTERS = "has characters other than ASCII letters, digits, '.', '_' and '-'"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "a topic needs a name"),
        (".", "'.' is no name for a topic"),
        ("..", "'..' is no name for a topic"),
        ("a" * 250, f"'{'a' * 250}' is longer than 249 characters"),
        ("a b", f"'a b' {_LETTERS}"),
        ("é", f"'é' {_LETTERS}"),
        ("x/y", f"'x/y' {_LETTERS}"),
        ("a\n", rf"'a\n' {_LETTERS}"),
        ("\u0661", f"'\u0661' {_LETTERS}"),
    ],
)
def test_refused_names(name: str, message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        check_topic_name(name)
    assert caught.value.code is ErrorCode.invalid_topic_exception
    assert caught.value.message == message


@pytest.mark.parametrize("name", ["a", "...", "a.b_c-D9", "a" * 249, "__consumer_offsets"])
def test_accepted_names(name: str) -> None:
    check_topic_name(name)


def test_names_that_metrics_cannot_tell_apart_collide() -> None:
    image = ClusterImage("cluster")
    topic = TopicState("md.x", uuid.uuid4(), ())
    image.put_topic(topic)
    assert image.colliding_names("md_x") == {"md.x"}
    with pytest.raises(KafkaError) as caught:
        check_no_collision("md_x", image.colliding_names("md_x"))
    assert caught.value.message == "md_x and the existing topic md.x would be the same in metrics"
    check_no_collision("md.x", image.colliding_names("md.x"))
    image.remove_topic(topic)
    assert image.colliding_names("md_x") == set()
