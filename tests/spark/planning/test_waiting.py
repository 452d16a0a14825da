"""How long the driver waits for brokers that do not answer: planning must not take for ever."""

from __future__ import annotations

import threading

import pytest

import drumlin
from drumlin import lowlevel
from drumlin.client.errors import RequestRefused
from drumlin.client.read import log_samples
from drumlin.client.read.log_samples import LogPlace
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.options import SourceOptions
from drumlin.spark.planning.cluster import Cluster
from rig.brokers.scripted_broker import ScriptedBroker, Silence


def test_a_partition_without_a_leader_is_not_waited_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ScriptedBroker({"t": 1}) as broker:
        broker.leader_id = -1
        options = SourceOptions.parse(
            {
                "kafka.bootstrap.servers": broker.address,
                "subscribe": "t",
                "kafka.request.timeout.ms": "300",
            }
        )
        with pytest.raises(RequestRefused, match="partition 0: no leader"):
            Cluster(options).earliest([TopicPartition("t", 0)])
    assert "asking the cluster again" not in caplog.text


def test_a_plan_does_not_wait_long_for_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_samples, "_PATIENCE_S", 0.2)
    found = []
    with ScriptedBroker({"t": 1}) as broker:
        broker.script("fetch", lambda shape, request: Silence())
        with drumlin.connect(broker.address, request_timeout_ms=300_000) as client:
            places = [LogPlace("t", 0, offset) for offset in range(100)]
            planner = threading.Thread(
                target=lambda: found.append(lowlevel.sample_logs(client, places))
            )
            planner.start()
            planner.join(30)
        planner.join(30)
    assert found == [{}]
