"""`commitOffsetsToGroup`: how far a stream has come, where tools look for it.

Spark keeps a query's offsets in its checkpoint, which no monitoring of a cluster sees. So they are
committed to a consumer group as well, from outside, without a member. The group is told, never
asked: nothing is read from it, and no trouble with it fails the query or holds it up for long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from drumlin.spark.cluster import client_of
from drumlin.spark.offsets import TopicPartition
from drumlin.spark.option_values import OptionError

if TYPE_CHECKING:
    from drumlin.client.group_admin import GroupDescription
    from drumlin.spark.options import SourceOptions

_logger = logging.getLogger(__name__)

#: How long a query that is about to end waits for its last commit, and a new one for the check.
_PATIENCE_S: Final = 5.0
#: Offsets are forgotten if they are not committed for long, also while nothing comes in.
_RENEWED_AFTER_S: Final = 3600.0

_Committing = Future[None]


class GroupProgress:
    """What one query's group has been told. Without a group it does nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._group = options.progress_group
        self._is_checked = False
        self._told: dict[TopicPartition, int] = {}  # or is just being told
        self._told_at = 0.0
        self._committing: _Committing | None = None

    def tell(self, done: Mapping[TopicPartition, int], *, may_end: bool) -> None:
        """Everything before these offsets has been through the query.

        Commits in the background, one commit at a time: what comes meanwhile is in the next one.
        Where the query may end after this, waits for it, within bounds.

        Raises:
            OptionError: the group has members, at the first call.
        """
        if self._group is None or not done:
            return
        if not self._is_checked:
            self._check(self._group)
            self._is_checked = True
        if self._committing is None or self._committing.done():
            self._commit(self._group, dict(done))
        if may_end and self._committing is not None:
            _ended_well(self._committing, self._group)

    def _commit(self, group: str, done: dict[TopicPartition, int]) -> None:
        if self._committing is not None and not _ended_well(self._committing, group):
            self._told = {}
        self._committing = None
        if done == self._told and time.monotonic() - self._told_at < _RENEWED_AFTER_S:
            return
        self._told, self._told_at = done, time.monotonic()
        try:
            places = {(key.topic, key.partition): offset for key, offset in done.items()}
            self._committing = client_of(self._options).commit_for_group(group, places)
        except Exception as error:  # noqa: BLE001 - no trouble with a group fails a query
            _logger.warning("offsets are not committed to group %r: %s", group, error)
            self._told = {}

    def _check(self, group: str) -> None:
        try:
            found: GroupDescription = (
                client_of(self._options).describe_group(group).result(_PATIENCE_S)
            )
        except Exception as error:  # noqa: BLE001 - likewise
            _logger.warning("group %r cannot be looked at, and may have members: %s", group, error)
            return
        if not found.is_at_rest:
            raise OptionError(
                f"option 'commitOffsetsToGroup': group {group!r} is in use (a {found.type} group, "
                f"{found.state}, with {len(found.members)} members): take a name of its own"
            )


def _ended_well(committing: _Committing, group: str) -> bool:
    try:
        committing.result(_PATIENCE_S)
    except Exception as error:  # noqa: BLE001 - a later commit makes up for it
        _logger.warning("offsets were not committed to group %r: %s", group, error)
        return False
    return True
