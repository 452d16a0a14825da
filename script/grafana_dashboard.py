"""Writes deploy/grafana/drumlin.json: `.venv/bin/python script/grafana_dashboard.py`.

What the dashboard shows is in `grafana_dashboard.toml` beside this; here is how Grafana wants it.
`tests/monitoring` fails while the file is not what this script would write.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).with_suffix(".toml")
TARGET: Final = Path(__file__).parents[1] / "deploy" / "grafana" / "drumlin.json"

_SCHEMA: Final = 39
_WIDTH: Final = 24  # of Grafana's grid
_SIZES: Final = {"stat": (4, 4), "table": (12, 8), "timeseries": (8, 8)}
_DATA: Final = {"type": "prometheus", "uid": "${datasource}"}
_SELECTED: Final = 'job=~"$job",instance=~"$instance"'
#: Variable -> where its values come from.
VARIABLES: Final = {
    "job": "label_values(drumlin_build_info, job)",
    "instance": 'label_values(drumlin_build_info{job=~"$job"}, instance)',
    "topic": "label_values(drumlin_topic_received_bytes_total{@}, topic)",
    "group": "label_values(drumlin_group_lag_records{@}, group)",
}


def rows() -> list[dict[str, Any]]:
    """What the dashboard shows."""
    found: list[dict[str, Any]] = tomllib.loads(SOURCE.read_text("utf-8"))["row"]
    return found


def expanded(query: str) -> str:
    """A query as Grafana takes it."""
    query = query.replace("[@]", "[$__rate_interval]")
    return re.sub(r"(?<=\{)@", _SELECTED, query)


def text() -> str:
    """The text of the file."""
    dashboard = {
        "title": "Drumlin",
        "uid": "drumlin",
        "description": "Brokers of Drumlin, by the metrics that docs/metrics.md lists.",
        "tags": ["drumlin", "kafka"],
        "schemaVersion": _SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": list(_panels()),
    }
    return json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "label": "Source", "type": "datasource", "query": "prometheus"}
    for name, query in VARIABLES.items():
        yield {
            "name": name,
            "label": name.capitalize(),
            "type": "query",
            "datasource": _DATA,
            "query": {"query": expanded(query), "refId": name},
            "definition": expanded(query),
            "refresh": 2,  # with each change of the time that is looked at
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panels() -> Iterator[dict[str, Any]]:
    """All panels, from left to right under the heading of their row."""
    number = y = 0
    for row in rows():
        number += 1
        place = {"x": 0, "y": y, "w": _WIDTH, "h": 1}
        heading = {"type": "row", "title": row["title"], "collapsed": False, "panels": []}
        yield {"id": number, "gridPos": place, **heading}
        x, y, lowest = 0, y + 1, 0
        for panel in row["panel"]:
            number += 1
            width, height = _SIZES[panel.get("kind", "timeseries")]
            if x + width > _WIDTH:
                x, y, lowest = 0, y + lowest, 0
            place = {"x": x, "y": y, "w": width, "h": height}
            yield {"id": number, "gridPos": place, **_panel(panel)}
            x, lowest = x + width, max(lowest, height)
        y += lowest


def _panel(panel: dict[str, Any]) -> dict[str, Any]:
    kind = panel.get("kind", "timeseries")
    looks = {"stat": _number, "table": _table, "timeseries": _graph}[kind](panel)
    defaults = {"unit": panel.get("unit", "none"), **looks.pop("defaults", {})}
    return {
        "type": kind,
        "title": panel["title"],
        "description": panel.get("about", ""),
        "datasource": _DATA,
        "targets": list(_targets(panel["lines"], is_table=kind == "table")),
        "fieldConfig": {"defaults": defaults, "overrides": []},
        **looks,
    }


def _targets(lines: list[list[str]], *, is_table: bool) -> Iterator[dict[str, Any]]:
    for letter, (query, *legend) in zip("ABCDEFGH", lines, strict=False):
        yield {
            "refId": letter,
            "datasource": _DATA,
            "expr": expanded(query),
            "legendFormat": "".join(legend),
            "instant": is_table,
            "range": not is_table,
            "format": "table" if is_table else "time_series",
        }


def _graph(_: dict[str, Any]) -> dict[str, Any]:
    return {
        "defaults": {"min": 0, "custom": {"fillOpacity": 8, "showPoints": "never"}},
        "options": {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
            "tooltip": {"mode": "multi", "sort": "desc"},
        },
    }


def _number(panel: dict[str, Any]) -> dict[str, Any]:
    steps = [{"color": "green", "value": None}]
    if "alarm" in panel:
        steps.append({"color": "red", "value": panel["alarm"]})
    return {
        "defaults": {"thresholds": {"mode": "absolute", "steps": steps}},
        "options": {"reduceOptions": {"calcs": ["lastNotNull"]}, "graphMode": "area"},
    }


def _table(_: dict[str, Any]) -> dict[str, Any]:
    hidden = dict.fromkeys(("Time", "__name__", "job"), True)
    return {"transformations": [{"id": "organize", "options": {"excludeByName": hidden}}]}


if __name__ == "__main__":
    TARGET.write_text(text(), "utf-8")
