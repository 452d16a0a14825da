"""Which tests go to one worker together, and which of them first.

Modules of some folders share servers that take long to start: one worker starts them, not each.
What those of tests/differential find on their broker depends on who was there before.
What is long comes first, so that no worker is left alone with it at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: What stands beside an Apache Kafka, but for Spark: one worker starts it.
_WITH_KAFKA = (
    "tests/migration/",
    "tests/cli/clusters/test_cluster_health.py",
    "tests/cli/groups/test_group_reset.py",
    "tests/cli/test_cluster_commands.py",
    "tests/client/read/test_read.py",
    "tests/client/transactions/test_transactions.py",
    "tests/client/write/test_append.py",
)

#: Folders and modules that are given to a worker as a whole, the longest first.
TOGETHER = (
    ("tests/spark/",),
    ("tests/differential/",),
    _WITH_KAFKA,
    ("tests/examples/",),
    ("tests/security/",),
)

#: Folders with modules that take tens of seconds; those of the others take a few at most.
LONG = tuple(
    (f"tests/{folder}/",)
    for folder in (
        *("client", "clients", "guarantees", "compaction", "records", "storage", "crash", "broker"),
        "cluster",
    )
)


def order(node_id: str) -> int:
    """Where a test comes; those with the same number stay in their order."""
    folders = (*TOGETHER, *LONG)
    found = [number for number, folder in enumerate(folders) if node_id.startswith(folder)]
    return found[0] if found else len(folders)


class ByServers(LoadScopeScheduling):
    """Module by module, but for the folders that stay together."""

    def _split_scope(self, nodeid: str) -> str:
        number = order(nodeid)
        if number < len(TOGETHER):
            return TOGETHER[number][0]
        module: str = super()._split_scope(nodeid)
        return module
