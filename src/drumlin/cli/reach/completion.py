"""Names that the shell completes: fetched from the cluster, with a short timeout."""

from __future__ import annotations

import os
from pathlib import Path

from drumlin.cli.reach.command_config import ENVIRONMENT
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP


def _where() -> tuple[str, Path | None]:
    """Bootstrap address and configuration from the environment: options are unknown here."""
    config = os.environ.get(ENVIRONMENT)
    bootstrap = os.environ.get("DRUMLIN_BOOTSTRAP", DEFAULT_BOOTSTRAP)
    return bootstrap, Path(config) if config else None


def complete_topic(incomplete: str) -> list[str]:
    """Topics that begin with the typed text."""
    from drumlin.cli.reach.cluster import connect
    from drumlin.client.admin import admin

    try:
        with connect(*_where()) as cluster:
            names = cluster.run(admin.list_topics(cluster.connections, True))
    except Exception:  # noqa: BLE001 - an error would be printed into the line being typed
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_group(incomplete: str) -> list[str]:
    """Groups that begin with the typed text."""
    from drumlin.cli.reach.cluster import connect
    from drumlin.cli.reach.group_offsets import all_groups

    try:
        with connect(*_where()) as cluster:
            names = [group["group"] for group in all_groups(cluster)]
    except Exception:  # noqa: BLE001 - an error would be printed into the line being typed
        return []
    return [name for name in names if name.startswith(incomplete)]
