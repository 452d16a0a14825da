"""What the steady client has beside it: one neighbour for each row of the table.

A neighbour prepares what it needs, and then does one thing again and again, or once, while the
steady client is measured. The broker and what several rows use of it are its `Place`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from bench.brokers import Broker
from drumlin.wire.messages import parse_response
from rig.data.raw import Closed, RawClient
from rig.waiting import wait_until

_WIDE = 5000
_TIMEOUT_S = 300
_LIST_OFFSETS, _INCREMENTAL_ALTER_CONFIGS = 8, 1
_LATEST = -1
_SET = 0
_REFUSAL_PAUSE_S = 0.01
TOPIC_RESOURCE, GROUP_RESOURCE = 2, 32


class Place:
    """A broker, the folder of its data, and the topics that rows share."""

    def __init__(self, broker: Broker, data: Path, scale: float) -> None:
        self.broker = broker
        self.data = data
        self.scale = scale

    def scaled(self, count: int) -> int:
        return max(1, round(count * self.scale))

    @functools.cached_property
    def steady_topic(self) -> str:
        """What the steady client writes to."""
        return self.led_topic(1)

    @functools.cached_property
    def wide_topic(self) -> str:
        """5,000 partitions, if that is the scale."""
        return self.led_topic(self.wide)

    @property
    def wide(self) -> int:
        return self.scaled(_WIDE)

    def led_topic(self, partitions: int, **configs: str) -> str:
        """A new topic, all of whose partitions are led and can be asked."""
        name = self.broker.create_topic(partitions, **configs)

        asked = [
            {"partition_index": each, "current_leader_epoch": -1, "timestamp": _LATEST}
            for each in range(partitions)
        ]
        topics = [{"name": name, "partitions": asked}]

        def is_led() -> bool:
            answer = self.broker.ask("list_offsets", _LIST_OFFSETS, replica_id=-1, topics=topics)
            return all(each.error_code == 0 for each in answer.topics[0].partitions)

        wait_until(is_led, f"{self.broker.name} to lead {partitions} partitions", _TIMEOUT_S)
        return name

    def connect(self) -> RawClient:
        return RawClient(self.broker.port, "neighbour", timeout_s=_TIMEOUT_S)

    def alter(self, resource: int, name: str, **configs: str) -> None:
        """Set configurations; underscores in their names stand for dots."""
        answer = self.broker.ask(
            "incremental_alter_configs",
            _INCREMENTAL_ALTER_CONFIGS,
            resources=[
                {
                    "resource_type": resource,
                    "resource_name": name,
                    "configs": [
                        {"name": key.replace("_", "."), "config_operation": _SET, "value": value}
                        for key, value in configs.items()
                    ],
                }
            ],
        )
        if answer.responses[0].error_code != 0:
            raise RuntimeError(f"{self.broker.name}: {answer}")


class Neighbour:
    """One row. Its docstring's first line says what it does and what that is in production."""

    name: ClassVar[str]
    #: The brokers that the row shares with others; see `PAIRS`.
    pair: ClassVar[str] = "main"
    #: Whether it acts once in a round; else until the time is over.
    acts_once: ClassVar[bool] = False
    #: Whether it does nothing before it acts, so that its own rounds tell what calm is.
    is_quiet: ClassVar[bool] = True
    #: Whether a first round is thrown away.
    is_warmed: ClassVar[bool] = True

    def __init__(self, place: Place) -> None:
        self.place = place
        self.broker = place.broker

    def prepare(self) -> None:
        """Once, before all rounds."""

    def before_round(self) -> None:
        """Before each round; not measured."""

    def act(self) -> None:
        """What the steady client is measured beside."""
        raise NotImplementedError

    def after_round(self) -> None:
        """After each round; not measured."""

    def close(self) -> None:
        """After all rounds."""


class Calm(Neighbour):
    """Nothing: what the steady client sees of an idle broker."""

    name = "calm"
    is_quiet = False

    def act(self) -> None:
        time.sleep(0.1)


class AskingNeighbour(Neighbour):
    """One that sends the same whole request again and again; a broker may refuse it."""

    def prepare(self) -> None:
        self._frame = self.frame()
        self._client: RawClient | None = None

    def frame(self) -> bytes:
        """The request, with its length prefix."""
        raise NotImplementedError

    def act(self) -> None:
        if self._client is None:
            self._client = self.place.connect()
        try:
            self._client.send_bytes(self._frame)
            self._client.receive_frame()
        except Closed:  # refused; a client comes back
            self.close()
            time.sleep(_REFUSAL_PAUSE_S)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None


def ask_all(
    client: RawClient, api: str, version: int, frames: Iterable[bytes], at_once: int = 16
) -> list[Any]:
    """Send requests, several before the first is answered; all answers, parsed."""
    answers, waiting = [], 0
    for frame in frames:
        client.send_bytes(frame)
        waiting += 1
        if waiting == at_once:
            answers.append(parse_response(api, version, client.receive_frame())[1])
            waiting -= 1
    answers += [parse_response(api, version, client.receive_frame())[1] for _ in range(waiting)]
    return answers


def renamed(frame: bytes, placeholder: str, names: Sequence[str]) -> Iterable[bytes]:
    """One request for each name: far quicker than encoding thousands of positions for each."""
    for name in names:
        if len(name) != len(placeholder):
            raise ValueError("names of one length only")
        yield frame.replace(placeholder.encode(), name.encode())
