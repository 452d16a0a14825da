"""What the broker reads in a consumer's metadata."""

from __future__ import annotations

import pytest

from coordination.scenario import subscription
from drumlin.coordination.groups.classic.subscription import subscribed_topics


def test_topics_are_read_whatever_follows_them() -> None:
    assert subscribed_topics(subscription("a,b")) == {"a", "b"}
    assert subscribed_topics(b"\0\3" + subscription("a")[2:] + b"later fields") == {"a"}
    assert subscribed_topics(subscription("")) == set()


def test_anything_else_is_refused() -> None:
    whole = subscription("topic")
    for data in (b"", b"bad", whole[:8], b"\xff\xff" + whole[2:], b"\0\0\xff\xff\xff\xff"):
        with pytest.raises(ValueError):
            subscribed_topics(data)
