"""A topic's configuration over the broker's defaults."""

from __future__ import annotations

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.topic import LogConfig, log_config, validate_overrides
from drumlin.wire.error_codes import ErrorCode, KafkaError


def test_without_anything_the_defaults_are_kafkas() -> None:
    assert log_config({}, BrokerConfig.load({}).topic_defaults()) == LogConfig()


def test_own_values_go_before_the_brokers() -> None:
    broker = BrokerConfig.load(
        {
            "log.retention.minutes": "2",
            "log.segment.bytes": "2000000",
            "message.max.bytes": "99",
            "log.cleanup.policy": "compact,delete",
            "log.cleaner.min.cleanable.ratio": "0.25",
        }
    )
    config = log_config({"segment.bytes": "3000000"}, broker.topic_defaults())
    assert config.retention_ms == 120_000
    assert config.segment_bytes == 3_000_000
    assert config.max_message_bytes == 99
    assert config.cleanup_policy == {"compact", "delete"}
    assert config.min_cleanable_dirty_ratio == 0.25


def test_small_segments_for_tests() -> None:
    overrides = {"segment.bytes": "3000000", "internal.segment.bytes": "600"}
    assert log_config(overrides, {}).segment_bytes == 600


def test_append_rules() -> None:
    config = log_config(
        {
            "compression.type": "zstd",
            "compression.zstd.level": "7",
            "cleanup.policy": "compact",
            "message.timestamp.type": "LogAppendTime",
            "max.message.bytes": "500",
        },
        {},
    )
    rules = config.append_rules()
    assert (rules.compression_type, rules.compression_level) == ("zstd", 7)
    assert (rules.timestamp_type, rules.max_message_bytes) == ("LogAppendTime", 500)
    assert rules.is_compacted
    assert LogConfig().append_rules().compression_level is None


@pytest.mark.parametrize(("codec", "default"), [("gzip", -1), ("lz4", 9), ("zstd", 3)])
def test_each_codec_has_a_level_of_its_own(codec: str, default: int) -> None:
    levels = {"compression.gzip.level": "1", "compression.lz4.level": "2"}
    levels |= {"compression.zstd.level": "-5"}
    given = log_config({"compression.type": codec, **levels}, {}).append_rules()
    assert str(given.compression_level) == levels[f"compression.{codec}.level"]
    rules = log_config({"compression.type": codec}, {}).append_rules()
    assert rules.compression_level == default


@pytest.mark.parametrize("codec", ["snappy", "uncompressed", "producer"])
def test_other_codecs_have_no_level(codec: str) -> None:
    rules = log_config({"compression.type": codec, "compression.lz4.level": "2"}, {}).append_rules()
    assert rules.compression_level is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"foo": "x"}, "topics have no key foo"),
        ({"segment.bytes": "x", "foo": "x"}, "topics have no key foo"),
        (
            {"log.cleanup.policy": "compact"},
            "topics have no key log.cleanup.policy; did you mean cleanup.policy?",
        ),
        ({"retention.sm": "5"}, "topics have no key retention.sm; did you mean retention.ms?"),
        ({"retention.ms" * 9: "5"}, f"topics have no key {'retention.ms' * 9}"),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "3"},
            "min.compaction.lag.ms (5) is above max.compaction.lag.ms (3)",
        ),
        (
            {"remote.storage.enable": "true"},
            "remote.storage.enable: this broker has no tiered storage",
        ),
    ],
)
def test_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(KafkaError) as caught:
        validate_overrides(overrides, BrokerConfig.load({}).topic_defaults())
    assert caught.value.code is ErrorCode.invalid_config
    assert caught.value.message == message
