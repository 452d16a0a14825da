"""What is believed of what others say of themselves, and what is not, or not yet."""

from __future__ import annotations

from uuid import uuid4

from drumlin.metadata.image import BrokerState, ClusterImage, PartitionState, TopicState
from drumlin.metadata.names import TRANSACTION_STATE
from drumlin.metadata.rules.claims import is_process, may_coordinate, may_lead

_TOPIC_ID = uuid4()


def image(*leader_epochs: int) -> ClusterImage:
    """With brokers 1 and 2, and a topic of transactions whose partitions are in these epochs."""
    found = ClusterImage("cluster")
    found.put_broker(BrokerState(1, None, (), 4))
    found.put_broker(BrokerState(2, None, (), 0))
    if leader_epochs:
        states = [PartitionState(at, 1, each, (1,), (1,)) for at, each in enumerate(leader_epochs)]
        found.put_topic(TopicState(TRANSACTION_STATE, _TOPIC_ID, tuple(states)))
    return found


def test_a_broker_is_the_process_that_is_registered() -> None:
    believed = [(each, epoch) for each in (1, 2, 3) for epoch in range(-1, 6)]
    assert [each for each in believed if is_process(image(), *each)] == [(1, 4), (2, 0)]


def test_a_coordinator_is_in_an_epoch_of_some_partition_of_transactions() -> None:
    assert [each for each in range(-1, 9) if may_coordinate(image(0, 5, 2), each)] == [
        *range(-1, 6)
    ]
    assert [each for each in range(-1, 9) if may_coordinate(image(), each)] == [-1, 0]


def test_a_partition_is_led_in_no_later_epoch_than_is_known() -> None:
    known = image(0, 5)
    assert [each for each in range(-1, 9) if may_lead(known, _TOPIC_ID, 1, each)] == [*range(-1, 6)]
    assert may_lead(known, _TOPIC_ID, 7, 9)  # there is no such partition, which is said elsewhere
    assert may_lead(known, uuid4(), 0, 9)
