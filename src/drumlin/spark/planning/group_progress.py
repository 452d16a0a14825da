"""`commitOffsetsToGroup`: commits a stream's progress to a group, for monitoring tools.

Spark keeps a query's offsets in its checkpoint, which tools for Kafka do not see. So they are
committed to a consumer group as well, as an admin client does, without a member. The query never
reads offsets from the group, and a failed commit neither fails the query nor delays it for long.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

from drumlin.spark.connection import client_of
from drumlin.spark.options.offsets import TopicPartition
from drumlin.spark.options.option_values import OptionError
from drumlin.spark.options.options import SourceOptions

_logger = logging.getLogger(__name__)

#: How long a query that may be about to end waits for a commit.
_PATIENCE_S: Final = 5.0
#: A group's offsets expire if they are not committed for long, even while no records arrive.
_RENEWED_AFTER_S: Final = 3600.0
_TRIED_AGAIN_AFTER_S: Final = 10.0


class GroupProgress:
    """Commits one query's progress to its group. Without a group it does nothing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._group = options.progress_group
        self._is_checked = False
        self._told: dict[TopicPartition, int] = {}
        self._due_at = 0.0  # when to commit even if nothing has changed
        self._committing: Future[None] | None = None
        self._has_failed = False
        self._complaint = ""

    def report(self, done: Mapping[TopicPartition, int], *, may_end: bool) -> None:
        """Commit that the query has processed everything before these offsets.

        Commits in the background, one commit at a time: progress in between goes into the next
        one. With `may_end` the query may end after this, so the call waits, within bounds.

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
        try:
            self._committing = client_of(self._options).commit_offsets_async(group, done)
        except Exception as error:  # noqa: BLE001 - no trouble with a group fails a query
            self._complain(error)

    def _finish(self, timeout_s: float) -> None:
        """Wait for the commit in progress, and note whether it has failed."""
        if self._committing is None:
            return
        try:
            self._committing.result(timeout_s)
        except Exception as error:  # noqa: BLE001 - likewise
            self._committing.cancel()  # so that it cannot be applied after the next one
            self._complain(error)
        else:
            self._has_failed = False
        self._committing = None

    def _complain(self, error: Exception) -> None:
        """Log each reason once, however often it recurs, and schedule another attempt."""
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
            _logger.warning("group %r cannot be described, and may have members: %s", group, error)
            return
        if not found.is_at_rest:
            raise OptionError(
                f"option 'commitOffsetsToGroup': group {group!r} is in use (a {found.type} group, "
                f"{found.state}, with {len(found.members)} members): name another one"
            )
