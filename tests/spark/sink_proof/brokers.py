"""The brokers under proof: Drumlin, and Apache Kafka of several versions."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from guarantees.brokers import Broker
from rig.brokers.drumlin_server import DrumlinServer
from rig.brokers.old_records import KEPT
from rig.data.raw import RawClient
from rig.servers.apache_kafka import ApacheKafka
from rig.servers.older_kafka import OlderKafka
from spark.sink_proof.plan import Plan

_SETTINGS = KEPT | {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "100",
}


def make_broker(plan: Plan, folder: Path) -> Broker:
    """A broker that is not started yet."""
    settings = _SETTINGS | {"transaction.max.timeout.ms": str(plan.transaction_timeout_ms)}
    if plan.broker == "drumlin":
        return DrumlinServer(folder, settings)
    name, _, version = plan.broker.partition("-")
    assert name == "kafka", plan.broker
    return OlderKafka(version, folder, settings) if version else ApacheKafka(folder, settings)


def open_transactions(broker: Broker, states: Sequence[str] = ("Ongoing",)) -> list[str]:
    """Transactional ids."""
    with RawClient(broker.port, timeout_s=10) as client:
        filters = {"state_filters": [*states], "producer_id_filters": []}
        answer = client.ask("list_transactions", 0, **filters)
        return sorted(str(each.transactional_id) for each in answer.transaction_states)


def has_lost_a_marker(broker: Broker) -> bool:
    """Whether no coordinator knows of a transaction that could still end, and it is Kafka's.

    Apache Kafka 4.3 that is killed between a decision and its markers may continue without
    having written one: with any client, and readers wait for ever.
    """
    is_kafka = not isinstance(broker, DrumlinServer)
    return is_kafka and not open_transactions(broker, ("Ongoing", "PrepareCommit", "PrepareAbort"))


def pause(broker: Broker, seconds: float) -> bool:
    """No request is answered for a while."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        time.sleep(seconds)
    finally:
        os.kill(broker.pid, signal.SIGCONT)
    return True
