"""Checks that the inputs and the changelog are still the same topics as when the processor began.

Records are fetched by the topic's name, so nothing else shows that a topic was recreated, or that
it has more partitions, so that keys are in other partitions than their state. Each commit checks.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from drumlin.client.errors import CommitFailed, UnknownTopic
from drumlin.state.refused import StateRefused

if TYPE_CHECKING:
    from drumlin.client.client import Client
    from drumlin.state.changelog import Changelog

NewPartitions = Literal["refuse", "follow"]
#: The time between two checks of the changelog's cleanup policy.
_CONFIG_S: Final = 30.0


class Topics:
    """The inputs and the changelog of one processor."""

    def __init__(
        self,
        client: Client,
        inputs: Sequence[str],
        changelog: Changelog,
        new_partitions: NewPartitions,
    ) -> None:
        """
        Raises:
            UnknownTopic: one of the topics does not exist.
        """
        self._client = client
        self._inputs = inputs
        self._changelog = changelog
        self._follows = new_partitions == "follow"
        found = client.describe_topics([*inputs, changelog.topic])
        #: The id of each topic; empty: the cluster has no topic ids.
        self._ids = {name: each.topic_id or "" for name, each in found.items()}
        self._count = len(found[inputs[0]].partitions)
        self._config_at = time.monotonic()

    def input_id(self, topic: str) -> str:
        """The id of an input; empty: the cluster has no topic ids."""
        return self._ids[topic]

    def check(self) -> None:
        """Check that all topics are unchanged; with "follow" the changelog grows with the input.

        Raises:
            StateRefused: a topic has changed.
            CommitFailed: a topic does not exist at the moment.
        """
        try:
            found = self._client.describe_topics([*self._inputs, self._changelog.topic])
        except UnknownTopic as error:
            raise CommitFailed(f"not committed: {error}") from error
        for name, each in found.items():
            if (each.topic_id or "") != self._ids[name]:
                raise StateRefused(
                    f"topic {name!r} was deleted and created again: its offsets are others now. To "
                    "start over, delete the group's offsets and the changelog "
                    f"{self._changelog.topic!r}"
                )
        grown = [each for each in self._inputs if len(found[each].partitions) > self._count]
        if grown:
            count = len(found[grown[0]].partitions)
            self._grow(grown[0], count, len(found[self._changelog.topic].partitions))
        if time.monotonic() > self._config_at + _CONFIG_S:
            self._changelog.check_policy()
            self._config_at = time.monotonic()

    def _grow(self, topic: str, count: int, has: int) -> None:
        if not self._follows:
            raise StateRefused(
                f"input {topic!r} has {count} partitions now, and had {self._count}: keys "
                "may be in others than their state. With new_partitions='follow' the state "
                "goes on, if that does no harm, as when each key stays where it is"
            )
        if count > has:
            self._changelog.grow(count)
        self._count = count
