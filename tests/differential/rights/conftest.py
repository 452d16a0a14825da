"""Secured Drumlins for all tests of this folder, and Apache Kafkas, or what they said once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from differential.own_answers import OwnAnswers
from differential.rights.asking import FoldedTranscripts, Places
from differential.rights.places import KafkaWithUsers, Place, close_all, drumlin_with_users
from differential.rights.users import creations
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


#: The same, where all may do what no ACL is about.
OPEN = SETTINGS | {"allow.everyone.if.no.acl.found": "true"}


@pytest.fixture(scope="package")
def places(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Places]:
    """Where each user has some rights."""
    yield from _both(tmp_path_factory, request.config, SETTINGS, creations())


@pytest.fixture(scope="package")
def open_places(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Places]:
    """Where there are no ACLs but those of a test."""
    yield from _both(tmp_path_factory, request.config, OPEN, [])


def _both(
    factory: pytest.TempPathFactory,
    config: pytest.Config,
    settings: Mapping[str, str],
    acls: Sequence[dict[str, Any]],
) -> Iterator[Places]:
    def kafka_place() -> Place:
        return Place(KafkaWithUsers(factory.mktemp("kafka-with-users"), settings), acls)

    mode: Mode = "live" if IS_DEEP else "replay"
    if config.getoption("--record-kafka"):
        mode = "record"
    kafka = kafka_place()
    if os.environ.get("DIFFERENTIAL_SUBJECT") == "kafka":
        subject, mode = kafka_place(), "live"
    else:
        subject = Place(drumlin_with_users(factory.mktemp("with-users"), settings), acls)
    transcripts = FoldedTranscripts()
    own_answers = OwnAnswers(is_recording=config.getoption("--record-own"))
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
