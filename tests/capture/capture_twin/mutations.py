"""Seeded faults: edits of the capture's source, each of which the twin must find."""

from __future__ import annotations

from drumlin.capture import change_columns, changes
from drumlin.capture.running import (
    beginning,
    following,
    pace,
    reading,
    session,
    snapshot_run,
    watching,
)
from spark.sink_twin.mutations import Mutation

MUTATIONS: dict[str, Mutation] = {
    "an LSN is confirmed before its commit": Mutation(
        following,
        "Following._commit",
        "self._output.commit(reached, definition)",
        "self._stream.confirm(pace.taken_lsn); self._output.commit(reached, definition)",
    ),
    "what was taken is confirmed": Mutation(
        following, "Following._show_alive", "committed_lsn", "taken_lsn"
    ),
    "a transaction is committed in parts": Mutation(
        following,
        "Following._go_on",
        "    if self._changes.in_transaction:\n        return\n",
        "",
    ),
    "what is sent again is written again": Mutation(
        changes,
        "Changes._take_begin",
        "begin.commit_lsn < self.end_lsn",
        "False",
    ),
    "where one transaction ends, the next one is past": Mutation(
        changes,
        "Changes._take_begin",
        "begin.commit_lsn < self.end_lsn",
        "begin.commit_lsn <= self.end_lsn",
    ),
    "a transaction ends where its commit begins": Mutation(
        changes, "Changes._take_commit", "commit.end_lsn", "commit.commit_lsn"
    ),
    "a keepalive within a transaction counts": Mutation(
        following,
        "Following._follow",
        "            if not changes.in_transaction:\n                pace.heard(frame.end_lsn)",
        "            pace.heard(frame.end_lsn + 1)",
    ),
    "a slot that others have advanced is good": Mutation(
        beginning, "beginning", "if confirmed > lsn:", "if False:"
    ),
    "LSNs of two timelines are compared": Mutation(
        beginning, "has_changed_timeline", "position is not None", "False"
    ),
    "a promoted server has all that the topics have": Mutation(
        beginning, "_common_lsn", "if lsn <= end:", "if True:"
    ),
    "changes of other tables count after a promotion": Mutation(
        beginning, "_common_lsn", "if changed_lsn <= end:", "if False:"
    ),
    "the last change is forgotten": Mutation(
        pace, "Pace.took", "self.taken_lsn = self.changed_lsn =", "self.taken_lsn ="
    ),
    "a slot that is advanced before the stream begins is not noticed": Mutation(
        session, "Session._check_slot", "raise BeginAgain", "pass"
    ),
    "a slot of an interrupted snapshot is used again": Mutation(
        session, "Session._go_with", "if begin.drops_slot:", "if False:"
    ),
    "the snapshot leaves rows that are gone": Mutation(
        snapshot_run,
        "SnapshotRun._take_table",
        "        if rows.keeps(topic):\n            for key",
        "        if False:\n            for key",
    ),
    "the snapshot writes what is there": Mutation(
        snapshot_run, "SnapshotRun._take_table", "if before == value:", "if False:"
    ),
    "a chunk is written before the stream has passed it": Mutation(
        following,
        "Following._read_on",
        "if pace.taken_lsn < reading.high_lsn:",
        "if False:",
    ),
    "rows of a chunk are written over newer ones": Mutation(
        reading, "Reading.changed", "self._held.pop(key, None)", "pass"
    ),
    "keys that are in no chunk are not deleted": Mutation(
        reading, "Reading.take", "for key in self._rows.keys(_UNSEEN):", "for key in ():"
    ),
    "a table that is being read counts as read": Mutation(
        watching,
        "with_topics",
        "is_read = each.is_read and each.topic_id is None",
        "is_read = True",
    ),
    "a deleted topic is filled with changes alone": Mutation(
        watching,
        "with_topics",
        "is_read = each.is_read and each.topic_id is None",
        "is_read = each.is_read",
    ),
    "rows that the topic has not are replaced by nothing": Mutation(
        changes,
        "Changes._updated",
        "if not self._rows.keeps(table.topic):",
        "if False:",
    ),
    "what is sent again is written again as columns": Mutation(
        change_columns, "_Run._note", "first == last or self._changes.is_past", "first == last"
    ),
    "rows that are kept are not told of columns": Mutation(
        changes, "Changes.plain_table", "or self._rows.keeps(table.topic)", ""
    ),
    "rows that are taken back are not taken again": Mutation(
        change_columns, "ChangeColumns.take", "self._changes.go_back(mark)", "pass"
    ),
    "a changed key leaves the old row": Mutation(
        changes,
        "Changes._updated",
        "        yield gone\n        yield Record(",
        "        yield Record(",
    ),
}

#: Where each is found soonest, if not at once; others are tried if that is true no more.
FOUND_BY: dict[str, int] = {
    "rows that the topic has not are replaced by nothing": 7,
    "where one transaction ends, the next one is past": 1,
    "what is sent again is written again": 16,
    "a keepalive within a transaction counts": 2,
    "a slot that others have advanced is good": 1,
    "LSNs of two timelines are compared": 409,
    "a promoted server has all that the topics have": 130,
    "changes of other tables count after a promotion": 592,
    "the last change is forgotten": 74,
    "a slot that is advanced before the stream begins is not noticed": 166,
    "a slot of an interrupted snapshot is used again": 2,
    "the snapshot leaves rows that are gone": 1,
    "the snapshot writes what is there": 2,
    "rows of a chunk are written over newer ones": 32,
    "keys that are in no chunk are not deleted": 4,
    "what is sent again is written again as columns": 510,
    "rows that are kept are not told of columns": 18,
    "rows that are taken back are not taken again": 11,
    "a changed key leaves the old row": 11,
}
