"""Points of metrics in what a client pushes: OpenTelemetry's MetricsData, version 1. Pure.

Only gauges and sums are read, which is all that Kafka's clients send; points of histograms and
summaries are counted. A label without a value is none, as for Prometheus: two series of one client
must not look the same. Names are those of the client, made fit for Prometheus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from drumlin.broker.telemetry.protobuf import (
    Budget,
    Malformed,
    double_of,
    fields_in,
    fixed_int_of,
    int_of,
    message_of,
    text_of,
)

#: Points of one push that are read; a client has some hundred.
POINTS_MAX: Final = 1000
#: Fields of one push that are read: some 20 ms of a thread.
_FIELDS_MAX: Final = 40_000
_NAME_MAX: Final = 200
_LABEL_MAX: Final = 60
_VALUE_MAX: Final = 250
_LABELS_MAX: Final = 10
_PREFIXES: Final = ("org.apache.kafka.",)
#: Of what describes the client itself only what says more than its instance id.
_OF_CLIENT: Final = frozenset({"client_rack", "group_id", "group_instance_id", "transactional_id"})
#: The labels that the broker gives, and those that Prometheus keeps for itself.
_RESERVED: Final = frozenset({"broker", "client_id", "client_instance_id", "le", "quantile"})
_ODD: Final = re.compile(r"[^a-zA-Z0-9_]+")

# Numbers of fields, by message.
_RESOURCE_METRICS: Final = 1
_RESOURCE, _SCOPE_METRICS = 1, 2
_ATTRIBUTES: Final = 1
_METRICS: Final = 2
_NAME, _GAUGE, _SUM, _OTHER_KINDS = 1, 5, 7, (9, 10, 11)
_POINTS, _TEMPORALITY, _IS_MONOTONIC = 1, 2, 3
_AS_DOUBLE, _AS_INT, _POINT_ATTRIBUTES = 4, 6, 7
_KEY, _VALUE = 1, 2
_STRING, _BOOL, _INT, _DOUBLE = 1, 2, 3, 4
_DELTA: Final = 1

Labels = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    """One value of one series."""

    name: str
    labels: Labels
    value: float
    #: Whether it only grows.
    is_counter: bool
    #: Whether the value is what has been added since the last push.
    is_delta: bool


@dataclass
class Read:
    """What was read of a push."""

    points: list[Point] = field(default_factory=list)
    #: Points that were not read, or not wholly counted, as there were too many.
    left_out: int = 0
    budget: Budget = field(default_factory=lambda: Budget(_FIELDS_MAX))


def read_metrics(payload: memoryview) -> Read:
    """All points of a push.

    Raises:
        Malformed: it is no such message, or has too many fields.
    """
    read = Read()
    for number, value in fields_in(payload, read.budget):
        if number == _RESOURCE_METRICS:
            _read_resource(message_of(value), read)
    return read


def _read_resource(message: memoryview, read: Read) -> None:
    labels: dict[str, str] = {}
    scopes = []
    for number, value in fields_in(message, read.budget):
        if number == _RESOURCE:
            for inner, attribute in fields_in(message_of(value), read.budget):
                if inner == _ATTRIBUTES:
                    name, text = _attribute(message_of(attribute), read.budget)
                    if text and name in _OF_CLIENT:
                        labels[name] = text
        elif number == _SCOPE_METRICS:
            scopes.append(message_of(value))
    for scope in scopes:
        for number, value in fields_in(scope, read.budget):
            if number == _METRICS:
                _read_metric(message_of(value), labels, read)


def _read_metric(message: memoryview, labels: dict[str, str], read: Read) -> None:
    name, data, is_sum = "", [], False
    for number, value in fields_in(message, read.budget):
        if number == _NAME:
            name = _fit(text_of(value, _NAME_MAX))
        elif number in (_GAUGE, _SUM):
            is_sum = number == _SUM
            data.append(message_of(value))
        elif number in _OTHER_KINDS:
            read.left_out += sum(
                inner == _POINTS for inner, _ in fields_in(message_of(value), read.budget)
            )
    for kind in data:
        points, is_delta, is_monotonic = [], False, False
        for number, value in fields_in(kind, read.budget):
            if number == _POINTS:
                points.append(message_of(value))
            elif number == _TEMPORALITY and is_sum:
                is_delta = int_of(value) == _DELTA
            elif number == _IS_MONOTONIC and is_sum:
                is_monotonic = bool(int_of(value))
        for point in points:
            if not name or len(read.points) >= POINTS_MAX:
                read.left_out += 1
                continue
            number_, own = _point(point, read.budget)
            shown = tuple(sorted({**labels, **own}.items()))[:_LABELS_MAX]
            read.points.append(Point(name, shown, number_, is_monotonic, is_delta))


def _point(message: memoryview, budget: Budget) -> tuple[float, dict[str, str]]:
    number, labels = 0.0, dict[str, str]()
    for field_number, value in fields_in(message, budget):
        if field_number == _AS_DOUBLE:
            number = double_of(value)
        elif field_number == _AS_INT:
            number = float(fixed_int_of(value))
        elif field_number == _POINT_ATTRIBUTES:
            name, text = _attribute(message_of(value), budget)
            if name and text and name not in _RESERVED:
                labels[name] = text
    return number, labels


def _attribute(message: memoryview, budget: Budget) -> tuple[str, str]:
    name = text = ""
    for number, value in fields_in(message, budget):
        if number == _KEY:
            name = _fit(text_of(value, _LABEL_MAX))
        elif number == _VALUE:
            text = next(_values(message_of(value), budget), "")
    return name, text


def _values(message: memoryview, budget: Budget) -> Iterator[str]:
    for number, value in fields_in(message, budget):
        if number == _STRING:
            yield text_of(value, _VALUE_MAX)
        elif number == _BOOL:
            yield "true" if int_of(value) else "false"
        elif number == _INT:
            yield str(int_of(value))
        elif number == _DOUBLE:
            yield f"{double_of(value):g}"


def _fit(name: str) -> str:
    """A name with letters, digits and underscores alone, which does not begin with a digit."""
    for prefix in _PREFIXES:
        name = name.removeprefix(prefix)
    fit = _ODD.sub("_", name).strip("_")
    return f"n{fit}" if fit[:1].isdigit() else fit


__all__ = ["POINTS_MAX", "Labels", "Malformed", "Point", "Read", "read_metrics"]
