"""One pass of a mirror: read both stores, settle their differences, and remember them.

All decisions are made by `reconcile`. They rely only on data from the current pass: a node that has
changed since is not overwritten (ZooKeeper compares versions), and the broker's offsets are fetched
right before writing, as a broker cannot compare.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from drumlin.client.admin import group_admin
from drumlin.client.admin.committed_offsets import OffsetAndMetadata
from drumlin.client.topic_partition import TopicPartition
from drumlin.migration.commit_times import FindCommits
from drumlin.migration.mirror_state import MirrorState
from drumlin.migration.reconcile import Agreement, Decision, Node, decide, later
from drumlin.migration.stores import ConnectedCluster, Refusals
from drumlin.migration.transfer import is_chosen
from drumlin.migration.zookeeper_follower import ZooKeeperFollower
from drumlin.wire.error_codes import ErrorCode
from drumlin.zookeeper.consumer_offsets import ABSENT, ZooKeeperOffset

_NEVER_SINCE: Final = -1
_ABSENT_TOPIC: Final = "there is no such partition in the cluster"
_STILL_CHANGING: Final = "both are being changed"


class Say(Protocol):
    """Reports an event as a sentence and as fields."""

    def __call__(self, event: str, sentence: str, **fields: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Difference:
    """A partition whose offsets still differ after a pass, with the reason."""

    group: str
    place: TopicPartition
    zookeeper: int | None
    broker: int | None
    reason: str

    @property
    def distance(self) -> int:
        """The difference of the offsets; 0 if one of the stores has none."""
        if self.zookeeper is None or self.broker is None:
            return 0
        return abs(self.zookeeper - self.broker)

    def __str__(self) -> str:
        where = f"{self.group} {self.place[0]}-{self.place[1]}"
        return f"{where}: {self.zookeeper} in ZooKeeper, {self.broker} in the broker"


@dataclass(slots=True)
class Status:
    """The state of both stores after a pass."""

    groups: int = 0
    partitions: int = 0
    to_broker: int = 0  # offsets written in this pass
    to_zookeeper: int = 0
    absent: int = 0  # partitions that the cluster does not have, and that are left alone
    differences: list[Difference] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """The state of one group in a pass, and the offsets to write."""

    name: str
    zookeeper: Mapping[TopicPartition, ZooKeeperOffset]
    broker: Mapping[TopicPartition, OffsetAndMetadata]
    to_broker: dict[TopicPartition, int] = field(default_factory=dict)
    to_zookeeper: dict[TopicPartition, int] = field(default_factory=dict)
    held: dict[TopicPartition, str] = field(default_factory=dict)

    def node(self, place: TopicPartition) -> Node | None:
        found = self.zookeeper.get(place)
        return None if found is None else Node(found.offset, found.version)

    def written_node(self, place: TopicPartition, offset: int) -> Node:
        """The node after our write, which increments its version or creates the node."""
        node = self.node(place)
        return Node(offset, 0 if node is None else node.version + 1)

    def offsets(self, place: TopicPartition) -> tuple[int | None, int | None]:
        node, position = self.zookeeper.get(place), self.broker.get(place)
        return (
            None if node is None else node.offset,
            None if position is None else position.offset,
        )


class Mirror:
    """Keeps the offsets of groups in ZooKeeper and in a cluster equal, pass by pass.

    An error of either store ends a pass; the next pass does the rest.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperFollower,
        cluster: ConnectedCluster,
        state: MirrorState,
        find_commits: FindCommits,
        say: Say,
        topics: Collection[str] | None = None,
    ) -> None:
        self._zookeeper = zookeeper
        self._cluster = cluster
        self._state = state
        self._find_commits = find_commits
        self._say = say
        self._topics = topics
        self._reported: dict[tuple[str, TopicPartition], str] = {}
        self._conflicts: dict[tuple[str, TopicPartition], tuple[int | None, int | None]] = {}

    def run_pass(self, groups: Collection[str], *, is_last: bool = False) -> Status:
        """Settle the differences of these groups; in the last pass, also recent changes.

        Raises:
            StoreUnavailable, PeerError, KafkaError: a store cannot be used now.
        """
        status = Status(groups=len(groups))
        for name in groups:
            group = self._look_at(name)
            self._decide(group, is_last)
            self._remember_sending(group)
            self._write_to_broker(group, status)
            self._write_to_zookeeper(group, status)
            self._state.save()
            self._count(group, status)
        return status

    # -- looking and deciding --------------------------------------------------------------

    def _look_at(self, name: str) -> _Group:
        nodes = self._zookeeper.offsets(name)
        committed = self._cluster.run(group_admin.fetch_committed(self._cluster.connections, name))
        return _Group(name, self._chosen(nodes), self._chosen(committed))

    def _chosen(self, found: Mapping[TopicPartition, Any]) -> dict[TopicPartition, Any]:
        return {place: each for place, each in found.items() if is_chosen(place[0], self._topics)}

    def _decide(self, group: _Group, is_last: bool) -> None:
        conflicts = []
        for place in sorted(group.zookeeper.keys() | group.broker.keys()):
            node = group.node(place)
            decision = decide(self._agreement(group, place), node, group.offsets(place)[1])
            if decision is Decision.NOTHING:
                assert node is not None
                self._agree(group, place, node)
            elif decision is not Decision.CONFLICT:
                self._take(group, place, decision)
            elif is_last or self._is_stable(group, place):
                conflicts.append(place)
            else:
                group.held[place] = _STILL_CHANGING
        if conflicts:
            self._settle(group, conflicts)

    def _is_stable(self, group: _Group, place: TopicPartition) -> bool:
        """Whether a conflict is the same as in the previous pass.

        A consumer that commits to both stores commits to one of them first, and will settle the
        difference itself.
        """
        offsets = group.offsets(place)
        before = self._conflicts.get((group.name, place))
        self._conflicts[group.name, place] = offsets
        return offsets == before

    def _take(self, group: _Group, place: TopicPartition, decision: Decision) -> None:
        node, position = group.offsets(place)
        if decision is Decision.TO_BROKER:
            assert node is not None
            group.to_broker[place] = node
        else:
            assert position is not None
            group.to_zookeeper[place] = position

    def _settle(self, group: _Group, conflicts: list[TopicPartition]) -> None:
        """Settle partitions that have changed in both stores, in favour of the later change."""
        since_ms = min(group.zookeeper[each].modified_timestamp_ms for each in conflicts)
        commits = self._find_commits(group.name, since_ms)
        for place in conflicts:
            node, committed = group.zookeeper[place], group.broker[place].offset
            timestamp_ms: int | None = None
            if commits is not None:
                commit = commits.get(place)
                if commit is not None and commit.offset != committed:
                    group.held[place] = "committed again during the check"
                    continue
                timestamp_ms = _NEVER_SINCE if commit is None else commit.timestamp_ms
            decision = later(node.offset, node.modified_timestamp_ms, committed, timestamp_ms)
            winner = "ZooKeeper's" if decision is Decision.TO_BROKER else "the broker's"
            why = "is smaller, and times are not known" if commits is None else "is later"
            self._say(
                "conflict",
                f"{group.name} {place[0]}-{place[1]}: both have changed, {node.offset} in "
                f"ZooKeeper and {committed} in the broker; {winner} {why}",
                group=group.name,
                topic=place[0],
                partition=place[1],
                zookeeper=node.offset,
                broker=committed,
                taken=winner.removesuffix("'s").removeprefix("the "),
            )
            self._take(group, place, decision)

    # -- writing ---------------------------------------------------------------------------

    def _remember_sending(self, group: _Group) -> None:
        for place, offset in group.to_broker.items():
            self._agreement(group, place).sent_to_broker.add(offset)
            self._state.changed(group.name, place)
        for place, offset in group.to_zookeeper.items():
            self._agreement(group, place).sent_to_zookeeper.add(group.written_node(place, offset))
            self._state.changed(group.name, place)
        self._state.save()

    def _agreement(self, group: _Group, place: TopicPartition) -> Agreement:
        return self._state.of(group.name, place)

    def _agree(self, group: _Group, place: TopicPartition, node: Node) -> None:
        if self._agreement(group, place).agree(*node):
            self._state.changed(group.name, place)

    def _write_to_broker(self, group: _Group, status: Status) -> None:
        if not group.to_broker:
            return
        positions = {place: OffsetAndMetadata(offset) for place, offset in group.to_broker.items()}
        refused = self._cluster.run(
            group_admin.commit(self._cluster.connections, group.name, positions)
        )
        reasons = {}
        for place, code in refused.items():
            is_absent = code is ErrorCode.unknown_topic_or_partition
            words = code.name.replace("_", " ")
            reasons[place] = _ABSENT_TOPIC if is_absent else f"the broker: {words}"
            self._agreement(group, place).sent_to_broker.discard(group.to_broker[place])
            self._state.changed(group.name, place)
        status.to_broker += self._written(group, group.to_broker, reasons, "the broker")

    def _write_to_zookeeper(self, group: _Group, status: Status) -> None:
        if not group.to_zookeeper:
            return
        nodes = {
            place: (offset, ABSENT if (node := group.node(place)) is None else node.version)
            for place, offset in group.to_zookeeper.items()
        }
        refused = self._zookeeper.write(group.name, nodes)
        reasons = {place: f"ZooKeeper: {reason}" for place, reason in refused.items()}
        for place in refused:
            node = group.written_node(place, group.to_zookeeper[place])
            self._agreement(group, place).sent_to_zookeeper.discard(node)
            self._state.changed(group.name, place)
        status.to_zookeeper += self._written(group, group.to_zookeeper, reasons, "ZooKeeper")

    def _written(
        self, group: _Group, wanted: Mapping[TopicPartition, int], refused: Refusals, where: str
    ) -> int:
        group.held |= refused
        for place, offset in wanted.items():
            if place in refused:
                continue
            node, position = group.offsets(place)
            if where == "the broker":
                before, version = position, group.zookeeper[place].version
            else:
                before, version = node, group.written_node(place, offset).version
            self._agree(group, place, Node(offset, version))
            self._say(
                "written",
                f"{group.name} {place[0]}-{place[1]}: {before} -> {offset} in {where}",
                group=group.name,
                topic=place[0],
                partition=place[1],
                store=where.removeprefix("the "),
                before=before,
                offset=offset,
            )
        return len(wanted) - len(refused)

    def _count(self, group: _Group, status: Status) -> None:
        places = group.zookeeper.keys() | group.broker.keys()
        status.partitions += len(places)
        for place, reason in sorted(group.held.items()):
            difference = Difference(group.name, place, *group.offsets(place), reason)
            if reason == _ABSENT_TOPIC:
                status.absent += 1
            else:
                status.differences.append(difference)
            if reason != _STILL_CHANGING and self._reported.get((group.name, place)) != reason:
                self._reported[group.name, place] = reason
                self._say(
                    "held",
                    f"{difference}, held back by {reason}",
                    group=group.name,
                    topic=place[0],
                    partition=place[1],
                    reason=reason,
                )
        for place in places - group.held.keys():
            self._reported.pop((group.name, place), None)
            self._conflicts.pop((group.name, place), None)


def choose_groups(patterns: Collection[str], known: Callable[[], Collection[str]]) -> list[str]:
    """The groups named here, and those of the known groups that match a pattern, sorted."""
    wildcards = [each for each in patterns if set(each) & set("*?[")]
    found = set(patterns) - set(wildcards)
    if wildcards:
        found.update(group for group in known() if is_chosen(group, wildcards))
    return sorted(found)
