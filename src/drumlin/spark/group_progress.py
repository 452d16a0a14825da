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
    from drumlin.spark.options import SourceOptions

_logger = logging.getLogger(__name__)

#: How long a query that may be about to end waits for a commit.
_PATIENCE_S: Final = 5.0
#: Offsets are forgotten if they are not committed for long, also while nothing comes in.
_RENEWED_AFTER_S: Final = 3600.0
_TRIED_AGAIN_AFTER_S: Final = 10.0


class GroupProgress:
    """What one query's group has been told. Without a group it does nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._group = options.progress_group
        self._is_checked = False
        self._told: dict[TopicPartition, int] = {}
        self._due_at = 0.0  # when to commit though nothing has changed
        self._committing: Future[None] | None = None
        self._has_failed = False
        self._complaint = ""

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
            self._finish(0)
            self._begin(self._group, dict(done))
        if may_end:
            self._finish(_PATIENCE_S)

    def _begin(self, group: str, done: dict[TopicPartition, int]) -> None:
        if time.monotonic() < self._due_at and (self._has_failed or done == self._told):
            return
        self._told, self._due_at = done, time.monotonic() + _RENEWED_AFTER_S
        places = {(key.topic, key.partition): offset for key, offset in done.items()}
        try:
            self._committing = client_of(self._options).commit_offsets(group, places)
        except Exception as error:  # noqa: BLE001 - no trouble with a group fails a query
            self._complain(error)

    def _finish(self, timeout_s: float) -> None:
        """Wait for the commit that is under way, and see what became of it."""
        if self._committing is None:
            return
        try:
            self._committing.result(timeout_s)
        except Exception as error:  # noqa: BLE001 - likewise
            self._committing.cancel()  # lest it overtakes the next
            self._complain(error)
        else:
            self._has_failed = False
        self._committing = None

    def _complain(self, error: Exception) -> None:
        """Once for each reason, however often it fails; and try again after a while."""
        self._has_failed = True
        self._due_at = time.monotonic() + _TRIED_AGAIN_AFTER_S
        complaint = f"offsets were not committed to group {self._group!r}: {error!r}"
        if complaint != self._complaint:
            _logger.warning("%s", complaint)
        self._complaint = complaint

    def _check(self, group: str) -> None:
        try:
            found = client_of(self._options).describe_group(group)
        except Exception as error:  # noqa: BLE001 - likewise
            _logger.warning("group %r cannot be looked at, and may have members: %s", group, error)
            return
        if not found.is_at_rest:
            raise OptionError(
                f"option 'commitOffsetsToGroup': group {group!r} is in use (a {found.type} group, "
                f"{found.state}, with {len(found.members)} members): name one that is not"
            )
