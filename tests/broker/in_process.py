"""A broker in the test's own process, for what is to be looked at from inside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from drumlin.broker.start.broker import Broker
from drumlin.clock import Clock, SystemClock
from drumlin.config.broker import BrokerConfig


def config(*log_dirs: Path, **settings: str) -> BrokerConfig:
    """A broker's configuration; keys with underscores for dots."""
    properties: Mapping[str, str] = {
        "log.dirs": ",".join(map(str, log_dirs)),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "offsets.topic.num.partitions": "2",
        **{key.replace("_", "."): value for key, value in settings.items()},
    }
    return BrokerConfig.load(properties)


@asynccontextmanager
async def running(
    *log_dirs: Path, clock: Clock | None = None, **settings: str
) -> AsyncIterator[Broker]:
    """A broker that serves, stopped at the end."""
    broker = await Broker.start(config(*log_dirs, **settings), clock or SystemClock())
    try:
        yield broker
    finally:
        await broker.stop()
