"""New connections come as fast as the broker, a listener or an address allows (KIP-612)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from broker.in_process import running
from drumlin.broker.quotas.connection_rates import BROKER, UNLIMITED, ConnectionRates
from drumlin.broker.quotas.rate import Window
from rig.data.raw import Closed, RawClient
from rig.waiting import wait_until

_WINDOW = Window(2, 1000)


def test_the_listener_of_brokers_is_under_its_own_limit_alone() -> None:
    rates = ConnectionRates(_WINDOW)
    rates.limit({BROKER: 2, "A": 5, "B": UNLIMITED, "C": 4}, exempt="C")
    assert [rates.pause_ms("A", 0) for _ in range(3)] == [0, 0, 500]
    assert rates.pause_ms("B", 0) == 1000
    assert [rates.pause_ms("C", 0) for _ in range(5)] == [0, 0, 0, 0, 250]
    rates.limit({BROKER: 3, "A": 5})
    assert rates.pause_ms("C", 0) == 667  # what was counted before still counts
    rates.limit({BROKER: UNLIMITED})
    assert rates.pause_ms("C", 0) == 0


def test_addresses_are_known_however_they_are_written() -> None:
    rates = ConnectionRates(_WINDOW)
    rates.put("0:0:0:0:0:0:0:1", 1)
    rates.put("10.0.0.1", 1)
    rates.put(None, 2)
    for host, free in (("::1", 1), ("::ffff:10.0.0.1", 1), ("10.0.0.1", 0), ("fe80::1%eth0", 2)):
        came = [rates.delay_ms(host, 0) == 0 for _ in range(3)]
        assert came == [number < free for number in range(3)], host
    rates.put(None, None)
    assert rates.delay_ms("fe80::1", 0) == 0


def test_a_broker_accepts_no_faster_than_it_may(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(tmp_path, quota_window_num="2") as broker:
            (listener,) = broker.listeners

            def alter(
                entity: dict[str, str], key: str, value: float, *, remove: bool = False
            ) -> None:
                names = [{"entity_type": each, "entity_name": entity[each]} for each in entity]
                ops = [{"key": key, "value": value, "remove": remove}]
                entry = {"entity": names, "ops": ops}
                told = admin.ask("alter_client_quotas", 1, entries=[entry], validate_only=False)
                assert [each.error_code.value for each in told.entries] == [0]

            def configure(name: str, value: str | None) -> None:
                config = {"name": name, "config_operation": int(value is None), "value": value}
                resource = {"resource_type": 4, "resource_name": "1", "configs": [config]}
                told = admin.ask(
                    "incremental_alter_configs", 1, resources=[resource], validate_only=False
                )
                assert [each.error_code.value for each in told.responses] == [0], told

            def come(count: int) -> float:
                """The time that so many connections take, in s."""
                began_s = time.monotonic()
                for _ in range(count):
                    with RawClient(listener.port) as client:
                        client.ask("api_versions", 0)
                return time.monotonic() - began_s

            def is_turned_back() -> bool:
                with RawClient(listener.port) as client:
                    try:
                        client.ask("api_versions", 0)
                    except Closed:
                        return True
                return False

            def use() -> None:
                key = "max.connection.creation.rate"
                for name in (key, f"listener.name.{listener.name.lower()}.{key}"):
                    configure(name, "5")
                    assert come(7) >= 0.19
                    configure(name, None)
                address = {"ip": "127.0.0.1"}
                alter(address, "connection_creation_rate", 5)
                wait_until(is_turned_back, "a connection that is too much")
                alter(address, "connection_creation_rate", 5, remove=True)
                come(6)

            admin = await asyncio.to_thread(RawClient, listener.port)
            try:
                await asyncio.to_thread(use)
            finally:
                admin.close()

    asyncio.run(scenario())
