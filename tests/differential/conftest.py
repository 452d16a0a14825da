"""One Drumlin for all differential tests, and one Apache Kafka, or what it has said once.

With `DIFFERENTIAL_SUBJECT=kafka` a second Apache Kafka stands in for Drumlin: every difference
is then a fault of the tests themselves.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from differential.own_answers import OwnAnswers
from differential.scripts import Brokers, Mode
from differential.transcripts import Transcripts
from rig.brokers.drumlin_server import DrumlinServer
from rig.depth import IS_DEEP
from rig.jvm.jars import Unavailable
from rig.servers.apache_kafka import ApacheKafka

#: The same for both brokers: small, and nothing that only takes time.
SETTINGS = {
    "group.consumer.assignment.interval.ms": "0",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "3",
    "num.partitions": "2",
    "node.id": "1",
    # The defaults of Drumlin's embedded store, told to both.
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
}


@pytest.fixture(scope="session")
def brokers(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Brokers]:
    kafka = ApacheKafka(tmp_path_factory.mktemp("kafka"), SETTINGS)
    subject: ApacheKafka | DrumlinServer
    mode: Mode = "live" if IS_DEEP else "replay"
    if request.config.getoption("--record-kafka"):
        mode = "record"
    if os.environ.get("DIFFERENTIAL_SUBJECT") == "kafka":
        subject, mode = ApacheKafka(tmp_path_factory.mktemp("second-kafka"), SETTINGS), "live"
    else:
        subject = DrumlinServer(tmp_path_factory.mktemp("drumlin"), SETTINGS)
    transcripts = Transcripts()
    own_answers = OwnAnswers(is_recording=request.config.getoption("--record-own"))
    try:
        subject.start()
        both = Brokers(kafka, subject, transcripts, mode, own_answers)
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
    if isinstance(subject, DrumlinServer):
        subject.check_output()
