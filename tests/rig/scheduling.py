"""Which tests go to one worker together, and which of them first.

Modules of some folders share servers that take long to start: one worker starts them, not each.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: Folders that are given to a worker as a whole. They come first, as they take longest.
TOGETHER = ("tests/spark/", "tests/differential/", "tests/security/")


def order(node_id: str) -> int:
    """Where a test comes; those with the same number stay in their order."""
    found = [number for number, folder in enumerate(TOGETHER) if node_id.startswith(folder)]
    return found[0] if found else len(TOGETHER)


class ByServers(LoadScopeScheduling):
    """Module by module, but for the folders that stay together."""

    def _split_scope(self, nodeid: str) -> str:
        number = order(nodeid)
        if number < len(TOGETHER):
            return TOGETHER[number]
        module: str = super()._split_scope(nodeid)
        return module
