"""The metrics that `docs/metrics.md` lists, and whether a query of Prometheus asks for them."""

from __future__ import annotations

import re
from pathlib import Path

_DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"

#: What Prometheus itself adds, and a server of several brokers.
_ADDED = {"job", "instance", "broker"}
_TEXT = re.compile(r'"[^"]*"')
_NAME = re.compile(r"\b(?:drumlin_|process_)\w+|\bup\b")
_SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
_LABEL_LIST = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")


def documented() -> dict[str, tuple[str, ...]]:
    """The labels of each metric in the tables."""
    found: dict[str, tuple[str, ...]] = {}
    for names, labels in re.findall(
        r"^\| (`(?:drumlin|process)_[^|]*) \| ([^|]*)\|", _DOCUMENT.read_text(), re.MULTILINE
    ):
        for name in re.findall(r"`([a-z_]+)`", names):
            assert name not in found, f"{name} is there twice"
            found[name] = tuple(filter(None, re.split(r"[, ]+", labels.strip())))
    return found


def unknown_in(query: str, known: dict[str, tuple[str, ...]]) -> list[str]:
    """The names and labels in a query that no broker serves."""
    query = _TEXT.sub('""', query)
    names = set(_NAME.findall(query))
    found = sorted(name for name in names if labels_of(name, known) is None)
    for name, matchers in _SELECTOR.findall(query):
        of_name = labels_of(name, known) or set()
        labels = re.findall(r"(\w+)\s*(?:=|!)", matchers)
        found += [f"{name}{{{label}}}" for label in labels if label not in of_name]
    of_all = {label for name in names for label in labels_of(name, known) or ()}
    for labels in _LABEL_LIST.findall(query):
        found += [each for each in re.split(r"[,\s]+", labels) if each and each not in of_all]
    return found


def labels_of(name: str, known: dict[str, tuple[str, ...]]) -> set[str] | None:
    """The labels of a metric as Prometheus has it; None if there is no such metric."""
    if name == "up":
        return set(_ADDED)
    if name in known:
        return {*known[name], *_ADDED}
    of_histogram = re.sub("_(bucket|count|sum)$", "", name)
    return {*known[of_histogram], *_ADDED, "le"} if of_histogram in known else None
