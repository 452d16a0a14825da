"""Kafka Streams: a count with a store, a changelog and a repartition topic, killed and right."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.streams.counting import Count, count_words, streams_classpath
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.running import skipped_where_unavailable

pytestmark = [pytest.mark.clients, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("words", "kills"), [(300, 1), pytest.param(3000, 2, marks=pytest.mark.deep)]
)
def test_counts_are_right_after_kills(
    broker: DrumlinServer, tmp_path: Path, words: int, kills: int
) -> None:
    """Of the application; with two, of the broker as well."""
    with skipped_where_unavailable():
        streams_classpath()
    counted = count_words(Count(words, kills), broker, tmp_path)
    assert counted.complaints == []
    assert (counted.kills, counted.broker_kills) == (kills, kills // 2)
