"""The dashboard for Grafana shows what a broker serves, and the alerts ask for nothing else."""

from __future__ import annotations

import json
import re
from collections import Counter

import yaml

from broker.metrics.documented import documented, unknown_in
from monitoring.dashboard import ROOT, alerts, grafana_dashboard, shown

_CASES = ROOT / "tests" / "monitoring" / "alert_cases.yml"


def _slug(heading: str) -> str:
    return re.sub(r"\s+", "-", re.sub(r"[^\w\s-]", "", heading.strip().lower()))


def test_the_file_is_what_the_script_makes() -> None:
    written = grafana_dashboard.TARGET.read_text("utf-8")
    assert written == grafana_dashboard.text(), "run python script/grafana_dashboard.py"


def test_panels_do_not_overlap_and_have_ids_of_their_own() -> None:
    panels = json.loads(grafana_dashboard.TARGET.read_text("utf-8"))["panels"]
    assert len({each["id"] for each in panels}) == len(panels)
    cells: Counter[tuple[int, int]] = Counter()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        columns, rows = range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])
        cells.update((x, y) for x in columns for y in rows)
    assert max(cells.values()) == 1


def test_a_panel_shows_what_brokers_serve() -> None:
    known = documented()
    wrong = {each.query: unknown_in(each.query, known) for each in shown()}
    assert not {query: found for query, found in wrong.items() if found}


def test_lines_are_named_by_labels_that_they_have() -> None:
    known = {label for labels in documented().values() for label in labels}
    known |= {"job", "instance", "broker"}
    for line in shown():
        labels = set(re.findall(r"\{\{(\w+)\}\}", line.legend))
        grouped = re.search(r"\bby \(([^)]*)\)", line.query)
        has = set(re.split(r",\s*", grouped[1])) if grouped else known
        assert labels <= has, line


def test_names_that_no_broker_serves_are_found() -> None:
    known = {"drumlin_a": ("topic",), "drumlin_b_seconds": ("api",)}
    asked = (
        'sum by (topic) (drumlin_a{topic=~"drumlin_x"}) / on (job) drumlin_b_seconds_bucket{le="1"}'
    )
    assert unknown_in(asked, known) == []
    assert unknown_in('sum by (group) (drumlin_c{job="x"})', known) == [
        "drumlin_c",
        "drumlin_c{job}",
        "group",
    ]
    assert unknown_in('drumlin_a{api="x"}', known) == ["drumlin_a{api}"]


def test_an_alert_asks_for_what_brokers_serve_and_says_what_to_do() -> None:
    known = documented()
    sections = {
        name: {
            _slug(heading)
            for heading in re.findall(r"^#+ (.*)$", (ROOT / name).read_text("utf-8"), re.MULTILINE)
        }
        for name in ("docs/troubleshooting.md", "docs/operations.md")
    }
    guide = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    for rule in alerts():
        assert unknown_in(rule["expr"], known) == []
        assert rule["labels"]["severity"] in ("critical", "warning")
        document, _, section = rule["annotations"]["runbook"].partition("#")
        assert section in sections[document], rule["alert"]
        if document == "docs/troubleshooting.md":
            heading = next(
                text for text in guide.split("\n### ") if _slug(text.partition("\n")[0]) == section
            )
            assert f"`{rule['alert']}`" in heading


def test_every_alert_has_a_case_in_which_it_is_quiet_and_one_in_which_it_fires() -> None:
    quiet, fires = set(), set()
    for case in yaml.safe_load(_CASES.read_text("utf-8"))["tests"]:
        for expected in case["alert_rule_test"]:
            (fires if expected["exp_alerts"] else quiet).add(expected["alertname"])
    names = [each["alert"] for each in alerts()]
    assert len(set(names)) == len(names)
    assert quiet == fires == set(names)
