"""A small request must not be answered with gigabytes. Apache Kafka would: meant to differ."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from drumlin.broker.handlers import describe_configs
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import ClusterImage
from drumlin.wire.error_codes import ErrorCode
from rig.data.messages import build


def test_the_broker_named_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "_ENTRIES_MAX", 1000)
    broker = SimpleNamespace(
        config=BrokerConfig.load({}),
        metadata=SimpleNamespace(image=ClusterImage("cluster")),
        node_id=1,
    )
    context = SimpleNamespace(broker=broker)
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    request = build("describe_configs", 4, {"resources": [resource] * 5})
    answer = asyncio.run(
        describe_configs.handle(context, request)  # type: ignore[arg-type]
    )
    assert [each.error_code for each in answer.results] == [
        *[ErrorCode.none] * 3,
        *[ErrorCode.policy_violation] * 2,
    ]
