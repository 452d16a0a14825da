"""The sink of a query: every run that has changes writes the sink's next batch.

The sink's name is derived from the topic's id, so it is the same for all runs, on any machine. A
run takes its batch number before it reads the topic. Of two runs that have read the same state,
only one can commit that number, so no run writes changes based on an outdated state.
"""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from drumlin.spark.frames.query_errors import QueryOvertaken
from drumlin.spark.options.option_names import kept_for
from drumlin.spark.writing.foreach_batch import save
from drumlin.spark.writing.options import SinkOptions
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol import names, refusals
from drumlin.spark.writing.protocol.sink_errors import (
    DecisionUnknown,
    Fenced,
    RequestFailed,
    SinkError,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from drumlin.client.client import Client
    from drumlin.spark.writing.protocol.state import SinkState

_QUERY: Final = "capture-query"
#: Settled transactions become visible within moments; those of other producers may take longer.
_STABLE_WITHIN_S: Final = 60
_PAUSE_S: Final = 0.02


class QuerySink:
    """The writes of a query's runs into one topic."""

    def __init__(
        self, client: Client, options: Mapping[str, str], topic: str, topic_id: str | None
    ) -> None:
        """`options` are the user's, with names in lower case."""
        self._client = client
        self._topic = topic
        # Without a topic id, a digest of the topic's name, which may be too long for a sink name.
        digest = hashlib.sha256(topic.encode()).hexdigest()[:32]
        self._name = f"query.{topic_id or digest}"
        self._options = kept_for(options, "sink") | {"topic": topic, "sinkid": self._name}
        self._settings = SinkOptions.parse(self._options).settings

    def settle(self) -> int:
        """End the transactions of earlier runs, and wait for visibility; returns the next batch id.

        Decided transactions are committed. All others are aborted: if their run is still alive, it
        fails.

        Raises:
            QueryOvertaken: another run has begun at the same moment.
            SinkError: the cluster does not respond; or another producer's transaction stays open.
        """
        from drumlin.spark.writing.protocol.abort_steps import abort_sink

        performer = Performer(self._client)
        try:
            performer.run(abort_sink(self._name, self._settings, may_lack_rows=True))
        except (Fenced, DecisionUnknown) as error:
            if not isinstance(error, Fenced) and not isinstance(error.__cause__, Fenced):
                raise
            raise QueryOvertaken(
                f"another run of the query of topic {self._topic!r} has begun at the same moment: "
                "this one has changed nothing"
            ) from error
        finally:
            performer.close()
        state = self._state()
        self._wait_until_visible()
        return 0 if state is None else state.next_batch

    def write(self, rows: DataFrame, batch: int) -> None:
        """Write the rows as the batch with this number.

        Raises:
            QueryOvertaken: another run has committed this batch number, or has aborted this run.
        """
        run = uuid.uuid4().hex
        numbered = json.dumps([_QUERY, batch, run])
        try:
            save(rows, self._options | {"numberedbatch": numbered})
        except Exception as error:
            overtaken = self._overtaken(batch, run)
            if overtaken is None:
                raise
            raise QueryOvertaken(overtaken) from error

    def _overtaken(self, batch: int, run: str) -> str | None:
        try:
            state = self._state()
        except SinkError:  # the write's own error has more details
            return None
        if state is None:
            return None
        who = f"another run of the query of topic {self._topic!r}"
        if state.batch is not None and state.batch >= batch:
            if state.batch > batch or state.run == names.run_name(run):
                return None  # this run's changes may have been committed
            return f"{who} has written changes of its own; this one has changed nothing"
        if any(each.endswith(refusals.of_run("", run)) for each in state.refused):
            return f"{who} has begun, and has fenced this one, which has changed nothing"
        return None

    def _state(self) -> SinkState | None:
        from drumlin.spark.writing.protocol.decisions import last_state

        return Performer(self._client).run(last_state(self._name, self._settings))

    def _wait_until_visible(self) -> None:
        """Wait until readers of committed records see all records written so far.

        A transaction that was committed a moment ago may still be invisible: brokers write its
        markers after their response.
        """
        ends = self._client.offsets(self._topic)
        until = time.monotonic() + _STABLE_WITHIN_S
        while time.monotonic() < until:
            stable = self._client.offsets(self._topic, isolation="read_committed")
            if all(stable.get(partition, 0) >= end for partition, end in ends.items()):
                return
            time.sleep(_PAUSE_S)
        raise RequestFailed(
            f"topic {self._topic!r}: an open transaction hides what was written after it; "
            "`drumlin transactions list` shows whose it is"
        )
