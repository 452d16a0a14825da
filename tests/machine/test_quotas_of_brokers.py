"""Quotas of several brokers: they are for all together, are kept, and replication has none."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from machine.clients import create, leaders
from machine.conftest import MakeServer
from rig.brokers.machine_server import MachineServer
from rig.data.batches import batch
from rig.data.raw import RawClient
from rig.waiting import wait_until

pytestmark = [pytest.mark.clients, pytest.mark.slow]

_RECORDS = batch(b"x" * 20_000)
_LITTLE = batch(b"x")


def _produce(
    server: MachineServer, broker: int, client_id: str, records: bytes = _RECORDS
) -> tuple[int, float]:
    """Produce to the partition that the broker leads; the error code, and the time to wait in s."""
    partition = leaders(server, "t").index(broker)
    part = {"index": partition, "records": records}
    with RawClient(server.port + broker - 1, client_id) as client:
        answer = client.ask(
            "produce",
            9,
            acks=-1,
            timeout=10_000,
            topic_data=[{"name": "t", "partition_data": [part]}],
        )
    (result,) = answer.responses[0].partition_responses
    return result.error_code.value, answer.throttle_time.total_seconds()


def _is_held_back(server: MachineServer, broker: int) -> bool:
    return _produce(server, broker, "a")[1] > 0


def _limit(server: MachineServer, **quotas: float) -> None:
    """Set the default of client ids, by the second broker."""
    default: Any = [{"entity_type": "client-id", "entity_name": None}]
    ops = [{"key": key, "value": value, "remove": False} for key, value in quotas.items()]
    with RawClient(server.port + 1) as admin:
        entries = [{"entity": default, "ops": ops}]
        told = admin.ask("alter_client_quotas", 1, entries=entries, validate_only=False)
        assert [each.error_code.value for each in told.entries] == [0]


def _use_up(server: MachineServer, broker: int, client_id: str) -> None:
    """Use up the client's quota at one broker, so that it has to wait at the other one."""
    while not _produce(server, broker, client_id)[1]:
        pass
    others: list[float] = []

    def is_held_back() -> bool:
        others.append(_produce(server, 3 - broker, client_id, _LITTLE)[1])
        return others[-1] > 0

    wait_until(is_held_back, "the other broker to know of it")
    assert len(others) * len(_LITTLE) < len(_RECORDS)  # what it has used there is not much


def test_they_have_one_quota(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2)
    _limit(server, producer_byte_rate=2.0 * len(_RECORDS))  # of which there are ten at first
    _use_up(server, 1, "a")
    assert not _produce(server, 1, "b", _LITTLE)[1]
    server.kill_workers([1])()
    wait_until(lambda: sorted(leaders(server, "t")) == [1, 2], "all partitions to have leaders")
    _use_up(server, 2, "c")
    server.stop()


@pytest.mark.deep
def test_each_broker_keeps_them(make_server: MakeServer) -> None:
    server = make_server()
    server.start_brokers(2)
    create(server, "t", 2, replicas=2)
    keys = ("producer_byte_rate", "consumer_byte_rate")
    _limit(server, **dict.fromkeys(keys, 1.0))
    for broker in (1, 2):
        # Of a window, as the first batch of a client has used up much more than there is; and
        # followers, which fetch more than any client may, have it all the same.
        wait_until(partial(_is_held_back, server, broker), "the quota on each broker")
        for number in range(3):
            code, wait_s = _produce(server, broker, f"client-{number}")
            assert (code, wait_s > 0) == (0, True)
    server.stop()
    server.start_brokers(1)
    with RawClient(server.port) as admin:
        told = admin.ask("describe_client_quotas", 1, components=[], strict=False)
    assert [{each.key: each.value for each in entry.values} for entry in told.entries] == [
        dict.fromkeys(keys, 1.0)
    ]
    server.stop()
