"""A key that does not exist is refused with the one that was meant, or with what became of it."""

from __future__ import annotations

import pytest

from drumlin.config.broker import BrokerConfig
from drumlin.config.config_error import ConfigError
from drumlin.config.hints import (
    REMOVED_BROKER_KEYS,
    REMOVED_TOPIC_KEYS,
    RENAMED_BROKER_KEYS,
    RENAMED_TOPIC_KEYS,
    topic_hint,
)
from drumlin.config.keys import broker_keys, topic_keys
from drumlin.config.sources import nearest_variable
from drumlin.config.synonyms import BROKER_SYNONYMS
from drumlin.config.topic import validate_overrides
from drumlin.wire.error_codes import KafkaError


def broker_says(key: str) -> str:
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load({key: "1"})
    return str(caught.value)


def topic_says(key: str) -> str:
    with pytest.raises(KafkaError) as caught:
        validate_overrides({key: "1"}, BrokerConfig.load({}).topic_defaults())
    return caught.value.message


@pytest.mark.parametrize("key", sorted(set(BROKER_SYNONYMS) - set(broker_keys())))
def test_a_topics_key_given_to_a_broker(key: str) -> None:
    meant = BROKER_SYNONYMS[key][0][0]
    assert broker_says(key) == f'{key} = "1": no such configuration key; did you mean {meant}?'


@pytest.mark.parametrize(
    ("key", "meant"),
    [("delete.retention.ms", "log.cleaner.delete.retention.ms"), ("segment.ms", "log.roll.ms")],
)
def test_spelling_alone_would_mislead(key: str, meant: str) -> None:
    """The most similar names, log.retention.ms and log.segment.bytes, delete other data."""
    assert broker_says(key).endswith(f"did you mean {meant}?")


@pytest.mark.parametrize("key", RENAMED_BROKER_KEYS)
def test_a_name_that_an_older_kafka_gave_a_brokers_key(key: str) -> None:
    meant = RENAMED_BROKER_KEYS[key]
    assert set(meant) <= set(broker_keys())
    assert broker_says(key).endswith(f"; did you mean {' and '.join(meant)}?")


@pytest.mark.parametrize("key", REMOVED_BROKER_KEYS)
def test_a_brokers_key_that_is_gone(key: str) -> None:
    assert broker_says(key).endswith(f"no such configuration key; {REMOVED_BROKER_KEYS[key]}")


def test_the_old_names_of_zookeepers_keys_lead_to_todays() -> None:
    said = [hint for key, hint in REMOVED_BROKER_KEYS.items() if key.startswith("zk.")]
    assert len(said) == 4
    assert all(hint.split()[2] in broker_keys() for hint in said)


@pytest.mark.parametrize("key", sorted({b for keys in BROKER_SYNONYMS.values() for b, _ in keys}))
def test_a_brokers_key_given_to_a_topic(key: str) -> None:
    if key not in topic_keys():
        meant = [name for name, keys in BROKER_SYNONYMS.items() if key in dict(keys)]
        assert topic_says(key) == f"topics have no key {key}; did you mean {' and '.join(meant)}?"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        *RENAMED_TOPIC_KEYS.items(),
        ("compression.codec", ("compression.type",)),
        ("log.file.size", ("segment.bytes",)),
        ("log.flush.interval", ("flush.messages",)),
        ("log.index.max.size", ("segment.index.bytes",)),
    ],
)
def test_an_older_name_given_to_a_topic(key: str, meant: tuple[str, ...]) -> None:
    assert set(meant) <= set(topic_keys())
    assert topic_says(key) == f"topics have no key {key}; did you mean {' and '.join(meant)}?"


@pytest.mark.parametrize("key", REMOVED_TOPIC_KEYS)
def test_a_topics_key_that_is_gone(key: str) -> None:
    assert topic_says(key) == f"topics have no key {key}; {REMOVED_TOPIC_KEYS[key]}"


def test_none_of_the_old_names_is_a_key_of_today() -> None:
    assert not {*RENAMED_BROKER_KEYS, *REMOVED_BROKER_KEYS} & {*broker_keys(), *BROKER_SYNONYMS}
    assert not {*RENAMED_TOPIC_KEYS, *REMOVED_TOPIC_KEYS} & set(topic_keys())


def test_names_that_lead_nowhere() -> None:
    assert topic_hint("completely.made.up") is None
    assert topic_hint("retention.ms" * 9) is None
    assert broker_says("completely.made.up.thing").endswith("no such configuration key")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("DRUMLIN_DELETE_RETENTION_MS", "DRUMLIN_LOG_CLEANER_DELETE_RETENTION_MS"),
        ("DRUMLIN_SEGMENT_MS", "DRUMLIN_LOG_ROLL_MS"),
        ("DRUMLIN_LOG_FILE_SIZE", "DRUMLIN_LOG_SEGMENT_BYTES"),
        ("DRUMLIN_NUM_PARTITONS", "DRUMLIN_NUM_PARTITIONS"),
    ],
)
def test_environment_variables_of_those_names(variable: str, meant: str) -> None:
    assert nearest_variable(variable) == meant
