"""`docs/panels.md` answers panels of Kafka's dashboards by metrics that there are."""

from __future__ import annotations

import re

from broker.metrics.documented import documented, labels_of
from monitoring.dashboard import ROOT, shown

_ROWS = re.findall(
    r"^\| ([^|`]+) \| ([^|]+) \|$", (ROOT / "docs" / "panels.md").read_text("utf-8"), re.MULTILINE
)
_ANSWERS = [row for row in _ROWS if row[0] != "panel"]
_NAMES = re.compile(r"`((?:drumlin|process)_\w+)`")


def test_all_panels_are_there() -> None:
    """30 of Strimzi's for Kafka, 16 of that for its exporter, 20 of kminion's."""
    assert len(_ANSWERS) == 30 + 16 + 20


def test_each_is_answered_by_metrics_that_there_are() -> None:
    known = documented()
    for panel, answer in _ANSWERS:
        names = _NAMES.findall(answer)
        assert names or answer == "the same" or answer.startswith("none"), panel
        assert not [name for name in names if labels_of(name, known) is None], panel


def test_what_is_answered_is_on_our_dashboard() -> None:
    asked = {name for line in shown() for name in re.findall(r"\b\w+(?=\{)", line.query)}
    answers = {name for _, answer in _ANSWERS for name in _NAMES.findall(answer)}
    assert not answers - asked
