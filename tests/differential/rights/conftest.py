"""One secured Drumlin for all tests of this folder, and one Apache Kafka, or what it said once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.own_answers import OwnAnswers
from differential.rights.asking import FoldedTranscripts, Places
from differential.rights.places import KafkaWithUsers, Place, close_all, drumlin_with_users
from differential.scripts import Mode
from rig.brokers.secured_drumlin import SecuredDrumlin
from rig.depth import IS_DEEP
from rig.jvm.jars import Unavailable

#: The same for both: small, and nothing that only takes time.
SETTINGS = {
    "auto.create.topics.enable": "true",
    "delegation.token.secret.key": "of the tests",
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.assignment.interval.ms": "0",
    "log.retention.ms": "-1",
    "node.id": "1",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


def _kafka(directory: Path) -> Place:
    return Place(KafkaWithUsers(directory, SETTINGS))


@pytest.fixture(scope="package")
def places(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Places]:
    mode: Mode = "live" if IS_DEEP else "replay"
    if request.config.getoption("--record-kafka"):
        mode = "record"
    kafka = _kafka(tmp_path_factory.mktemp("kafka-with-users"))
    if os.environ.get("DIFFERENTIAL_SUBJECT") == "kafka":
        subject, mode = _kafka(tmp_path_factory.mktemp("second-kafka-with-users")), "live"
    else:
        subject = Place(drumlin_with_users(tmp_path_factory.mktemp("with-users"), SETTINGS))
    transcripts = FoldedTranscripts()
    own_answers = OwnAnswers(is_recording=request.config.getoption("--record-own"))
    try:
        subject.start()
        both = Places(kafka, subject, transcripts, mode, own_answers)
        if mode != "replay":
            assert both.kafka
        yield both
        transcripts.save()
        own_answers.save()
    except Unavailable as reason:
        pytest.skip(str(reason))
    finally:
        close_all(kafka, subject)
    if isinstance(subject.server, SecuredDrumlin):
        subject.server.check_output()
