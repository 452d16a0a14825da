"""`drumlin.spark.progress` and `progress_listener`: how far streaming queries are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from drumlin.spark.queries.query_progress import QueryProgress, progress_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from drumlin.spark.options.offsets import TopicPartition
    from drumlin.spark.queries.listener import ProgressListener


class RunningQuery(Protocol):
    """A `StreamingQuery` of PySpark, of a session on the driver or over Spark Connect."""

    @property
    def lastProgress(self) -> Any: ...  # noqa: N802


def progress(
    query: RunningQuery, *, bootstrap: str | None = None, **options: object
) -> QueryProgress | None:
    """The progress of a streaming query in the topics that it reads, as of its last batch.

    Args:
        query: what `start()` has returned.
        bootstrap: some of the brokers, as `host:port,…`: then the ends of the logs are looked up
            now, and the result is as far behind as the query is at this moment. By default they
            are those that the query has seen when it planned its last batch.
        options: those of `format("drumlin")` for that look, such as those of a login.

    Returns:
        The progress; None if no batch is complete yet. Sources that do not read topics are left
            out.

    Raises:
        OptionError: the options are invalid, or there are some without `bootstrap`.
        UnknownTopic: with `bootstrap`, a topic does not exist any more.
    """
    from drumlin.spark.options.option_values import OptionError

    if options and bootstrap is None:
        raise OptionError(f"options without `bootstrap`: {', '.join(sorted(options))}")
    reported = query.lastProgress
    if reported is None:
        return None
    found = progress_of(reported)
    if bootstrap is None or not found.partitions:
        return found
    return progress_of(reported, _ends_now(found, bootstrap, options))


def progress_listener(
    *, metrics_listener: str | None = None, metrics_file: str | Path | None = None
) -> ProgressListener:
    """A listener that shows the progress of a session's streaming queries to Prometheus.

    It begins with `spark.streams.addListener(listener)`, and runs where that program runs; its
    `close()` ends the server.

    Args:
        metrics_listener: an address, as `127.0.0.1:9405`, at which Prometheus finds the metrics.
        metrics_file: a file that has them after each batch, as for the textfile collector of
            Prometheus' node exporter; it is replaced as a whole.

    Raises:
        ValueError: not exactly one of the two is given, or listening at the address fails.
    """
    from drumlin.spark.queries.listener import ProgressListener

    return ProgressListener(metrics_listener, metrics_file)


def _ends_now(
    found: QueryProgress, bootstrap: str, options: Mapping[str, object]
) -> dict[TopicPartition, int]:
    from drumlin.spark.options.keyword_options import read_options
    from drumlin.spark.options.offsets import LATEST, OffsetLimit, TopicPartition
    from drumlin.spark.options.options import SourceOptions
    from drumlin.spark.planning.cluster import Cluster

    keys = {TopicPartition(each.topic, each.partition) for each in found.partitions}
    topics = ",".join(sorted({key.topic for key in keys}))
    cluster = Cluster(SourceOptions.parse(read_options(topics, bootstrap, options)))
    return cluster.resolve(OffsetLimit(LATEST), "ending", keys)
