"""The calls of a `Client` that write records: whole tables, rows in pieces, or single records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from drumlin.client.calls import Calls
from drumlin.client.errors import translated
from drumlin.client.write.options import AppendOptions, WriterOptions
from drumlin.client.write.writer import Writer
from drumlin.client.write.writes_records import WritesRecords

if TYPE_CHECKING:
    from drumlin.client.tables import TableLike
    from drumlin.client.write.appender import AppendReport
    from drumlin.client.write.deliveries import DeliveryRules, EncodingRules
    from drumlin.client.write.stream_appender import StreamAppender


class WritingCalls(WritesRecords, Calls):
    """The calls that write records."""

    def _append(self, data: TableLike, topic: str, options: AppendOptions) -> AppendReport:
        from drumlin.client.write.appender import append

        with translated():
            return append(self._thread, self._producer, data, topic, options)

    def _open_writer(self, topic: str, options: WriterOptions) -> Writer:
        with translated():
            return Writer(self._thread, self._producer, topic, options)

    def _stream_appender(
        self, topic: str | None, encoding: EncodingRules | None, delivery: DeliveryRules | None
    ) -> StreamAppender:
        from drumlin.client.write.stream_appender import StreamAppender

        return StreamAppender(
            self._thread, self._producer, topic, encoding=encoding, delivery=delivery
        )
