"""A group's own configuration: what is taken, what is refused, and durations."""

from __future__ import annotations

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.durations import duration_ms
from drumlin.config.group import validate_group_overrides
from drumlin.wire.error_codes import ErrorCode, KafkaError


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"share.auto.offset.reset": "earliest"},
        {"share.auto.offset.reset": "by_duration:P1DT2H30M"},
        {"share.isolation.level": "read_committed"},
        {"share.heartbeat.interval.ms": "15000", "share.session.timeout.ms": "60000"},
        {"share.assignment.interval.ms": "0"},
        {"share.delivery.count.limit": "2"},
        {"share.partition.max.record.locks": "4000"},
    ],
)
def test_what_is_taken(overrides: dict[str, str]) -> None:
    validate_group_overrides(overrides, BrokerConfig.load({}))


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"share.no.such.key": "1"}, "share.no.such.key"),
        ({"share.auto.offset.reset": "nowhere"}, "earliest"),
        ({"share.auto.offset.reset": "by_duration:an hour"}, "by_duration"),
        ({"share.auto.offset.reset": "by_duration:-PT1H"}, "by_duration"),
        ({"share.isolation.level": "none"}, "share.isolation.level"),
        ({"share.assignment.interval.ms": "15001"}, "group.share.max.assignment.interval.ms"),
        ({"share.delivery.count.limit": "11"}, "group.share.max.delivery.count.limit"),
        ({"share.partition.max.record.locks": "4001"}, "group.share.max.partition"),
        ({"share.session.timeout.ms": "44999"}, "group.share.min.session.timeout.ms"),
    ],
)
def test_what_is_refused(overrides: dict[str, str], named: str) -> None:
    with pytest.raises(KafkaError, match=named) as raised:
        validate_group_overrides(overrides, BrokerConfig.load({}))
    assert raised.value.code is ErrorCode.invalid_config


def test_a_session_is_longer_than_the_time_between_heartbeats() -> None:
    config = BrokerConfig.load(
        {"group.share.min.session.timeout.ms": "1000", "group.share.session.timeout.ms": "5001"}
    )
    validate_group_overrides({"share.heartbeat.interval.ms": "5000"}, config)
    for overrides in (
        {"share.session.timeout.ms": "5000"},
        {"share.heartbeat.interval.ms": "5001"},
        {"share.heartbeat.interval.ms": "9000", "share.session.timeout.ms": "9000"},
    ):
        with pytest.raises(KafkaError, match="must be more than"):
            validate_group_overrides(overrides, config)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("PT1S", 1_000),
        ("PT0.5S", 500),
        ("P1D", 86_400_000),
        ("P1DT1H1M1S", 90_061_000),
        ("pt10m", 600_000),
        ("PT-6H", -21_600_000),
    ],
)
def test_durations(text: str, ms: int) -> None:
    assert duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "P", "PT", "1H", "P1H", "PT1D", "PT1H ", "P1Y"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="no duration"):
        duration_ms(text)
