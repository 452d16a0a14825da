"""A task that writes: Spark's Arrow batches go to topics.

A failure says what could not be written and why; Spark runs the task again, or the query fails.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from drumlin.spark.sink.options import SinkOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from drumlin.client.client import Client
    from drumlin.client.stream_appender import StreamAppender, StreamReport


class WriteFailed(RuntimeError):
    """Rows could not be written."""


def client_of(options: SinkOptions) -> Client:
    """This process's client for the sink's cluster; Spark reuses its Python workers."""
    return _connect(options.bootstrap_servers, options.client_options)


@functools.cache
def _connect(bootstrap: str, client_options: tuple[tuple[str, Any], ...]) -> Client:
    from drumlin.client.client import connect

    return connect(bootstrap, check=False, **dict(client_options))


def append_rows(
    appender: StreamAppender, columns: tuple[str, ...], batches: Iterable[pa.RecordBatch]
) -> StreamReport:
    """Write all rows; returns when they are acknowledged.

    Raises:
        WriteFailed: one cannot be written, be it for what it is or for what brokers say.
    """
    from drumlin.client.errors import ClientError
    from drumlin.client.stream_appender import RowsRefused

    try:
        for batch in batches:
            appender.add(batch.select(columns))
        return appender.finish()
    except (ClientError, RowsRefused) as error:
        appender.settle()
        raise WriteFailed(f"rows could not be written: {error}") from error
    except BaseException:
        appender.settle()
        raise


def open_appender(client: Client, options: SinkOptions) -> StreamAppender:
    """An appender that writes as the options say, in no transaction."""
    from drumlin.client.deliveries import DeliveryRules
    from drumlin.client.stream_appender import EncodingRules

    return client.stream_appender(
        options.topic,
        encoding=EncodingRules(options.batch_bytes, options.compression, options.compression_level),
        delivery=DeliveryRules(
            options.acks,
            options.retries,
            options.delivery_timeout_ms,
            options.buffer_bytes,
            options.is_idempotent,
        ),
    )
