"""What `docs/metrics.md` lists is what a broker serves."""

from __future__ import annotations

import re
import urllib.request

import pytest

from broker.metrics.documented import documented
from broker.metrics.watched import Watched

pytestmark = pytest.mark.clients


def _served(port: int) -> dict[str, set[tuple[str, ...]]]:
    """The labels of each metric that has a value, by the name that its help has."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as page:
        text = page.read().decode()
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    found: dict[str, set[tuple[str, ...]]] = {name: set() for name in kinds}
    for name, labels in re.findall(
        r"^((?:drumlin|process)_[a-z_]+)(?:\{(.*)\})? \S+$", text, re.MULTILINE
    ):
        base = name if name in kinds else re.sub("_(bucket|count|sum)$", "", name)
        assert base in kinds, f"{name} has no type"
        known = re.findall(r'(\w+)="', labels)
        found[base].add(tuple(sorted(set(known) - {"le"})))
    return found


def test_every_metric_is_documented_and_served(watched: Watched) -> None:
    watched.create("listed", partitions=2)
    watched.produce("listed", 3)
    watched.read("listed", 3)
    listed, served = documented(), _served(watched.port)
    assert served.keys() == listed.keys()
    for name, labels in served.items():
        assert labels <= {tuple(sorted(listed[name]))}, name
