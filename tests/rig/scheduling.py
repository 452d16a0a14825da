"""Which tests go to one worker together, and which of them first.

Modules of some folders share servers that take long to start: one worker starts them, not each.
What those of tests/differential find on their broker depends on who was there before.
What is long comes first, so that no worker is left alone with it at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: Folders that are given to a worker as a whole, the longest first.
TOGETHER = (
    "tests/spark/",
    "tests/examples/",
    "tests/differential/",
    "tests/migration/",
    "tests/security/",
)

#: Folders with modules that take tens of seconds; those of the others take a few at most.
LONG = (
    *("tests/client/", "tests/clients/", "tests/guarantees/", "tests/compaction/"),
    *("tests/records/", "tests/storage/", "tests/crash/", "tests/broker/"),
    "tests/cluster/",
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
            return TOGETHER[number]
        module: str = super()._split_scope(nodeid)
        return module
