"""`script/grafana_dashboard.py`, which is no module of a package, and the queries that it makes."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


def _load() -> ModuleType:
    path = ROOT / "script" / "grafana_dashboard.py"
    spec = importlib.util.spec_from_file_location("grafana_dashboard", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


grafana_dashboard = _load()


def alerts() -> list[dict[str, Any]]:
    """All alert rules in the file."""
    groups = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


class Shown(NamedTuple):
    """A line of a panel."""

    panel: str
    query: str
    legend: str

    def asked(self, window: str) -> str:
        """The query as Grafana asks it when all of everything is chosen."""
        query = self.query.replace("$__rate_interval", window)
        for variable in grafana_dashboard.VARIABLES:
            query = query.replace(f"${variable}", ".*")
        assert "$" not in query, query
        return query


def shown() -> Iterator[Shown]:
    """All lines in the file."""
    for panel in json.loads(grafana_dashboard.TARGET.read_text("utf-8"))["panels"]:
        for target in panel.get("targets", ()):
            yield Shown(panel["title"], target["expr"], target["legendFormat"])
