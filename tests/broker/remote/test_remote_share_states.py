"""Share states that another broker keeps; that one is scripted here."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from broker.in_process import running
from broker.second_broker import NODE_ID, join, leave
from drumlin.broker.remote.share_states import ShareStateRoutes
from drumlin.broker.start.broker import Broker
from drumlin.coordination.groups.coordinator import share_groups as membership
from drumlin.coordination.groups.share.messages import ShareHeartbeat
from drumlin.coordination.share.state.state import SharePartitionKey, ShareState, StateBatch
from drumlin.metadata.names import SHARE_GROUP_STATE
from drumlin.wire.error_codes import ErrorCode, KafkaError
from rig.brokers.scripted_broker import CloseConnection, ScriptedBroker
from rig.data.messages import Shape
from rig.waiting import eventually

TOPIC_ID = UUID(int=77)
KEY = SharePartitionKey("g", TOPIC_ID, 3)
STATE = ShareState(4, 2, 10, 1, (StateBatch(11, 12, 2, 1), StateBatch(15, 15, 0, 3)))

Answer = Callable[[Shape, Any], Any]
_NAMES = {
    "initialize_share_group_state": "Initialize",
    "read_share_group_state": "Read",
    "write_share_group_state": "Write",
    "delete_share_group_state": "Delete",
    "read_share_group_state_summary": "ReadSummary",
}


def telling(api_name: str, code: ErrorCode = ErrorCode.none, **fields: Any) -> Answer:
    """An answer with this code for each partition."""

    def answer(shape: Shape, request: Any) -> Any:
        kind = _NAMES[api_name]
        results = {"ReadSummary": "ReadStateSummaryResult"}.get(kind, f"{kind}StateResult")
        batches = tuple(shape("StateBatch", **it._asdict()) for it in fields.get("batches", ()))
        given = {key: value for key, value in fields.items() if key != "batches"}
        if kind == "Read":
            given = {"state_epoch": 0, "start_offset": 0, "state_batches": batches, **given}
        return shape(
            "".join(part.capitalize() for part in api_name.split("_")) + "Response",
            results=tuple(
                shape(
                    results,
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        shape(
                            "PartitionResult",
                            partition=each.partition,
                            error_code=code,
                            error_message="why",
                            **given,
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in request.topics
            ),
        )

    return answer


async def states_elsewhere(
    broker: Broker, other: ScriptedBroker, patience_s: float = 60
) -> ShareStateRoutes:
    await broker.metadata.create_topic(SHARE_GROUP_STATE, [[NODE_ID]] * 2, {})
    join(broker, other)
    return ShareStateRoutes(broker, broker.share_state, patience_s)


def test_all_that_is_asked(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            states = await states_elsewhere(broker, other)
            await states.initialize(*KEY, 5, -1)
            assert states.write_at_once(KEY, STATE) is None
            await states.write(*KEY, STATE)
            read = await states.read(*KEY, 2)
            assert read.batches == STATE.batches
            assert (read.state_epoch, read.start_offset) == (4, 10)
            summary = await states.summary(*KEY)
            assert summary == STATE._replace(batches=())
            await states.delete(*KEY)
            await states.close()
        asked = {name: message for name, _, message in other.requests if name in _NAMES}
        assert {each.group_id for each in asked.values()} == {"g"}
        parts = {}
        for name, message in asked.items():
            ((topic_id, (parts[name],)),) = [(it.topic_id, it.partitions) for it in message.topics]
            assert (topic_id, parts[name].partition) == (TOPIC_ID, 3)
        begun = parts["initialize_share_group_state"]
        assert (begun.state_epoch, begun.start_offset) == (5, -1)
        assert parts["read_share_group_state"].leader_epoch == 2
        written = parts["write_share_group_state"]
        assert (written.state_epoch, written.leader_epoch) == (4, 2)
        assert (written.start_offset, written.delivery_complete_count) == (10, 1)
        assert [
            StateBatch(it.first_offset, it.last_offset, it.delivery_state, it.delivery_count)
            for it in written.state_batches
        ] == [*STATE.batches]

    with ScriptedBroker() as other:
        for name in _NAMES:
            other.script(name, telling(name))
        other.script(
            "read_share_group_state",
            telling("read_share_group_state", state_epoch=4, start_offset=10, batches=STATE[-1]),
        )
        other.script(
            "read_share_group_state_summary",
            telling(
                "read_share_group_state_summary",
                state_epoch=4,
                leader_epoch=2,
                start_offset=10,
                delivery_complete_count=1,
            ),
        )
        asyncio.run(main())


READ = "read_share_group_state"


def test_whoever_coordinates_by_then_is_asked_again(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            states = await states_elsewhere(broker, other)
            assert (await states.read(*KEY, 2)).start_offset == 8
            assert len(other.asked(READ)) == 4

    with ScriptedBroker() as other:
        other.script(
            READ,
            telling(READ, ErrorCode.not_coordinator),
            lambda *_: CloseConnection(),
            telling(READ, ErrorCode.coordinator_load_in_progress),
            telling(READ, start_offset=8),
        )
        asyncio.run(main())


@pytest.mark.parametrize(
    "code", [ErrorCode.fenced_leader_epoch, ErrorCode.invalid_request, ErrorCode.group_id_not_found]
)
def test_what_is_refused_for_good(tmp_path: Path, code: ErrorCode) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            states = await states_elsewhere(broker, other)
            with pytest.raises(KafkaError) as caught:
                await states.read(*KEY, 2)
            assert (caught.value.code, caught.value.message) == (code, "why")
            assert len(other.asked(READ)) == 1

    with ScriptedBroker() as other:
        other.script(READ, telling(READ, code))
        asyncio.run(main())


@pytest.mark.parametrize("is_stopping", [True, False])
def test_in_the_end_it_is_told_that_nobody_can_be_asked(tmp_path: Path, is_stopping: bool) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            states = await states_elsewhere(broker, other, 60 if is_stopping else 0)
            if is_stopping:
                states.finish()
            for come_or_go in (lambda: None, lambda: leave(broker)):
                come_or_go()
                with pytest.raises(KafkaError) as caught:
                    await states.read(*KEY, 2)
                assert caught.value.code is ErrorCode.coordinator_not_available

    with ScriptedBroker() as other:
        other.script(READ, lambda *_: CloseConnection())
        asyncio.run(main())


def test_partitions_of_a_group_go_together(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            states = await states_elsewhere(broker, other)
            await asyncio.gather(
                *(states.read("g", TOPIC_ID, each, 0) for each in range(10)),
                *(states.read("h", TOPIC_ID, each, 0) for each in range(5)),
            )
            counts = {
                each.group_id: sum(len(topic.partitions) for topic in each.topics)
                for each in other.asked(READ)
            }
            assert counts == {"g": 10, "h": 5}
            assert len(other.asked(READ)) == 2

    with ScriptedBroker() as other:
        other.script(READ, telling(READ))
        asyncio.run(main())


def test_the_topic_is_created_by_the_first_state(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as broker:
            topic = await broker.metadata.create_topic("t", [[1]], {})
            nothing = await broker.share_states.summary("g", topic.topic_id, 0)
            assert nothing.state_epoch == 0
            assert SHARE_GROUP_STATE not in broker.metadata.image.topics
            await broker.share_states.initialize("g", topic.topic_id, 0, 3, 7)
            state = await broker.share_states.read("g", topic.topic_id, 0, 0)
            assert (state.state_epoch, state.start_offset) == (3, 7)

    asyncio.run(main())


def test_members_stay_while_no_share_coordinator_can_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "_INITIALIZED_WITHIN_S", 0.1)

    async def main() -> None:
        async with running(tmp_path) as broker:
            await broker.groups.find_partition("g")
            topic = await broker.metadata.create_topic("t", [[1]], {})
            await broker.metadata.create_topic(SHARE_GROUP_STATE, [[NODE_ID]], {})
            beat = ShareHeartbeat("m", 0, None, "client", "/host", ("t",))
            answer = await broker.share_groups.heartbeat("g", beat)
            assert not answer.assignment
            join(broker, other)

            async def is_assigned() -> bool:
                nonlocal answer
                again = ShareHeartbeat("m", answer.member_epoch, None, "client", "/host", None)
                answer = await broker.share_groups.heartbeat("g", again)
                return answer.assignment == {topic.topic_id: (0,)}

            await eventually(is_assigned)
            assert len(other.asked("initialize_share_group_state")) == 1

    with ScriptedBroker() as other:
        other.script("initialize_share_group_state", telling("initialize_share_group_state"))
        asyncio.run(main())
