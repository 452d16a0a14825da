"""`drumlin.spark.read_changes`: the changes of a topic's values as a stream.

Spark keeps the last value of each key in its state store. A query's checkpoint commits the state
along with the offsets: so whatever dies, each change is made of the value that was there before.
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


def read_changes(
    spark: SparkSession,
    topic: str,
    *,
    bootstrap_servers: str,
    since: Moment = None,
    **options: object,
) -> DataFrame:
    """Every change of a key's value, as a streaming DataFrame with the columns of `changes`.

    The session must keep state in RocksDB: set `spark.sql.streaming.stateStore.providerClass` to
    `org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider`. The changes of a key
    come in offset order.

    Args:
        topic: the name of one topic.
        since: where a new query begins, in the forms of `snapshot`'s `at`; the values of that
            moment are what its first changes find. None: with the log, and with no values. A query
            that has a checkpoint goes on from there; one that died in its first batch must be given
            the same moment again, so `latest` may be refused then.
        options: those of `format("drumlin")` for streams, but for those that say what to read.

    Raises:
        OptionError: the options are invalid, or state is kept elsewhere.
        DataLoss: `since` lies after the end of the log. Running a new query raises it, or
            `StateNotExact`, where the values of that moment can't be had any more.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    from drumlin.spark.options.keyword_options import as_text
    from drumlin.spark.state.change_processor import ChangeProcessor
    from drumlin.spark.state.change_rows import CHANGES, ENTRY_COLUMNS
    from drumlin.spark.state.moment import limit_of
    from drumlin.spark.state.options import stream_options

    if spark.conf.get(_STORE) != _ROCKS_DB:
        raise OptionError(f"read_changes keeps its state in RocksDB: set {_STORE} to {_ROCKS_DB}")
    ours = {"columns": ENTRY_COLUMNS}
    given = stream_options(as_text(topic, bootstrap_servers, {**options, **ours}))
    starting, values = "earliest", None
    if since is not None:
        starting, values = _values_at(spark, given, limit_of(since, topic, "since"))
    source = {**given, "startingoffsets": starting}
    records = spark.readStream.format("drumlin").options(**source).load()
    keyed = records.where("key IS NOT NULL").groupBy(*_KEY)
    schema = from_arrow_schema(CHANGES)
    return keyed.transformWithState(ChangeProcessor(), schema, "Append", "None", values)


def _values_at(
    spark: SparkSession, options: Mapping[str, str], moment: OffsetLimit
) -> tuple[str, GroupedData]:
    """The offsets of a moment, as an option, and the values that keys have there."""
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
        # A query that has a checkpoint needs these values no more. A new one is refused.
        plan = plan_refusal(asked, moment, str(error))
    return json.dumps(to_json(plan.end)), snapshot_of(spark, asked, plan).groupBy(*_KEY)
