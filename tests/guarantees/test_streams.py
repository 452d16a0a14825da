"""Kafka Streams: a count with a store, a changelog and a repartition topic, killed and right."""

from __future__ import annotations

from pathlib import Path

import pytest

from guarantees.streams.counting import Count, count_words, streams_classpath
from rig.drumlin_server import DrumlinServer
from rig.jars import Unavailable

pytestmark = [pytest.mark.clients, pytest.mark.kafka, pytest.mark.slow]


@pytest.mark.deep
def test_counts_are_right_after_kills(broker: DrumlinServer, tmp_path: Path) -> None:
    try:
        streams_classpath()
    except Unavailable as reason:
        pytest.skip(str(reason))
    counted = count_words(Count(3000, kills=2), broker, tmp_path)
    assert counted.complaints == []
    assert (counted.kills, counted.broker_kills) == (2, 1)
