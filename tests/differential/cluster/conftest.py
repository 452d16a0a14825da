"""Three Drumlins for all tests of this folder, and three Apache Kafkas, or what they said once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.cluster.cluster_peer import Cluster, Clusters
from differential.own_answers import OwnAnswers
from differential.scripts import Mode
from differential.transcripts import Transcripts
from rig.brokers.drumlin_cluster import DrumlinCluster
from rig.depth import IS_DEEP
from rig.jvm.jars import Unavailable
from rig.servers.kafka_cluster import KafkaCluster

#: The same for both: small, and nothing that only takes time.
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": "30000",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.state.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
}


def _kafka(directory: Path) -> KafkaCluster:
    return KafkaCluster(directory, settings=SETTINGS)


@pytest.fixture(scope="package")
def clusters(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Clusters]:
    mode: Mode = "live" if IS_DEEP else "replay"
    if request.config.getoption("--record-kafka"):
        mode = "record"
    kafka = _kafka(tmp_path_factory.mktemp("kafka-cluster"))
    subject: Cluster
    if os.environ.get("DIFFERENTIAL_SUBJECT") == "kafka":
        subject, mode = _kafka(tmp_path_factory.mktemp("second-kafka-cluster")), "live"
    else:
        subject = DrumlinCluster(tmp_path_factory.mktemp("drumlin-cluster"), settings=SETTINGS)
    transcripts = Transcripts()
    own_answers = OwnAnswers(is_recording=request.config.getoption("--record-own"))
    try:
        subject.start()
        both = Clusters(kafka, subject, transcripts, mode, own_answers)
        if mode != "replay":
            assert both.kafka
        yield both
        transcripts.save()
        own_answers.save()
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        kafka.close()
        subject.close()
    if isinstance(subject, DrumlinCluster):
        subject.check_output()
