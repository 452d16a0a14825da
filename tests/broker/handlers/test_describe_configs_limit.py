"""A small request must not be answered with gigabytes. Apache Kafka would: meant to differ."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from drumlin.broker.context import RequestContext
from drumlin.broker.handlers import describe_configs
from drumlin.broker.rights.session import ANONYMOUS, Session
from drumlin.config.broker import BrokerConfig
from drumlin.metadata.image import ClusterImage
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import RequestHeader
from rig.data.messages import build


def test_the_broker_named_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(describe_configs, "_ENTRIES_MAX", 1000)
    broker: Any = SimpleNamespace(
        authorizer=None,
        quotas=None,
        config=BrokerConfig.load({}),
        metadata=SimpleNamespace(image=ClusterImage("cluster")),
        node_id=1,
    )
    connection: Any = None
    header = RequestHeader(32, 4, 1, None, 0)
    context = RequestContext(broker, connection, header, Session(ANONYMOUS, "", "PLAINTEXT"))
    resource = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
    request = build("describe_configs", 4, {"resources": [resource] * 5})
    answer = asyncio.run(describe_configs.handle(context, request))
    assert [each.error_code for each in answer.results] == [
        *[ErrorCode.none] * 3,
        *[ErrorCode.policy_violation] * 2,
    ]
