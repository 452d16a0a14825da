"""Which tests go to one worker together, and which of them first.

Modules of some folders share servers that take long to start: one worker starts them, not each.
What those of tests/differential find on their broker depends on who was there before.
What is long comes first, so that no worker is left alone with it at the end.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

#: What starts brokers on a ZooKeeper, or is their store.
_ON_ZOOKEEPER = (
    "tests/cluster/",
    "tests/metadata/zookeeper/",
    "tests/metadata/to_zookeeper/",
    "tests/metadata/test_conformance.py",
    "tests/metadata/test_reassigning.py",
)

#: What stands beside an Apache Kafka, but for Spark.
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
    ("tests/spark/", "tests/examples/"),  # the latter in the JVM of the former, which is warm
    ("tests/capture/",),
    _ON_ZOOKEEPER,
    ("tests/differential/",),
    _WITH_KAFKA,
    ("tests/security/",),
)

#: Folders with modules that take tens of seconds; those of the others take a few at most.
LONG = (
    *("tests/client/", "tests/clients/", "tests/guarantees/", "tests/compaction/"),
    *("tests/records/", "tests/storage/", "tests/crash/", "tests/broker/"),
)


def order(node_id: str) -> int:
    """Where a test comes; those with the same number stay in their order."""
    places = (*(each for group in TOGETHER for each in group), *LONG)
    found = [number for number, place in enumerate(places) if node_id.startswith(place)]
    return found[0] if found else len(places)


class ByServers(LoadScopeScheduling):
    """Module by module, but for what stays together."""

    def _split_scope(self, nodeid: str) -> str:
        for group in TOGETHER:
            if nodeid.startswith(group):
                return group[0]
        module: str = super()._split_scope(nodeid)
        return module
