"""A listener of Spark's streaming queries that shows their progress to Prometheus."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from drumlin.spark.queries.metrics import QueryMetrics
from drumlin.spark.queries.query_progress import progress_of

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

_logger = logging.getLogger(__name__)


class ProgressListener(StreamingQueryListener):
    """Shows the progress of a session's streaming queries to Prometheus."""

    def __init__(self, metrics_listener: str | None, metrics_file: str | Path | None) -> None:
        """
        Raises:
            ValueError: not exactly one of the two is given, or listening at the address fails.
        """
        from drumlin.metrics_server import metrics_served

        if (metrics_listener is None) == (metrics_file is None):
            raise ValueError("exactly one of `metrics_listener` and `metrics_file` must be given")
        self._metrics = QueryMetrics()
        self._file = None if metrics_file is None else Path(metrics_file)
        self._complaint = ""
        self._served = contextlib.ExitStack()
        self._served.enter_context(metrics_served(metrics_listener, self._metrics))
        self._write()

    def close(self) -> None:
        """Stop serving metrics. Take the listener from the session before, by `removeListener`."""
        self._served.close()

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Do nothing: a query shows itself with its first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Add the progress of a query that reads topics."""
        now = progress_of(event.progress)
        if now.sources:
            self._metrics.tell(now)
            self._write()

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Do nothing: nothing has been read."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """Take away the metrics of a query that has ended."""
        self._metrics.end(str(event.runId))
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        from prometheus_client.exposition import write_to_textfile
        from prometheus_client.registry import CollectorRegistry

        registry = CollectorRegistry(auto_describe=False)
        collector: Any = self._metrics  # the library's type for collectors is not public
        registry.register(collector)
        try:
            write_to_textfile(str(self._file), registry)
        except OSError as error:  # a full disk must not hold up what Spark reports
            complaint = f"metrics cannot be written to {self._file}: {error}"
            if complaint != self._complaint:
                _logger.warning("%s", complaint)
            self._complaint = complaint
