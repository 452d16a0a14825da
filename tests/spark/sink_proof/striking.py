"""What is done to a stream from outside: what, and at which moment of a batch.

Half of it waits for a moment that hurts: a commit that has just begun, or a task.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import Final

from guarantees.brokers import Broker
from spark.sink_proof.brokers import pause
from spark.sink_proof.driver import Driver
from spark.sink_proof.journal import Journal

#: After which entry of the journal, and how long after it. The first is any moment at all.
_MOMENTS: Final = (
    ("", (0.0, 1.5)),
    ("", (0.0, 1.5)),
    ("commit begun", (0.0, 0.06)),
    ("commit begun", (0.0, 0.06)),
    ("task begun", (0.0, 0.1)),
)
_PATIENCE_S = 10.0
#: For the next driver's first commit.
_START_S = 40.0
_SLEEP_S = (0.0, 3.0)


class Striker:
    """Strikes by a seed."""

    def __init__(self, seed: str, broker: Broker, driver: Driver, journal: Journal) -> None:
        self._chance = random.Random(f"{seed} strikes")
        self._broker = broker
        self._driver = driver
        self._journal = journal

    def strike(self, fault: str) -> bool:
        """Wait for a moment, and do it. Whether it has met anybody."""
        event, delay_s = self._chance.choice(_MOMENTS)
        if event:
            self._journal.await_next(event, _PATIENCE_S)
        time.sleep(self._chance.uniform(*delay_s))
        return self._strikes()[fault]()

    def _strikes(self) -> dict[str, Callable[[], bool]]:
        driver = self._driver
        return {
            "driver": driver.kill,
            "jvm": driver.kill_jvm,
            "program": driver.kill_program,
            "sleep": self._sleep,
            "executor": lambda: driver.kill_executor(self._chance),
            "worker": lambda: driver.kill_worker(self._chance),
            "broker": lambda: self._restart(self._broker.kill),
            "restart": lambda: self._restart(lambda: self._broker.terminate(60)),
            "pause": lambda: pause(self._broker, self._chance.uniform(0.2, 3.0)),
        }

    def _sleep(self) -> bool:
        """The driver wakes when the next one has gone on, and both want to write."""
        met = self._driver.replace()
        self._journal.await_next("commit ended", _START_S)
        time.sleep(self._chance.uniform(*_SLEEP_S))
        self._driver.wake()
        return met

    def _restart(self, end: Callable[[], object]) -> bool:
        end()
        self._broker.start()
        return True
