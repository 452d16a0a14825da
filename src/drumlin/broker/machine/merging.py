"""Answers of several brokers merged into one: metrics and reports of compaction. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from drumlin.broker.loop.measures import Kind, Measure, Sample

_LABEL: Final = "broker"
#: One broker's answer: its HTTP status, and the content of its JSON.
Answer = tuple[int, dict[str, Any]]


def merged_measures(measures: Mapping[int, Iterable[Sequence[Any]]]) -> list[Measure]:
    """The measures of all brokers, each value labelled with its broker."""
    found: dict[str, Measure] = {}
    for node_id, rows in measures.items():
        for name, kind, documentation, labels, samples in rows:
            own = tuple(
                Sample((str(node_id), *sample_labels), value) for sample_labels, value in samples
            )
            known = found.get(name)
            if known is None:
                named = (_LABEL, *labels)
                found[name] = Measure(name, Kind(kind), documentation, named, own)
            else:
                found[name] = known._replace(samples=known.samples + own)
    return list(found.values())


def merged_report(reports: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
    """One report of compaction: totals are added up, and each partition names its broker."""
    totals: dict[str, Any] = {}
    for report in reports.values():
        for key, value in report["totals"].items():
            totals[key] = totals.get(key, 0) + value
    return {
        "is_enabled": all(report["is_enabled"] for report in reports.values()),
        "totals": totals,
        "partitions": _rows(reports, "partitions"),
    }


def merged_results(answers: Mapping[int, Answer]) -> Answer:
    """The results of all brokers that have any of the partitions."""
    done = {node_id: body for node_id, (status, body) in answers.items() if status == HTTPStatus.OK}
    if done:
        return HTTPStatus.OK, {"results": _rows(done, "results")}
    refusals = list(answers.values())
    return next((each for each in refusals if each[0] != HTTPStatus.NOT_FOUND), refusals[0])


def _rows(bodies: Mapping[int, Mapping[str, Any]], key: str) -> list[dict[str, Any]]:
    rows = [{**row, _LABEL: node_id} for node_id, body in bodies.items() for row in body[key]]
    return sorted(rows, key=lambda row: (row.get("topic"), row.get("partition"), row[_LABEL]))
