"""A member of a group that notes what it commits, and waits for each commit to be answered."""

from __future__ import annotations

from typing import Any

from confluent_kafka import Consumer, KafkaException

from guarantees.clients import is_passing
from guarantees.torture.readers import SubscribedReader
from guarantees.torture.records import partition_name


class GroupMember(SubscribedReader):
    """Like `SubscribedReader`."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._recorder.member(self.name, self._group)

    def _commit(self, consumer: Consumer) -> None:
        positions = [each for each in consumer.position(consumer.assignment()) if each.offset >= 0]
        if not positions:
            return
        named = {partition_name(each.topic, each.partition): each.offset for each in positions}
        self._recorder.committing(self.name, named)
        try:
            answers = consumer.commit(offsets=positions, asynchronous=False)
        except KafkaException as failure:
            if not is_passing(failure.args[0]):
                raise
            return
        if all(each.error is None for each in answers):
            self._recorder.committed(self.name)
