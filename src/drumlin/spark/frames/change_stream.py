"""The changes of a topic's values as a stream: `drumlin.spark.changes(…, stream=True)`.

Spark keeps the last value of each key in its state store. A query's checkpoint commits the state
together with the offsets, so after any crash each change has the correct previous value.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from drumlin.spark.options.option_values import OptionError

if TYPE_CHECKING:  # too costly for a session that only looks for data sources
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, GroupedData, SparkSession

    from drumlin.spark.options.offsets import OffsetLimit
    from drumlin.spark.state.moment import Moment

_STORE: Final = "spark.sql.streaming.stateStore.providerClass"
_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_KEY: Final = ("partition", "key")


def change_stream(
    spark: SparkSession, topic: str, since: Moment, bootstrap: str, options: Mapping[str, object]
) -> DataFrame:
    """Every change of a key's value from a moment on.

    Raises:
        OptionError: the options are invalid, or the state store is not RocksDB.
        DataLoss: `since` lies after the end of the log.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from drumlin.spark.options.keyword_options import read_options
    from drumlin.spark.state.change_processor import ChangeProcessor
    from drumlin.spark.state.change_rows import CHANGES, ENTRY_COLUMNS
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import stream_options, without_state_options

    ours = {**options, "columns": ENTRY_COLUMNS}
    given = stream_options(read_options(topic, bootstrap, ours, "state"))
    if spark.conf.get(_STORE) != _ROCKS_DB:
        raise OptionError(
            f"changes of a stream keep their state in RocksDB: set {_STORE} to {_ROCKS_DB}"
        )
    starting, values = "earliest", None
    if since is not None:
        starting, values = _values_at(spark, given, limit_of(since, topic, "since"))
    source = {**without_state_options(given), "startingoffsets": starting}
    records = spark.readStream.format("drumlin").options(**source).load()
    keyed = records.where("key IS NOT NULL").groupBy(*_KEY)
    schema = from_arrow_schema(CHANGES)
    return keyed.transformWithState(ChangeProcessor(), schema, "Append", "None", values)


def _values_at(
    spark: SparkSession, options: Mapping[str, str], moment: OffsetLimit
) -> tuple[str, GroupedData]:
    """The offsets of a moment, as the value of an option, and all keys' values at that moment."""
    from drumlin.client.errors import StateNotExact
    from drumlin.spark.frames.snapshot import snapshot_of
    from drumlin.spark.options.offsets import to_json
    from drumlin.spark.planning.data_loss import DataLoss
    from drumlin.spark.state.options import StateOptions, without_stream_options
    from drumlin.spark.state.plan import plan_refusal, plan_state

    asked = StateOptions.parse(without_stream_options(options)).with_columns((*_KEY, "value"))
    try:
        plan = plan_state(asked, moment)
    except (StateNotExact, DataLoss) as error:
        # A query that has a checkpoint no longer needs these values. A new query fails on them.
        plan = plan_refusal(asked, moment, str(error))
    return json.dumps(to_json(plan.end)), snapshot_of(spark, asked, plan).groupBy(*_KEY)
