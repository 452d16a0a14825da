"""Three clients for administrators, every method of each: what they say of Drumlin and of Kafka."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import pytest

from ecosystem.admins import aiokafka_admin, confluent, kafka_python
from ecosystem.admins.steps import differences
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.apache_kafka import ApacheKafka

_TRIED = "every method of its admin client, compared with Apache Kafka"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # methods that had better not be used
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run, id=name, marks=pytest.mark.program(name, version(name), _TRIED))
        for name, run in (
            ("confluent-kafka", confluent.run),
            ("aiokafka", aiokafka_admin.run),
            ("kafka-python", kafka_python.run),
        )
    ],
)
def test_every_method(
    run: Callable[[str, str, str], dict[str, str]], drumlin: DrumlinServer, kafka: ApacheKafka
) -> None:
    topic = f"{run.__module__.rpartition('.')[2]}-topic"
    ours = run(drumlin.address, topic, f"{topic}-group")
    theirs = run(f"127.0.0.1:{kafka.port}", topic, f"{topic}-group")
    print(ours)
    assert not {step: outcome for step, outcome in ours.items() if outcome.startswith("not")}
    assert not differences(ours, theirs)
