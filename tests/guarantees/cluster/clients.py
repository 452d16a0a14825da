"""All clients of a run: begun together, ended together, and what each of them complains of."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from guarantees.cluster.group_member import GroupMember
from guarantees.cluster.groups import check_groups, count_resumptions
from guarantees.cluster.keys import KeyWriter, check_keys
from guarantees.cluster.ledger import Ledger
from guarantees.cluster.members import NODES, rack
from guarantees.cluster.plain_writer import PlainWriter
from guarantees.cluster.sharing import Deliveries, Sharer
from guarantees.ending import SETTLE_S, Client, joined
from guarantees.histories.history import History, Outcome, Recorder
from guarantees.torture.java_writer import JavaWriter
from guarantees.torture.readers import AssignedReader, Mover, read_to_the_end
from guarantees.torture.writers import TRANSACTION_TIMEOUT_MS, Writer

#: Of records, and what else there is: keys that are written again, and what is shared.
TOPICS: Final = {"a": 3, "b": 2, "keys": 2, "shared": 2}
CONFIGS: Final = {
    "a": {"segment.bytes": "1048576"},
    # Keys are unique, so compaction removes nothing but what was aborted, and markers.
    "b": {"cleanup.policy": "compact"},
    "keys": {"cleanup.policy": "compact"},
    "shared": {},
}
PARTITIONS: Final = [(topic, number) for topic in "ab" for number in range(TOPICS[topic])]
_SHARED: Final = [("shared", number) for number in range(TOPICS["shared"])]
_SHARE_GROUP: Final = "sharers"
#: What there may be, besides readers of all partitions; and `java`, for transactions.
KINDS: Final = ("plain", "transactions", "groups", "ledgers", "keys", "shares")
_BACK_MAX: Final = 2000


def create_topics(bootstrap: str) -> None:
    """All of them, and a share group that begins at their start."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    new = [NewTopic(name, count, 3, config=CONFIGS[name]) for name, count in TOPICS.items()]
    for created in admin.create_topics(new).values():
        created.result(20)
    entry = ConfigEntry(
        "share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET
    )
    resource = ConfigResource(ResourceType.GROUP, _SHARE_GROUP, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(20)


class Reader(AssignedReader):
    """One that goes back by some records only."""

    def _earlier(self) -> dict[tuple[str, int], int]:
        back = self._random.randrange(_BACK_MAX)
        return {at: max(0, offset - back) for at, offset in self._positions.items()}


class Clients:
    """Of some kinds, or of all."""

    def __init__(
        self,
        seed: str,
        bootstrap: str,
        recorder: Recorder,
        commit_asked: threading.Event,
        directory: Path,
        kinds: Iterable[str] = KINDS,
    ) -> None:
        self._seed, self._bootstrap, self._recorder = seed, bootstrap, recorder
        self._kinds = frozenset(kinds)
        self.deliveries = Deliveries()
        self._keys = KeyWriter("keys", bootstrap, "keys", TOPICS["keys"], seed)
        self._ledgers = [Ledger(f"ledger-{n}", bootstrap, ("a", n), seed) for n in range(2)]
        self._sharers = [
            Sharer(f"sharer-{n}", bootstrap, _SHARE_GROUP, "shared", self.deliveries, seed)
            for n in range(2)
        ]
        writers: list[Client] = []
        readers: list[Client] = []
        common = (bootstrap, PARTITIONS, recorder, seed)
        if "plain" in self._kinds:
            writers += [
                PlainWriter("plain-1", *common),
                PlainWriter("plain-2", bootstrap, [*PARTITIONS, *_SHARED], recorder, seed),
            ]
        if "transactions" in self._kinds:
            writers += self._transactional(commit_asked, directory)
        if "keys" in self._kinds:
            writers.append(self._keys)
        readers += [
            Reader("assigned", *common),
            Reader("uncommitted", *common, isolation="read_uncommitted"),
            *(Reader(f"near-{each}", *common, client_rack=rack(each)) for each in NODES[:2]),
        ]
        if "groups" in self._kinds:
            readers += self._members()
        if "ledgers" in self._kinds:
            writers += self._ledgers
        self._writers, self._readers = writers, readers

    def _transactional(self, commit_asked: threading.Event, directory: Path) -> Iterator[Client]:
        bootstrap, recorder, seed = self._bootstrap, self._recorder, self._seed
        mover = Mover("mover", bootstrap, [at for at in PARTITIONS if at[0] == "a"], recorder)
        into_b = [at for at in PARTITIONS if at[0] == "b"]
        common = (bootstrap, PARTITIONS, recorder, seed)
        yield Writer("writer-1", *common, commit_asked)
        yield Writer("writer-2", bootstrap, into_b, recorder, seed, commit_asked, mover)
        if "java" in self._kinds:
            yield JavaWriter("writer-java", *common, commit_asked, output=directory / "java.out")

    def _members(self) -> Iterator[Client]:
        chance = random.Random(self._seed)
        protocols = {
            "classic": chance.choice(("range", "cooperative-sticky")),
            "new": "consumer",
        }
        for group, protocol in protocols.items():
            for number in range(2):
                yield GroupMember(
                    f"{group}-{number}",
                    self._bootstrap,
                    ["a", "b"],
                    self._recorder,
                    self._seed,
                    protocol,
                    group,
                )

    def start(self) -> None:
        for each in (*self._readers, *self._writers):
            each.start()
        if "shares" in self._kinds:
            for sharer in self._sharers:
                sharer.start()

    def end(self) -> list[str]:
        """Stop them, and read all that there is; what any of them complains of."""
        complaints = joined(self._writers)
        timeout_s = SETTLE_S + TRANSACTION_TIMEOUT_MS / 1000
        partitions = [*PARTITIONS, *_SHARED]
        complaint = read_to_the_end("last", self._bootstrap, partitions, self._recorder, timeout_s)
        complaints += [complaint] if complaint else []
        complaints += joined(self._readers)
        if "keys" in self._kinds:
            complaints += check_keys(self._keys, self._bootstrap, SETTLE_S)
        return complaints

    def end_sharing(self, history: History) -> list[str]:
        """Once all has been written: wait until all of it is delivered."""
        if "shares" not in self._kinds:
            return []
        written: dict[tuple[str, int], set[int]] = defaultdict(set)
        names = {f"{topic}-{number}": (topic, number) for topic, number in _SHARED}
        for transaction in history.transactions:
            for write in transaction.writes:
                if write.partition in names and write.offset is not None:
                    written[names[write.partition]].add(write.offset)
        deadline = time.monotonic() + SETTLE_S
        while self.deliveries.lacking(written) and time.monotonic() < deadline:
            time.sleep(0.2)
        complaints = joined(self._sharers)
        lacking = self.deliveries.lacking(written)
        if lacking:
            complaints.append(f"never delivered to the share group: {lacking}")
        if self.deliveries.twice:
            some = sorted(self.deliveries.twice)[:5]
            complaints.append(
                f"{len(self.deliveries.twice)} records were accepted twice, as {some}"
            )
        return complaints

    def check(self, history: History) -> list[str]:
        return check_groups(history) if "groups" in self._kinds else []

    def counts(self, history: History) -> dict[str, int]:
        """What has happened, to tell whether it was enough."""
        return {
            "committed": history.count(Outcome.COMMITTED),
            "transactions": sum(
                history.count(Outcome.COMMITTED, f"writer-{name}") for name in ("1", "2", "java")
            ),
            "reads": history.count_reads(),
            "resumptions": count_resumptions(history),
            "offset commits": sum(each.committed for each in self._ledgers),
            "shared": len(self.deliveries.accepted),
            "versions": sum(each.acknowledged for each in self._keys.keys.values()),
        }
