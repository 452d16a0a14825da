"""What `drumlin consume` shows of records: which of them, and their text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from drumlin.cli.terminal import output
from drumlin.cli.terminal.record_text import Formatter, json_lines, rows_of, show_bytes, show_lines
from drumlin.client.read.conditions import Condition
from drumlin.records.kernels import record_kernels
from drumlin.records.text.line_form import LineForm
from drumlin.records.text.lines import Lines

if TYPE_CHECKING:
    from drumlin.cli.records.registry_values import RegistryValues
    from drumlin.cli.terminal.record_text import Records, Row

FormOf: TypeAlias = Callable[[str, int], LineForm]

OF_FILE: Final = frozenset({"timestamp", "timestamp_type", "key", "value"})
_OF_JSON: Final = frozenset({"timestamp", "key", "value", "headers"})


@dataclass(frozen=True, slots=True)
class View:
    """How records are shown, and which."""

    formatter: Formatter
    as_json: bool
    conditions: tuple[Condition, ...]
    values: RegistryValues | None

    @property
    def fields(self) -> frozenset[str]:
        """The fields of records that are needed."""
        return self.filtered | (_OF_JSON if self.as_json else frozenset(self.formatter.columns))

    @property
    def filtered(self) -> frozenset[str]:
        """The fields that the conditions need."""
        fields = {each.field for each in self.conditions}
        return frozenset("headers" if each == "header" else each for each in fields)

    def choose(self, topic: str, batch: Records) -> list[int] | None:
        """The indexes of the records to show; None: all."""
        if not self.conditions:
            return None
        rows = list(rows_of(topic, batch))
        if self.values is not None:
            self.values.decode(rows)
        conditions = self.conditions
        return [at for at, row in enumerate(rows) if all(each.is_true(row) for each in conditions)]

    @property
    def is_plain(self) -> bool:
        """Whether many records can be formatted at once."""
        return self.formatter.is_plain and not self.as_json and self.values is None

    @property
    def form_of(self) -> FormOf | None:
        """The form of lines, for a topic and a partition, if records can be read as lines."""
        if not self.is_plain or self.conditions or record_kernels.loaded is None:
            return None
        return self.formatter.form_of

    def show(self, topic: str, batch: Records | Lines) -> None:
        """Print records."""
        if isinstance(batch, Lines):
            show_bytes(batch.text)
            return
        if self.is_plain and not isinstance(batch, list):
            for text in self.formatter.texts_of(topic, batch):
                show_bytes(text)
            return
        rows: list[Row] = list(rows_of(topic, batch))
        if self.values is not None:
            self.values.note(rows, self.values.decode(rows))
        if self.as_json and self.formatter.is_coloured:
            show_lines(output.coloured(json_lines(rows)))
        else:
            show_lines(json_lines(rows) if self.as_json else self.formatter.lines(rows))

    def report(self) -> None:
        """Say on standard error what was not shown as asked for."""
        if self.values is not None and self.values.undecoded.total():
            counts = self.values.undecoded.items()
            count = " and ".join(output.counted(each, part) for part, each in counts if each)
            output.note(f"drumlin: {count} not decoded but shown as is; {self.values.first_reason}")
