"""Writes the rows of a restore with the batch sink, and ends the transactions of earlier jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from drumlin.spark.options.option_names import kept_for
from drumlin.spark.writing.foreach_batch import save
from drumlin.spark.writing.identity import WriteNames, of_write
from drumlin.spark.writing.options import SinkOptions
from drumlin.spark.writing.performer import Performer
from drumlin.spark.writing.protocol.sink_errors import WinnersLost

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from drumlin.client.client import Client
    from drumlin.lowlevel import RestoreTarget

#: The outcome of earlier jobs. "lost": the commit was decided, but the transactions have timed out;
#: only the sink can write their rows again.
Settled: TypeAlias = Literal["nothing", "written", "lost"]


class RestoreSink:
    """One named write into one topic."""

    def __init__(
        self, client: Client, options: Mapping[str, str], target: RestoreTarget, write_id: str
    ) -> None:
        """`options` are the user's, with names in lower case."""
        self._client = client
        decided = {"topic": target.name, "writeid": write_id, "writetimestamps": "true"}
        self._options = kept_for(options, "sink") | decided
        parsed = SinkOptions.parse(self._options)
        self._options["kafka.batch.size"] = str(target.batch_bytes(parsed.batch_bytes))
        self._settings = parsed.settings
        self._name = of_write(WriteNames(target.name, None, write_id, ""), lambda _: None).sink

    def settle(self) -> Settled:
        """Commit decided transactions and abort others; if their job still runs, it fails."""
        from drumlin.spark.writing.protocol.abort_steps import abort_sink
        from drumlin.spark.writing.protocol.decisions import last_state

        performer = Performer(self._client)
        try:
            performer.run(abort_sink(self._name, self._settings))
            state = performer.run(last_state(self._name, self._settings))
        except WinnersLost:
            return "lost"
        finally:
            performer.close()
        return "nothing" if state is None or state.batch is None else "written"

    def write(self, rows: DataFrame) -> int:
        """Write the rows once; returns their number when all are committed."""
        from pyspark.sql import Observation
        from pyspark.sql.functions import count, lit

        seen = Observation()
        counted = rows.observe(seen, count(lit(1)).alias("rows"))
        save(counted, self._options)
        return int(seen.get["rows"])
