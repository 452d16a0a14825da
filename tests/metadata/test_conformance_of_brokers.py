"""What stores promise where there are several brokers: each kind that can have them, alike."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from drumlin.metadata.image import (
    NO_LEADER,
    NO_LOG,
    LogEnd,
    PartitionId,
    PartitionState,
    Resource,
    ResourceType,
)
from drumlin.metadata.rules.balance import to_be_led_as_preferred
from drumlin.metadata.rules.isr_requests import IsrRequest
from drumlin.metadata.rules.leadership import Returned
from drumlin.turns import to_end
from drumlin.wire.error_codes import ErrorCode, KafkaError
from metadata.several_brokers import (
    Brokers,
    BrokersOfOneMachine,
    RunBrokers,
    Scenario,
    grow,
    id_of,
    partition,
    reassign,
    wish,
)
from rig.waiting import eventually

pytestmark = pytest.mark.deep


@pytest.fixture(params=["shared", pytest.param("zookeeper", marks=pytest.mark.zookeeper)])
def run_brokers(request: pytest.FixtureRequest, tmp_path: Path) -> RunBrokers:
    """Runs a scenario on brokers, and ends those that are left."""

    def run(scenario: Scenario) -> None:
        async def with_brokers() -> None:
            brokers: Brokers
            if request.param == "shared":
                brokers = BrokersOfOneMachine(tmp_path)
            else:
                brokers = Brokers(chroot)
            try:
                await scenario(brokers)
            finally:
                await brokers.close()

        asyncio.run(with_brokers())

    chroot = request.getfixturevalue("chroot") if request.param == "zookeeper" else ""
    return run


def test_a_leader_changes_its_isrs(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await second.create_topic("t", [[1, 2]] * 3, {})
        await brokers.all_see("t", 2, leader=1)
        ids = [id_of(first, "t", index) for index in range(3)]
        known = partition(first, "t")
        one, two = (first.image.brokers[each].epoch for each in (1, 2))
        wishes = {
            ids[0]: wish(known, (1, -1)),
            ids[1]: wish(known, (1, one)),
            ids[2]: wish(known, (2, two)),
        }
        outcomes = await first.alter_isrs(wishes)
        assert outcomes[ids[0]] == PartitionState(0, 1, 0, (1, 2), (1,), 1)
        assert partition(first, "t") == outcomes[ids[0]]
        assert outcomes[ids[2]].code is ErrorCode.invalid_request
        await eventually(lambda: brokers.told_of(1) == [0, 1])
        await brokers.all_see("t", 0, isr=(1,), partition_epoch=1)
        again = await first.alter_isrs({ids[0]: wishes[ids[0]]})  # as if the answer had been lost
        assert again == {ids[0]: outcomes[ids[0]]}
        codes = {}
        for name, each in {
            "late": wish(known, (1, one), (2, two)),
            "fenced": IsrRequest(7, 1, ((1, one),)),
            "another epoch": IsrRequest(0, 1, ((1, one), (2, two + 5))),
            "unknown epoch": IsrRequest(0, 1, ((1, one), (2, -1))),
            "no replica": IsrRequest(0, 1, ((1, one), (3, 0))),
        }.items():
            codes[name] = (await first.alter_isrs({ids[0]: each}))[ids[0]].code
        assert codes == {
            "late": ErrorCode.invalid_update_version,
            "fenced": ErrorCode.fenced_leader_epoch,
            "another epoch": ErrorCode.ineligible_replica,
            "unknown epoch": ErrorCode.ineligible_replica,
            "no replica": ErrorCode.ineligible_replica,
        }
        outcome = (await second.alter_isrs({ids[0]: IsrRequest(0, 1, ((2, two),))}))[ids[0]]
        assert outcome.code is ErrorCode.fenced_leader_epoch
        grown = await first.alter_isrs({ids[0]: IsrRequest(0, 1, ((1, -1), (2, two)))})
        assert grown[ids[0]] == PartitionState(0, 1, 0, (1, 2), (1, 2), 2)
        await first.delete_topic(ids[0].topic_id)
        outcome = (await first.alter_isrs({ids[0]: wishes[ids[0]]}))[ids[0]]
        assert outcome.code is ErrorCode.unknown_topic_id

    run_brokers(scenario)


def test_a_broker_that_was_born_again_does_not_come_in_for_its_predecessor(
    run_brokers: RunBrokers,
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        one, two = (first.image.brokers[each].epoch for each in (1, 2))
        await first.create_topic("t", [[1, 2]], {})
        await brokers.all_see("t", 0, isr=(1, 2))
        await brokers.end(2)
        await brokers.all_see("t", 0, isr=(1,))
        state, where = partition(first, "t"), id_of(first, "t")
        assert state is not None
        dead = await first.alter_isrs({where: wish(state, (1, one), (2, two))})
        assert dead[where].code is ErrorCode.ineligible_replica
        await brokers.start(2)
        await eventually(lambda: 2 in first.image.brokers)
        stale = await first.alter_isrs({where: wish(state, (1, one), (2, two))})
        assert stale[where].code is ErrorCode.ineligible_replica
        right = await first.alter_isrs(
            {where: wish(state, (1, one), (2, first.image.brokers[2].epoch))}
        )
        assert right[where].isr == (1, 2)

    run_brokers(scenario)


def test_a_broker_that_stops_hands_over(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second, third = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[2, 3, 1], [1, 2], [2]], {})
        await brokers.all_see("t", 2, leader=2)
        where, followed = id_of(second, "t", 0), id_of(second, "t", 1)
        await second.hand_over()
        assert partition(second, "t") == PartitionState(0, 3, 1, (2, 3, 1), (3, 1), 1)
        await brokers.all_see("t", 0, leader=3, isr=(3, 1), leader_epoch=1)
        await brokers.all_see("t", 1, leader=1, isr=(1,), leader_epoch=0)
        await brokers.all_see("t", 2, leader=2, isr=(2,), leader_epoch=0)
        # It still fetches, in the epoch that it has told.
        epoch = second.image.brokers[2].epoch
        for store, partition_id, index in ((third, where, 0), (first, followed, 1)):
            state = partition(store, "t", index)
            members = ((each, -1) for each in state.isr)
            taken = await store.alter_isrs({partition_id: wish(state, *members, (2, epoch))})
            assert taken[partition_id].code is ErrorCode.ineligible_replica
        await brokers.end(2)
        second = await brokers.start(2)
        await brokers.all_see("t", 2, leader=2, isr=(2,))

    run_brokers(scenario)


def test_a_leader_that_dies_is_replaced_by_one_in_sync(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[3, 2, 1], [1, 3], [3]], {})
        await brokers.all_see("t", 2, leader=3)
        await brokers.end(3)
        await brokers.all_see("t", 0, leader=2, isr=(2, 1), leader_epoch=1, partition_epoch=1)
        await brokers.all_see("t", 1, leader=1, isr=(1,), leader_epoch=0, partition_epoch=1)
        await brokers.all_see("t", 2, leader=NO_LEADER, isr=(3,), leader_epoch=1)
        for node_id in (1, 2):
            await eventually(lambda node_id=node_id: brokers.told_of(node_id) == [0, 1, 2])
        third = await brokers.start(3)
        await brokers.all_see("t", 2, leader=3, isr=(3,), leader_epoch=2)
        assert partition(third, "t").leader == 2

    run_brokers(scenario)


def test_leaders_go_back_to_where_they_are_preferred(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, third = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[2, 1], [2, 3], [1, 2], [3, 2]], {})
        await brokers.all_see("t", 3, leader=3)
        await brokers.end(2)
        await brokers.all_see("t", 0, leader=1, isr=(1,))
        await brokers.all_see("t", 1, leader=3, isr=(3,))
        await brokers.start(2)
        await eventually(lambda: all(2 in each.image.brokers for each in (first, third)))
        epoch = third.image.brokers[2].epoch
        state, where = partition(third, "t", 1), id_of(third, "t", 1)
        await third.alter_isrs({where: wish(state, (3, -1), (2, epoch))})
        await brokers.all_see("t", 1, isr=(3, 2))
        uneven = to_be_led_as_preferred(first.image.topics.values(), first.image.brokers, 10)
        assert to_end(uneven) == [where]  # the first is not in sync there yet
        assert list(await third.elect_leaders([where], is_unclean=False)) == [where]
        await brokers.all_see("t", 1, leader=2, isr=(3, 2), leader_epoch=2)
        outcomes = await first.elect_leaders(
            [id_of(first, "t", index) for index in range(3)], is_unclean=False
        )
        assert [each.code for each in outcomes.values()] == [
            ErrorCode.preferred_leader_not_available,
            ErrorCode.election_not_needed,
            ErrorCode.election_not_needed,
        ]

    run_brokers(scenario)


def test_taking_it_back_and_what_is_refused(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[1]], {})
        await brokers.all_see("t", 0, leader=1)
        assert await reassign(second, "t", None) == [ErrorCode.no_reassignment_in_progress]
        assert await reassign(second, "t", (1, 9)) == [ErrorCode.invalid_replica_assignment]
        assert await reassign(second, "t", ()) == [ErrorCode.invalid_replica_assignment]
        assert await reassign(second, "t", (1, 2), may_change_factor=False) == [
            ErrorCode.invalid_replication_factor
        ]
        nowhere = PartitionId(first.image.topics["t"].topic_id, 7)
        (unknown,) = (await first.reassign({nowhere: (1,)})).values()
        assert unknown.code is ErrorCode.unknown_topic_id
        before = partition(second, "t")
        assert await reassign(second, "t", (1,)) == [before]
        await reassign(second, "t", (2,))
        await reassign(first, "t", None)
        await brokers.all_see("t", 0, replicas=(1,), adding=(), removing=(), leader_epoch=1)

    run_brokers(scenario)


def test_elections(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[2, 1], [2]], {})
        await brokers.all_see("t", 1, leader=2)
        await brokers.end(2)
        await brokers.all_see("t", 0, leader=1, isr=(1,))
        await brokers.all_see("t", 1, leader=NO_LEADER)
        ids = [id_of(first, "t", index) for index in (0, 1)]
        found = await first.elect_leaders(ids, is_unclean=True)
        assert [found[each].code for each in ids] == [
            ErrorCode.election_not_needed,
            ErrorCode.eligible_leaders_not_available,
        ]
        second = await brokers.start(2)
        await brokers.all_see("t", 1, leader=2)
        found = await second.elect_leaders(ids, is_unclean=False)
        assert found[ids[0]].code is ErrorCode.preferred_leader_not_available
        epoch = second.image.brokers[2].epoch
        await grow(first, "t", (1, -1), (2, epoch))
        found = await second.elect_leaders(ids[:1], is_unclean=False)
        assert found[ids[0]].leader == 2
        await brokers.all_see("t", 0, leader=2, isr=(1, 2))

    run_brokers(scenario)


def test_a_broker_leaves_some_isrs(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        await first.create_topic("t", [[2, 1], [1, 2], [2], [2, 1]], {})
        await brokers.all_see("t", 3, leader=2)
        await second.leave_isrs([id_of(second, "t", index) for index in range(3)])
        await brokers.all_see("t", 0, leader=1, isr=(1,), leader_epoch=1)
        await brokers.all_see("t", 1, leader=1, isr=(1,), leader_epoch=0)
        await brokers.all_see("t", 2, leader=2, isr=(2,), leader_epoch=0)
        await brokers.all_see("t", 3, leader=2, isr=(2, 1), leader_epoch=0)

    run_brokers(scenario)


def test_an_isr_that_was_asked_for_before_another_has_changed_it(run_brokers: RunBrokers) -> None:
    """A log dir failed, in the same broker epoch: only the partition epoch tells of it."""

    async def scenario(brokers: Brokers) -> None:
        first, second, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1, 2, 3]], {})
        await brokers.all_see("t", 0, leader=1)
        state, where = partition(first, "t"), id_of(first, "t")
        assert state is not None
        await second.leave_isrs([where])
        known = {each: first.image.brokers[each].epoch for each in (1, 2)}
        late = await first.alter_isrs({where: wish(state, *known.items())})
        assert late[where].code is ErrorCode.invalid_update_version
        await brokers.all_see("t", 0, isr=(1, 3))

    run_brokers(scenario)


def test_a_reassignment_completes_once_all_are_in_sync(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1]], {})
        await brokers.all_see("t", 0, leader=1)
        await reassign(first, "t", (2, 3))
        await brokers.all_see("t", 0, replicas=(2, 3, 1), adding=(2, 3), removing=(1,), isr=(1,))
        epochs = {each: first.image.brokers[each].epoch for each in (2, 3)}
        await grow(first, "t", (1, -1), (2, epochs[2]))
        await brokers.all_see("t", 0, replicas=(2, 3, 1), isr=(1, 2))
        await grow(first, "t", (1, -1), (2, epochs[2]), (3, epochs[3]))
        await brokers.all_see("t", 0, replicas=(2, 3), adding=(), removing=(), isr=(2, 3), leader=2)

    run_brokers(scenario)


def test_only_a_broker_that_is_known_and_gone_is_forgotten(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _ = await brokers.start_all(1, 2)
        codes = []
        for node_id in (2, 9):
            with pytest.raises(KafkaError) as caught:
                await first.unregister_broker(node_id)
            codes.append(caught.value.code)
        assert codes == [ErrorCode.invalid_request, ErrorCode.broker_id_not_registered]

    run_brokers(scenario)


# -- who may lead besides the ISR ----------------------------------------------------------------


def found(end_offset: int, epoch: int = 0) -> Returned:
    return Returned(LogEnd(epoch, end_offset))


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("lost", [Returned(NO_LOG), Returned(LogEnd(0, 100), is_copy=True)])
def test_a_power_cut_and_a_disk_that_is_lost(
    run_brokers: RunBrokers, lost: Returned, is_first: bool
) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, _, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1, 2, 3]], {"min.insync.replicas": "2"})
        await brokers.all_see("t", 0, leader=1)
        await brokers.cut_power()
        if is_first:
            await brokers.start(1, was_clean=False, found=lost)
            await brokers.all_see("t", 0, leader=NO_LEADER)
        await brokers.start(2, was_clean=False, found=found(1000))
        await brokers.all_see("t", 0, leader=NO_LEADER)
        await brokers.start(3, was_clean=False, found=found(1001))
        await brokers.all_see("t", 0, leader=3, isr=(3,))
        if not is_first:
            await brokers.start(1, was_clean=False, found=lost)
        await brokers.all_see("t", 0, leader=3, isr=(3,), elr=())
        state = partition(brokers.stores[3], "t")
        assert state is not None
        assert [each.node_id for each in state.last_known if each.was_complete] == [2]
        epochs = [(each, brokers.stores[3].image.brokers[each].epoch) for each in (3, 2)]
        await grow(brokers.stores[3], "t", *epochs)
        await brokers.all_see("t", 0, leader=3, isr=(3, 2), last_known=())

    run_brokers(scenario)


def test_who_leaves_is_eligible_while_too_few_are_in_sync(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second, _ = await brokers.start_all(1, 2, 3)
        await first.create_topic("t", [[1, 2]], {"min.insync.replicas": "2"})
        await brokers.all_see("t", 0, leader=1)
        await second.hand_over()
        await brokers.all_see("t", 0, leader=1, isr=(1,), elr=(2,))
        await brokers.end(2)
        await first.alter_configs(
            Resource(ResourceType.TOPIC, "t"), lambda _: {"min.insync.replicas": "1"}
        )
        await brokers.all_see("t", 0, leader=1, isr=(1,), elr=())  # what comes now it lacks

    run_brokers(scenario)


def test_the_epoch_of_a_broker_outlives_its_process(run_brokers: RunBrokers) -> None:
    async def scenario(brokers: Brokers) -> None:
        first, second = await brokers.start_all(1, 2)
        assert (first.last_broker_epoch, second.last_broker_epoch) == (None, None)
        before = first.broker_epoch
        assert before == first.image.brokers[1].epoch
        await first.hand_over()
        assert first.broker_epoch > before
        last = first.broker_epoch
        await brokers.end(1)
        first = await brokers.start(1)
        assert first.last_broker_epoch == last
        assert first.broker_epoch > last

    run_brokers(scenario)
