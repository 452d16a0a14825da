"""A partition with many keys of state, whose owner is killed: how long until another one goes on.

From the kill to the first new record in the hands of the other process, which includes the session
time-out of three seconds, after which the group gives the partition away. Theirs reads the state
from the changelog, ours has stood by.
"""

from __future__ import annotations

import subprocess
import sys
import time
import uuid
from typing import Final

import pyarrow as pa

import drumlin
from bench.brokers import Broker
from bench.harness import Metrics
from drumlin.client.client import Client
from drumlin.state import Processor
from drumlin.state.changelog_format import POSITION_KEY, Position, changelog_name, position_value
from rig.waiting import wait_until

_APPENDED: Final = 100_000
_SESSION_MS: Final = 3_000
_OWNER: Final = """
import sys, drumlin
topic, group, address, standbys = sys.argv[1:]
with drumlin.state.processor(
    topic, group=group, state="bench", bootstrap=address, standbys=int(standbys),
    session_timeout_ms=3_000, heartbeat_interval_ms=500,
) as processor:
    for batch in processor:
        pass
"""


def takeover(broker: Broker, client: Client, keys: int, standbys: int) -> Metrics:
    """The seconds until the other process has the first record."""
    group = f"bench-{uuid.uuid4().hex}"
    with broker.topic(1) as topic:
        _fill(client, topic, group, keys)
        command = [sys.executable, "-c", _OWNER, topic, group, broker.address, str(standbys)]
        owner = subprocess.Popen(command)
        try:
            wait_until(lambda: _has_owner(client, group), "an owner", 120)
            with drumlin.state.processor(
                topic,
                group=group,
                state="bench",
                bootstrap=broker.address,
                standbys=standbys,
                session_timeout_ms=_SESSION_MS,
                heartbeat_interval_ms=500,
                idle_timeout_ms=100,
            ) as other:
                wait_until(lambda: _is_ready(other, client, standbys), "a standby", 120)
                client.append([{"key": "late", "value": "x"}], topic)
                owner.kill()
                client.append([{"key": "later", "value": "x"}], topic)
                killed = time.perf_counter()
                while next(other, None) is None:
                    pass
                return {"time": time.perf_counter() - killed}
        finally:
            owner.kill()
            owner.wait()


def _fill(client: Client, topic: str, group: str, keys: int) -> None:
    changelog = changelog_name(group, "bench")
    client.create_topic(changelog, 1, configs={"cleanup.policy": "compact"})
    for start in range(0, keys, _APPENDED):
        names = [b"customer-%d" % each for each in range(start, min(start + _APPENDED, keys))]
        client.append(pa.table({"key": names, "value": names}), changelog)
    topic_id = client.describe_topics([topic])[topic].topic_id or ""
    position = position_value([Position(group, topic, topic_id, 0)], "bench")
    client.append([{"key": POSITION_KEY, "value": position}], changelog)


def _has_owner(client: Client, group: str) -> bool:
    return any(each.partitions for each in client.describe_group(group).members)


def _is_ready(processor: Processor, client: Client, standbys: int) -> bool:
    """Whether the process is a member, and its replica at the changelog's end."""
    next(processor, None)
    group = processor._group
    end = client.offsets(changelog_name(group, "bench"))[0]
    is_member = len(client.describe_group(group).members) > 1
    return is_member and (standbys == 0 or processor._replicas.offsets().get(0, 0) >= end)
