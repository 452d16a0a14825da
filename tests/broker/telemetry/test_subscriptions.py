"""Subscriptions: which clients they are about, what all together want, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from uuid import UUID

import pytest

from drumlin.broker.telemetry import instances
from drumlin.broker.telemetry.instances import Instances, subscription_id_of
from drumlin.broker.telemetry.subscriptions import (
    Subscriptions,
    Wanted,
    check_subscription,
    client_of,
)
from drumlin.wire.error_codes import ErrorCode, KafkaError

ID = UUID(int=77)
CLIENT = client_of(ID, "orders-7", ("apache-kafka-java", "4.3.0"), ("10.0.0.9", 4711))


def wanted(*configs: Mapping[str, str]) -> Wanted:
    subscriptions = Subscriptions()
    for number, each in enumerate(configs):
        subscriptions.put(str(number), each)
    return asyncio.run(subscriptions.wanted_of(CLIENT))


def test_all_subscriptions_about_a_client_count() -> None:
    assert wanted() == Wanted((), 300_000)
    assert wanted(
        {"metrics": "b,a", "interval.ms": "5000"},
        {"metrics": "c,a", "interval.ms": "9000"},
        {"metrics": "d", "interval.ms": "100", "match": "client_id=others"},
    ) == Wanted(("a", "b", "c"), 5000)
    assert wanted({"metrics": "b"}, {"metrics": "*"}).metrics == ("*",)


@pytest.mark.parametrize(
    ("match", "is_about"),
    [
        ("client_id=orders-.*", True),
        ("client_id=orders", False),  # the whole of it
        ("client_software_name=apache-kafka-java,client_software_version=4\\..*", True),
        ("client_software_name=apache-kafka-java,client_id=x", False),
        ("client_source_address=10\\.0\\.0\\..*,client_source_port=4711", True),
        (f"client_instance_id={ID}", True),
        ("client_id=(a*)*b|orders-7", True),  # in time that does not explode
    ],
)
def test_patterns(match: str, is_about: bool) -> None:
    assert wanted({"metrics": "m", "match": match}).metrics == (("m",) if is_about else ())


def test_a_subscription_that_ends_or_cannot_be_read_asks_nobody() -> None:
    subscriptions = Subscriptions()
    subscriptions.put("s", {"metrics": "m"})
    version = subscriptions.version
    subscriptions.put("s", {})
    subscriptions.put("t", {"metrics": "m", "match": "("})
    assert subscriptions.version > version
    assert asyncio.run(subscriptions.wanted_of(CLIENT)) == Wanted()


@pytest.mark.parametrize(
    ("configs", "code", "said"),
    [
        ({"no.such": "1"}, ErrorCode.invalid_request, "have no key no.such"),
        ({"interval.ms": "99"}, ErrorCode.invalid_request, "must be from 100 to 3600000"),
        ({"interval.ms": "x"}, ErrorCode.invalid_config, 'interval.ms = "x"'),
        ({"match": "x=y"}, ErrorCode.invalid_config, "of client_instance_id, client_id"),
        ({"match": "client_id=["}, ErrorCode.invalid_config, "'[' is not a regular expression"),
    ],
)
def test_what_is_wrong_is_named(configs: Mapping[str, str], code: ErrorCode, said: str) -> None:
    with pytest.raises(KafkaError) as refused:
        check_subscription("s", configs)
    assert refused.value.code is code
    assert said in (refused.value.message or "")


def test_the_id_of_a_subscription_is_the_same_everywhere() -> None:
    one = subscription_id_of(ID, Wanted(("a", "b"), 5000))
    assert one == subscription_id_of(ID, Wanted(("a", "b"), 5000)) == 1426268642
    others = {
        subscription_id_of(*each)
        for each in (
            (ID, Wanted(("a", "b"), 5001)),
            (ID, Wanted(("ab",), 5000)),
            (UUID(int=78), Wanted(("a", "b"), 5000)),
        )
    }
    assert len({one, *others}) == 4
    assert all(-(2**31) <= each < 2**31 for each in others)


def test_instances_are_limited_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instances, "INSTANCES_MAX", 500)
    known, now_s = Instances(), 0.0
    for number in range(600):
        known.put(UUID(int=number), CLIENT, Wanted(), 0, now_s)
    assert len(known) == 500
    assert known.find(UUID(int=99), 0, now_s) is None
    last = UUID(int=599)
    assert known.find(last, 0, now_s) is not None
    assert known.find(last, 1, now_s) is None, "something else may be wanted by now"
    now_s = 901
    for number in range(500):
        known.put(UUID(int=10**9 + number // 100), CLIENT, Wanted(), 0, now_s)
    assert len(known) == 5


def test_when_a_client_may_ask_and_push() -> None:
    """The same as Kafka has said (`tests/differential/admin/test_telemetry.py`)."""
    one = Instances().put(ID, CLIENT, Wanted((), 1000), 0, 0.0)
    right, other = one.subscription_id, one.subscription_id + 1

    def told(now_s: float, subscription: int | None = None, *, is_last: bool = False) -> str:
        try:
            if subscription is None:
                one.ask(now_s)
            else:
                one.push(now_s, subscription, is_last=is_last)
        except KafkaError as error:
            if subscription is not None:
                one.last_error = error.code
            return error.code.name
        one.last_error = ErrorCode.none
        return "none"

    assert told(0) == "none"
    assert told(0.1, right) == "none", "the first push follows at once"
    assert told(0.2, right) == "throttling_quota_exceeded"
    assert told(0.3) == "throttling_quota_exceeded"
    assert told(1.2, other) == "unknown_subscription_id"
    assert told(1.3) == "none", "it has to ask what is wanted now"
    assert told(1.4, right) == "throttling_quota_exceeded"
    assert told(2.3, right) == "none"
    assert told(2.4, right, is_last=True) == "none", "the last one need not wait"
    assert told(2.5, right, is_last=True) == "invalid_request"
    assert told(9.0) == "none"
