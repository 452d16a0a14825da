"""Brokers that allow less than the sink asks for: it asks for less, or leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from drumlin.client.client import connect
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol import driver
from drumlin.spark.writing.protocol.messages import SinkSettings, TaskIdentity, TaskMessage
from drumlin.spark.writing.protocol.requests import (
    FenceAll,
    FetchAnchor,
    InitDriver,
    InitTask,
    PrepareTopic,
)
from drumlin.spark.writing.protocol.sink_errors import RequestFailed
from drumlin.spark.writing.protocol.transactions import Opened
from rig.brokers.drumlin_server import DrumlinServer


def test_brokers_that_allow_short_transactions_only(tmp_path: Path) -> None:
    server = DrumlinServer(tmp_path, {"transaction.max.timeout.ms": "20000"})
    server.start()
    try:
        with connect(server.address) as client:
            performer = Performer(client)
            ours = performer.perform(InitDriver("drumlin.short.driver"))
            task = performer.perform(InitTask("drumlin.short.run.0", None))
            assert ours.epoch == task.epoch == 0
            with pytest.raises(RequestFailed, match="allow no transaction of 20001 ms"):
                performer.perform(InitTask("drumlin.short.run.1", 20_001))
            performer.close()
    finally:
        server.close()


def test_no_transaction_is_left_open_where_nothing_can_be_decided() -> None:
    identity = TaskIdentity("refused", "q", 0, "r", 0)
    message = TaskMessage(identity, opened=Opened("drumlin.mine", 1, 0), rows=1)
    steps = driver.commit([message], 0, SinkSettings())
    assert isinstance(next(steps), FetchAnchor)
    assert isinstance(steps.send(None), PrepareTopic)
    refused = RequestFailed("may not be made")
    assert steps.throw(refused) == FenceAll(("drumlin.mine",))
    with pytest.raises(RequestFailed, match="may not be made"):
        steps.send(1)
