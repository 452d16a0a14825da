"""Many groups with many committed offsets: asked for, kept, dropped, and loaded again."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

from bench.load import request_frame
from bench.offset_commits import find_coordinator
from bench.stalls.neighbour import AskingNeighbour, Neighbour, Place, ask_all, renamed
from drumlin.wire.messages import parse_response
from rig.data.raw import Closed
from rig.waiting import wait_until

_GROUPS, _POSITIONS = 500, 1000
_DELETED_PARTITIONS = 200
_LOADED_RECORDS, _LOADED_GROUPS, _LOADED_POSITIONS = 1_000_000, 50, 2000
_OFFSET_COMMIT, _OFFSET_FETCH, _DELETE_TOPICS = 8, 8, 6
_LIMIT_S = 300
_NOT_YET = ("coordinator_load_in_progress", "not_coordinator", "coordinator_not_available")
_numbers = itertools.count()


def group_names(count: int) -> list[str]:
    """New ones, of one length."""
    run = next(_numbers)
    return [f"group-{run:03}-{number:05}" for number in range(count)]


def commit_frame(group_id: str, topic: str, partitions: int) -> bytes:
    """A position in each partition, of a consumer without membership."""
    positions = [
        {
            "partition_index": each,
            "committed_offset": 1 << 40,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        for each in range(partitions)
    ]
    return request_frame(
        "offset_commit",
        _OFFSET_COMMIT,
        group_id=group_id,
        generation_id_or_member_epoch=-1,
        member_id="",
        topics=[{"name": topic, "partitions": positions}],
    )


def commit(place: Place, groups: Sequence[str], topic: str, partitions: int) -> None:
    """Every group commits its positions, once the coordinator is there."""
    find_coordinator(place.broker, groups[0])
    first = commit_frame(groups[0], topic, partitions)
    with place.connect() as client:

        def is_loaded() -> bool:
            (answer,) = ask_all(client, "offset_commit", _OFFSET_COMMIT, [first])
            return _code(answer).name not in (*_NOT_YET, "unknown_topic_or_partition")

        wait_until(is_loaded, f"{place.broker.name} to take commits", _LIMIT_S)
        frames = renamed(first, groups[0], groups)
        waiting = list(zip(groups, frames, strict=True))
        while waiting:  # the groups of other partitions may still be loaded
            answers = ask_all(client, "offset_commit", _OFFSET_COMMIT, [f for _, f in waiting])
            paired = list(zip(waiting, answers, strict=True))
            waiting = [each for each, answer in paired if _code(answer).name in _NOT_YET]
            wrong = [_code(a) for _, a in paired if _code(a) != 0 and _code(a).name not in _NOT_YET]
            if wrong:
                raise RuntimeError(f"{place.broker.name} answered {wrong[0]!r} to a commit")


def _code(answer: Any) -> Any:
    return answer.topics[0].partitions[0].error_code


class _ManyOffsets(Neighbour):
    pair = "offsets"

    def prepare(self) -> None:
        self.topic = self.place.led_topic(_POSITIONS)
        self.groups = group_names(self.place.scaled(_GROUPS))
        commit(self.place, self.groups, self.topic, _POSITIONS)


class AllGroupsFetched(_ManyOffsets):
    """OffsetFetch of 500 groups with 1,000 offsets each, in one request: a lag exporter."""

    name = "offset_fetch"

    def prepare(self) -> None:
        super().prepare()
        self._frame = request_frame(
            "offset_fetch",
            _OFFSET_FETCH,
            groups=[{"group_id": each, "topics": None} for each in self.groups],
        )
        self._client = self.place.connect()

    def act(self) -> None:
        self._client.send_bytes(self._frame)
        self._client.receive_frame()

    def close(self) -> None:
        self._client.close()


class CommitsOverMany(_ManyOffsets):
    """Commits of 1,000 positions beside 500,000 that are held: garbage collection."""

    name = "garbage"

    def prepare(self) -> None:
        super().prepare()
        self._frame = commit_frame(self.groups[0], self.topic, _POSITIONS)
        self._client = self.place.connect()

    def act(self) -> None:
        self._client.send_bytes(self._frame)
        self._client.receive_frame()

    def close(self) -> None:
        self._client.close()


class OffsetsExamined(_ManyOffsets):
    """The retention of 500 groups with 1,000 offsets each, twice a second: it runs by itself."""

    name = "offset_retention"
    pair = "offset_retention"
    is_quiet = False

    def act(self) -> None:
        time.sleep(0.1)


class TopicDeleted(Neighbour):
    """A topic of 200 partitions is deleted to which 500 groups have committed."""

    name = "topic_deleted"
    pair = "offsets"
    acts_once = True

    def before_round(self) -> None:
        self._topic = self.place.led_topic(_DELETED_PARTITIONS)
        groups = group_names(self.place.scaled(_GROUPS))
        commit(self.place, groups, self._topic, _DELETED_PARTITIONS)

    def act(self) -> None:
        self.broker.ask(
            "delete_topics", _DELETE_TOPICS, timeout=60_000, topics=[{"name": self._topic}]
        )


class WideCommit(AskingNeighbour):
    """OffsetCommit of 5,000 positions a request: one consumer of everything."""

    name = "wide_commit"

    def frame(self) -> bytes:
        (group,) = group_names(1)
        commit(self.place, [group], self.place.wide_topic, self.place.wide)
        return commit_frame(group, self.place.wide_topic, self.place.wide)


class Restart(Neighbour):
    """A restart over a million commits in `__consumer_offsets`: until every group is served."""

    name = "restart"
    pair = "restart"
    is_quiet = False
    acts_once = True
    is_warmed = False

    def prepare(self) -> None:
        topic = self.place.led_topic(_LOADED_POSITIONS)
        self._groups = group_names(_LOADED_GROUPS)
        times = self.place.scaled(_LOADED_RECORDS) // (_LOADED_GROUPS * _LOADED_POSITIONS)
        for _ in range(max(1, times)):
            commit(self.place, self._groups, topic, _LOADED_POSITIONS)
        self._frame = request_frame(
            "offset_fetch",
            _OFFSET_FETCH,
            groups=[
                {"group_id": each, "topics": [{"name": topic, "partition_indexes": [0]}]}
                for each in self._groups
            ],
        )

    def before_round(self) -> None:
        self.broker.process.terminate(timeout_s=_LIMIT_S)
        self.broker.process.start()

    def act(self) -> None:
        find_coordinator(self.broker, self._groups[0])
        wait_until(self._is_loaded, f"{self.broker.name} to load its groups", _LIMIT_S)

    def _is_loaded(self) -> bool:
        try:
            with self.place.connect() as client:
                client.send_bytes(self._frame)
                body = client.receive_frame()
        except (Closed, OSError):
            return False
        answer = parse_response("offset_fetch", _OFFSET_FETCH, body)[1]
        return all(each.error_code.name not in _NOT_YET for each in answer.groups)


ROWS: tuple[type[Neighbour], ...] = (
    WideCommit,
    AllGroupsFetched,
    CommitsOverMany,
    TopicDeleted,
    OffsetsExamined,
    Restart,
)
