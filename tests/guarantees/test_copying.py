"""The exactly-once copy, smaller than `script/torture --copy` makes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.copying.copying import Copy, copy
from rig.brokers.drumlin_server import DrumlinServer
from rig.depth import so_many
from rig.servers.apache_kafka import kafka_classpath
from rig.servers.running import skipped_where_unavailable

pytestmark = [pytest.mark.clients, pytest.mark.slow]

#: The full number is that of `script/torture --copy`.
_RECORDS = so_many(6000, 20_000)
_TIMEOUT_S = 120 + _RECORDS / 200


@pytest.mark.deep
def test_a_short_copy(broker: DrumlinServer, tmp_path: Path) -> None:
    plan = Copy(1500, 50, kills=3, timeout_s=_TIMEOUT_S)
    assert copy(plan, broker, tmp_path).complaints == []


@pytest.mark.deep
def test_copy_with_librdkafka(broker: DrumlinServer, tmp_path: Path) -> None:
    plan = Copy(_RECORDS, _RECORDS // 40, kills=5, timeout_s=_TIMEOUT_S)
    assert copy(plan, broker, tmp_path).complaints == []


@pytest.mark.deep
def test_copy_while_the_broker_is_killed_too(broker: DrumlinServer, tmp_path: Path) -> None:
    """The copiers are a group of the new protocol here."""
    plan = Copy(
        _RECORDS,
        _RECORDS // 40,
        kills=4,
        broker_faults=True,
        protocol="consumer",
        timeout_s=_TIMEOUT_S,
    )
    assert copy(plan, broker, tmp_path).complaints == []


@pytest.mark.deep
@pytest.mark.kafka
def test_copy_with_the_java_client(broker: DrumlinServer, tmp_path: Path) -> None:
    """By Apache Kafka's own TransactionalMessageCopier, which aborts at random besides."""
    with skipped_where_unavailable():
        kafka_classpath()
    plan = Copy(_RECORDS, _RECORDS // 20, "java", kills=2, timeout_s=_TIMEOUT_S)
    assert copy(plan, broker, tmp_path).complaints == []
