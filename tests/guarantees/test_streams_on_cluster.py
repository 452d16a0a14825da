"""Kafka Streams on three brokers, with exactly_once_v2 and standby replicas: they are restarted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from guarantees.streams.counting import streams_classpath
from guarantees.streams.on_cluster import SETTINGS, Fault, count_on_cluster
from rig.brokers.drumlin_cluster import DrumlinCluster, running_cluster

pytestmark = [
    pytest.mark.clients,
    pytest.mark.kafka,
    pytest.mark.zookeeper,
    pytest.mark.deep,
]

_SHORT: tuple[Fault, ...] = (("restart", 1), ("kill", 2))
_LONG: tuple[Fault, ...] = tuple(
    (kind, node_id) for kind in ("kill", "restart") for node_id in (3, 1, 2)
)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DrumlinCluster]:
    with running_cluster(tmp_path / "cluster", settings=SETTINGS) as cluster:
        streams_classpath()
        yield cluster


@pytest.mark.parametrize(
    "faults",
    [pytest.param(_SHORT, id="short"), pytest.param(_LONG, id="long")],
)
def test_counts_are_right_after_restarts(
    cluster: DrumlinCluster, tmp_path: Path, faults: Sequence[Fault]
) -> None:
    outcome = count_on_cluster(cluster, tmp_path, faults)
    assert outcome.complaints == []
    assert outcome.words > 100 * len(faults)
    assert outcome.ended == 0, "an instance has ended with an error"
