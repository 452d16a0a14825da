"""What the broker reads in a consumer's metadata."""

from __future__ import annotations

import pytest

from coordination.groups.classic.scenario import subscription
from drumlin.coordination.groups.classic.subscription import add_topics
from drumlin.turns import to_end


def subscribed_topics(metadata: bytes) -> set[str]:
    topics: set[str] = set()
    to_end(add_topics(metadata, topics))
    return topics


def test_topics_are_read_whatever_follows_them() -> None:
    assert subscribed_topics(subscription("a,b")) == {"a", "b"}
    assert subscribed_topics(b"\0\3" + subscription("a")[2:] + b"later fields") == {"a"}
    assert subscribed_topics(subscription("")) == set()


def test_very_many_topics_are_read_in_steps() -> None:
    names = {f"topic-{number}" for number in range(1_000)}
    topics: set[str] = set()
    assert sum(1 for _ in add_topics(subscription(",".join(names)), topics)) > 10
    assert topics == names


def test_anything_else_is_refused() -> None:
    whole = subscription("topic")
    for data in (b"", b"bad", whole[:8], b"\xff\xff" + whole[2:], b"\0\0\xff\xff\xff\xff"):
        with pytest.raises(ValueError):
            subscribed_topics(data)
