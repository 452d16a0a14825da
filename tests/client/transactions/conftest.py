"""What tests of transactions begin with."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from client.transactions.scripted_transactions import script_transactions
from rig.brokers.scripted_broker import ScriptedBroker


@pytest.fixture
def name() -> str:
    """A transactional id of the test's own."""
    return f"transaction-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    """One that coordinates transactions, and leads the one partition of `t`."""
    with ScriptedBroker({"t": 1}) as broker:
        script_transactions(broker)
        yield broker
