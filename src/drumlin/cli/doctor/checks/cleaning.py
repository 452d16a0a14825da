"""Checks of the cleaner of compacted logs, from a broker's own report or from its files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.terminal.output import human_duration


def uncleanable(report: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether logs cannot be cleaned, or read."""
    for row in report["partitions"]:
        reason = row.get("error") or row.get("uncleanable_because")
        if reason:
            name = f"{row['topic']}-{row['partition']}"
            yield Finding(
                Severity.ERROR,
                "uncleanable",
                name,
                f"it cannot be {'read' if 'error' in row else 'cleaned'}: {reason}",
                "it grows, and keeps what was superseded or deleted",
                "drumlin dump-log --verify on its folder shows the damage; then "
                f"drumlin compaction run {row['topic']} --data DIR",
            )


def overdue(report: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether records wait for longer than max.compaction.lag.ms."""
    for row in report["partitions"]:
        if row.get("overdue_ms"):
            yield Finding(
                Severity.WARNING,
                "cleaning-overdue",
                f"{row['topic']}-{row['partition']}",
                f"its cleaning is overdue by {human_duration(row['overdue_ms'])}",
                "max.compaction.lag.ms promises that deleted data is gone by then",
                "more log.cleaner.threads or log.cleaner.io.max.bytes.per.second; "
                "drumlin compaction status --data DIR says what it waits for",
            )


def disabled(report: Mapping[str, Any]) -> Iterator[Finding]:
    """Whether there are compacted logs, and no cleaner."""
    if report["is_enabled"] is False and report["partitions"]:
        yield Finding(
            Severity.WARNING,
            "cleaner-disabled",
            "this broker",
            f"log.cleaner.enable is false, with {len(report['partitions'])} compacted logs",
            "they grow without end, those of groups' offsets as well",
            "log.cleaner.enable=true",
        )
