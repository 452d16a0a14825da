"""The broker of `turns`: one that reports its turns, with topics and groups to ask for."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.turns.requests import Case
from bench.turns.values import World, names
from drumlin.wire.error_codes import ErrorCode
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.data.raw import RawClient
from rig.waiting import wait_until

_WIDE: Final = 5000
_TOPICS: Final = 1000
_GROUPS: Final = 500
_TRANSACTIONAL_ID: Final = "turns"
_SHARE_GROUP: Final = "share-group"
_CREATE_TOPICS, _METADATA, _OFFSET_COMMIT = 7, 12, 8
_FIND_COORDINATOR, _INIT_PRODUCER_ID, _SHARE_FETCH = 4, 4, 1
_SHARE_GROUP_HEARTBEAT: Final = 1
_SETTLING_S: Final = 0.1
_TIMEOUT_S: Final = 120.0
_SETTINGS: Final = {
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
    "group.share.min.record.lock.duration.ms": "1000",
}


class _Server(DrumlinServer):
    def __init__(self, directory: Path, turns: Path) -> None:
        super().__init__(directory, _SETTINGS)
        self._turns = turns

    def launch(self, command: Any, cwd: Path | None = None) -> None:
        arguments = server_command(self.data, self.port, self.settings)[3:]
        super().launch([sys.executable, "-m", "bench.turns.watched", str(self._turns), *arguments])


class WatchedBroker:
    """A running broker, and what there is in it."""

    def __init__(self, directory: Path) -> None:
        self._turns = directory / "turns"
        self._turns.touch()
        self._read_bytes = 0
        self._wide, *self._narrow = [f"topic-{each}" for each in range(_TOPICS)]
        self._groups = [f"group-{each}" for each in range(_GROUPS)]
        self._server = _Server(directory, self._turns)
        try:
            self._server.start()
            self._fill()
            self.world = self._known()
            self.longest_turn()
        except BaseException:  # also when the benchmark is interrupted
            self.close()
            raise

    def _known(self) -> World:
        topics = [self._wide, *self._narrow]
        with self.connect() as client:
            told = client.ask("metadata", _METADATA, topics=[{"name": each} for each in topics])
        ids = {each.name: each.topic_id for each in told.topics}
        return World(
            names(topics, self._groups, [_SHARE_GROUP], _TRANSACTIONAL_ID),
            [ids[each] for each in topics],
            _WIDE,
        )

    def close(self) -> None:
        self._server.close()

    def stop(self) -> None:
        """A clean end."""
        self._server.stop()

    def connect(self) -> RawClient:
        return RawClient(self._server.port, "bench", timeout_s=_TIMEOUT_S)

    def prepare(self, case: Case) -> bool:
        """See to it that all is there again, and that a producer may ask if that is needed.

        Whether it took anything.
        """
        is_deletion = case.api.startswith("delete")
        if is_deletion:
            self._fill()
        if case.needs_producer:
            with self.connect() as client:
                self._begin_transaction(client)
        return is_deletion or case.needs_producer

    def open_share_session(self, client: RawClient) -> None:
        """Open a share session of the member, on all partitions of the wide topic."""
        partitions = [{"partition_index": each} for each in range(_WIDE)]
        client.ask(
            "share_fetch",
            _SHARE_FETCH,
            group_id=_SHARE_GROUP,
            member_id=self.world.member_id,
            share_session_epoch=0,
            topics=[{"topic_id": self.world.topic_ids[0], "partitions": partitions}],
        )

    def longest_turn(self) -> tuple[float, str]:
        """Since this was asked before: ms of processor time, and the place."""
        time.sleep(_SETTLING_S)
        with self._turns.open("rb") as file:
            file.seek(self._read_bytes)
            said = file.read()
        whole = said[: said.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        turns = [json.loads(line) for line in whole.splitlines()]
        if not turns:
            return 0.0, ""
        longest = max(turns, key=lambda each: float(each["ms"]))
        garbage = f"(garbage: {longest['garbage_ms']} ms) " if longest["garbage_ms"] > 1 else ""
        shown = (" < ".join(place.split(" < ")[:4]) for place in longest["places"])
        return float(longest["ms"]), garbage + " | ".join(shown)

    @staticmethod
    def codes_of(answer: Any) -> str:
        """The error code that an answer has most often."""
        counted: Counter[str] = Counter(code.name for code in _codes(answer))
        return counted.most_common(1)[0][0] if counted else "answered"

    def _fill(self) -> None:
        with self.connect() as client:
            for some, count in (([self._wide], _WIDE), (self._narrow, 1)):
                topics = [
                    {"name": each, "num_partitions": count, "replication_factor": 1}
                    for each in some
                ]
                client.ask("create_topics", _CREATE_TOPICS, timeout=60_000, topics=topics)
            for key_type, key in ((0, self._groups[0]), (1, _TRANSACTIONAL_ID)):
                self.find_coordinator(client, key_type, key)
            for number, group_id in enumerate(self._groups):
                self._commit(client, group_id, 1 if number else _WIDE)
            self._share(client)

    @staticmethod
    def find_coordinator(client: RawClient, key_type: int, key: str) -> None:
        def is_found() -> bool:
            answer = client.ask(
                "find_coordinator", _FIND_COORDINATOR, key_type=key_type, coordinator_keys=[key]
            )
            return bool(answer.coordinators[0].error_code == 0)

        wait_until(is_found, f"the coordinator of {key}", 60)

    def _commit(self, client: RawClient, group_id: str, count: int) -> None:
        partitions = [
            {"partition_index": each, "committed_offset": 0, "committed_leader_epoch": -1}
            for each in range(count)
        ]

        def is_committed() -> bool:
            answer = client.ask(
                "offset_commit",
                _OFFSET_COMMIT,
                group_id=group_id,
                generation_id_or_member_epoch=-1,
                topics=[{"name": self._wide, "partitions": partitions}],
            )
            return bool(answer.topics[0].partitions[0].error_code == 0)

        wait_until(is_committed, f"{group_id} to be coordinated", 60)

    def _share(self, client: RawClient) -> None:
        """Have the share group begin to read the wide topic; its member goes again."""
        member_id = str(uuid.uuid4())

        def beat(epoch: int) -> Any:
            return client.ask(
                "share_group_heartbeat",
                _SHARE_GROUP_HEARTBEAT,
                group_id=_SHARE_GROUP,
                member_id=member_id,
                member_epoch=epoch,
                subscribed_topic_names=[self._wide],
            )

        wait_until(lambda: beat(0).error_code == 0, "the share group", 60)
        beat(-1)

    def _begin_transaction(self, client: RawClient) -> None:
        def has_begun() -> bool:
            answer = client.ask(
                "init_producer_id",
                _INIT_PRODUCER_ID,
                transactional_id=_TRANSACTIONAL_ID,
                transaction_timeout=60_000,
                producer_id=-1,
                producer_epoch=-1,
            )
            self.world.producer_id = answer.producer_id
            self.world.producer_epoch = answer.producer_epoch
            return bool(answer.error_code == 0)

        wait_until(has_begun, "the transaction before to end", _TIMEOUT_S)


def _codes(message: Any) -> Iterator[Any]:
    for field in dataclasses.fields(message):
        value = getattr(message, field.name, None)  # not every version has it
        if isinstance(value, ErrorCode):
            yield value
        elif isinstance(value, tuple) and value and dataclasses.is_dataclass(value[0]):
            for each in value:
                yield from _codes(each)
