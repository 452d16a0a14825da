"""Share groups: members, how far a group has come, its state, and its configuration.

A member of Drumlin has its partitions with its first heartbeat, one of Apache Kafka with a later
one; so scripts let members settle before they compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from differential.peer import Peer
from differential.scripts import differential
from drumlin.storage.directory.partition_metadata import encode_uuid
from drumlin.wire.error_codes import ErrorCode
from rig.waiting import wait_until

_NOBODY = "no-such-group"
_GROUP, _TOPIC, _BROKER, _LOGGER, _METRICS = 32, 2, 4, 8, 16


class Group:
    """Requests to one broker in the name of a share group's members."""

    def __init__(self, peer: Peer, name: str = "group") -> None:
        self.peer = peer
        self.id = peer.unique(name)

    def heartbeat(
        self, member: str, epoch: int, topics: Sequence[str] | None = None, **fields: Any
    ) -> Any:
        return self.peer.ask(
            "share_group_heartbeat", 1, **self._beat(member, epoch, topics, fields)
        )

    def settle(self, *members: str, topics: Sequence[str], partitions: int) -> dict[str, int]:
        """Set-up: members join and beat until they have a number of partitions; their epochs."""
        self.find()
        epochs = dict.fromkeys(members, 0)

        def settled() -> bool:
            held = 0
            for member in members:
                beat = self._beat(member, epochs[member], topics, {})
                answer = self.peer.ask_quietly("share_group_heartbeat", 1, **beat)
                if answer.error_code != ErrorCode.none:
                    return False
                epochs[member] = answer.member_epoch
                assigned = answer.assignment.topic_partitions if answer.assignment else ()
                held += sum(len(each.partitions) for each in assigned)
            return held >= partitions and len(set(epochs.values())) == 1

        wait_until(settled, f"members of {self.id} on {self.peer.name} to settle")
        return epochs

    def leave(self, *members: str) -> None:
        """Set-up: members leave."""
        for member in members:
            self.peer.ask_quietly("share_group_heartbeat", 1, **self._beat(member, -1, None, {}))

    def _beat(
        self, member: str, epoch: int, topics: Sequence[str] | None, fields: dict[str, Any]
    ) -> dict[str, Any]:
        self.peer.keep(member)
        wanted = None if topics is None else list(topics)
        asked = {"member_id": member, "member_epoch": epoch, "subscribed_topic_names": wanted}
        return {"group_id": self.id, "rack_id": None, **asked, **fields}

    def find(self) -> None:
        """Set-up: wait until the coordinator serves."""

        def found() -> bool:
            asked = {"key_type": 0, "coordinator_keys": [self.id]}
            answer = self.peer.ask_quietly("find_coordinator", 4, **asked)
            described = self.peer.ask_quietly(
                "share_group_describe",
                1,
                group_ids=[self.id],
                include_authorized_operations=False,
            )
            loading = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
            is_found = answer.coordinators[0].error_code == ErrorCode.none
            return is_found and described.groups[0].error_code not in loading

        wait_until(found, f"the coordinator of {self.id} on {self.peer.name}")

    def describe(self, *others: str) -> None:
        self.peer.ask(
            "share_group_describe",
            1,
            group_ids=[self.id, *others],
            include_authorized_operations=True,
        )

    def offsets(self, version: int = 1, topics: Any = None) -> Any:
        asked = [{"group_id": self.id, "topics": topics}]
        return self.peer.ask("describe_share_group_offsets", version, groups=asked)

    def alter(self, **offsets: dict[int, int]) -> None:
        topics = [
            {
                "topic_name": name,
                "partitions": [
                    {"partition_index": index, "start_offset": offset}
                    for index, offset in partitions.items()
                ],
            }
            for name, partitions in offsets.items()
        ]
        self.peer.ask("alter_share_group_offsets", 0, group_id=self.id, topics=topics)


@differential("share_group_heartbeat")
def test_odd_heartbeats(peer: Peer) -> None:
    group = Group(peer)
    group.find()
    topic = peer.subscribable_topic()
    group.heartbeat("m", 0)
    group.heartbeat("m", 0, [])
    group.heartbeat("", 0, [topic])
    group.heartbeat(" ", 0, [topic])
    group.heartbeat("m", 0, [topic], group_id="")
    group.heartbeat("m", 0, [topic], rack_id="")
    group.heartbeat("m", -2)
    peer.note("a group that is not there")
    group.heartbeat("m", 1)
    group.heartbeat("m", -1)
    group.describe(_NOBODY, "")


@differential("share_group_heartbeat")
def test_members_come_and_go(peer: Peer) -> None:
    topic = peer.subscribable_topic(partitions=3)
    group = Group(peer)
    epochs = group.settle("a", topics=[topic], partitions=3)
    group.heartbeat("a", epochs["a"])
    group.heartbeat("a", epochs["a"] - 1)
    group.describe()
    peer.note("epochs that are not the member's")
    group.heartbeat("a", epochs["a"] + 1)
    group.heartbeat("a", epochs["a"] + 9)
    group.heartbeat("b", epochs["a"])
    group.heartbeat("b", -1)
    peer.note("it leaves")
    group.heartbeat("a", -1)
    group.heartbeat("a", -1)
    group.heartbeat("a", epochs["a"])
    group.describe()
    peer.ask("list_groups", 5, states_filter=["empty"], types_filter=["share"])


@differential("share_group_heartbeat")
def test_topics_that_are_not_there(peer: Peer) -> None:
    missing = peer.unique("missing")
    group = Group(peer)
    group.find()
    group.heartbeat("a", 0, [missing], rack_id="rack-1")
    group.heartbeat("a", 1)
    group.describe()
    group.offsets()


@differential("share_group_heartbeat")
def test_groups_of_another_kind(peer: Peer) -> None:
    topic = peer.subscribable_topic()
    group = Group(peer)
    group.settle("a", topics=[topic], partitions=1)
    commit = {
        "group_id": group.id,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
    }
    position = {"partition_index": 0, "committed_offset": 3, "committed_leader_epoch": -1}
    position["committed_metadata"] = ""  # type: ignore[assignment]
    topics = [{"name": topic, "partitions": [position]}]
    peer.ask("offset_commit", 9, **commit, topics=topics)
    wanted = {"group_id": group.id, "topics": [{"name": topic, "partition_indexes": [0]}]}
    peer.ask("offset_fetch", 8, groups=[wanted], require_stable=False)
    deleted = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    peer.ask("offset_delete", 0, group_id=group.id, topics=deleted)
    peer.ask("describe_groups", 6, groups=[group.id], include_authorized_operations=False)
    peer.ask("delete_groups", 2, groups_names=[group.id])
    group.leave("a")
    peer.ask("delete_groups", 2, groups_names=[group.id])
    group.describe()


@differential("describe_share_group_offsets")
def test_how_far_a_group_has_come(peer: Peer) -> None:
    version = peer.version
    topic = peer.subscribable_topic(partitions=2)
    group = Group(peer)
    group.offsets(version)
    group.settle("a", topics=[topic], partitions=2)
    group.offsets(version)
    group.alter(**{topic: {0: 0}})
    group.leave("a")
    group.alter(**{topic: {0: 0, 1: 0, 2: 5}, peer.unique("missing"): {0: 0}})
    group.offsets(version)
    peer.note("by name")
    missing = {"topic_name": peer.unique("missing"), "partitions": [0]}
    group.offsets(version, [{"topic_name": topic, "partitions": [0]}, missing])
    group.offsets(version, [])


@differential("delete_share_group_offsets")
def test_offsets_are_deleted(peer: Peer) -> None:
    topic, other = peer.subscribable_topic(partitions=2), peer.subscribable_topic("other")
    group = Group(peer)
    names = [{"topic_name": name} for name in (topic, other, peer.unique("missing"))]
    group.find()
    peer.ask(group_id=group.id, topics=names)
    group.settle("a", topics=[topic], partitions=2)
    peer.ask(group_id=group.id, topics=names)
    group.leave("a")
    peer.ask(group_id=group.id, topics=names)
    group.offsets()
    peer.ask(group_id=group.id, topics=names)
    peer.ask(group_id=group.id, topics=[])


@differential("alter_share_group_offsets")
def test_offsets_before_there_is_a_group(peer: Peer) -> None:
    topic = peer.subscribable_topic()
    group = Group(peer)
    group.settle("a", topics=[topic], partitions=1)  # so that the state's topic is there
    other = Group(peer, "other")
    other.find()
    other.alter(**{topic: {0: 0}})
    other.offsets()
    other.describe()


class State:
    """The state of one partition of a share group, as its leader and its group use it."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.group = peer.unique("group")
        self.topic_id = peer.topic_id(peer.subscribable_topic())

    def find(self) -> None:
        """Set-up: wait until the coordinator serves."""
        key = f"{self.group}:{encode_uuid(self.topic_id)}:0"

        def ready() -> bool:
            asked = {"key_type": 2, "coordinator_keys": [key]}
            found = self.peer.ask_quietly("find_coordinator", 6, **asked).coordinators[0]
            if found.error_code != ErrorCode.none:
                return False
            topics = [{"topic_id": self.topic_id, "partitions": [{"partition": 0}]}]
            answer = self.peer.ask_quietly(
                "delete_share_group_state", 0, group_id=self.group, topics=topics
            )
            return bool(answer.results[0].partitions[0].error_code == ErrorCode.none)

        wait_until(ready, f"the share coordinator of {self.peer.name}")

    def ask(self, api: str, version: int = 0, partition: int = 0, **fields: Any) -> None:
        topics = [{"topic_id": self.topic_id, "partitions": [{"partition": partition, **fields}]}]
        self.peer.ask(api, version, group_id=self.group, topics=topics)

    def initialize(self, state_epoch: int, start_offset: int, **fields: Any) -> None:
        epochs = {"state_epoch": state_epoch, "start_offset": start_offset}
        self.ask("initialize_share_group_state", **epochs, **fields)

    def read(self, leader_epoch: int, **fields: Any) -> None:
        self.ask("read_share_group_state", leader_epoch=leader_epoch, **fields)
        api = "read_share_group_state_summary"
        self.ask(api, self.peer.version, leader_epoch=leader_epoch, **fields)

    def write(self, *batches: tuple[int, int, int, int], **fields: Any) -> None:
        names = ("first_offset", "last_offset", "delivery_state", "delivery_count")
        wanted = {
            "state_epoch": 1,
            "leader_epoch": 0,
            "start_offset": -1,
            "delivery_complete_count": 0,
            "state_batches": [dict(zip(names, batch, strict=True)) for batch in batches],
        }
        self.ask("write_share_group_state", self.peer.version, **wanted | fields)


@differential("write_share_group_state")
def test_states(peer: Peer) -> None:
    """Written and summed up in the same version: both have a 0 and a 1."""
    state = State(peer)
    state.find()
    peer.note("before there is one")
    state.read(0)
    state.write((0, 9, 2, 1))
    peer.note("what is written is read")
    state.initialize(1, 0)
    state.read(0)
    state.write((0, 9, 2, 1), (5, 12, 0, 2), (20, 29, 0, 1))
    state.read(0)
    state.write((6, 6, 4, 2), (30, 30, 0, 1), delivery_complete_count=7)
    state.read(0)
    state.write((7, 7, 2, 2), start_offset=6, delivery_complete_count=3)
    state.read(0)
    peer.note("fenced")
    state.read(-1)
    state.write((40, 40, 2, 1), leader_epoch=-2)
    state.write((40, 40, 2, 1), state_epoch=0)
    state.write((40, 40, 2, 1), leader_epoch=-1, state_epoch=-1)
    state.read(0)
    state.initialize(0, 0)
    state.initialize(2, -1)
    state.read(0)
    peer.note("deleted")
    state.ask("delete_share_group_state")
    state.read(0)
    peer.note("partitions that are not there")
    for partition in (-1, 7):
        state.initialize(1, 0, partition=partition)
        state.read(0, partition=partition)
        state.write(partition=partition)
        state.ask("delete_share_group_state", partition=partition)


@differential("write_share_group_state", [1])
def test_states_that_mean_nothing(peer: Peer) -> None:
    """A writer is believed. A batch that ends before it begins is never sent to Kafka: its
    coordinator may not come back from that."""
    state = State(peer)
    state.find()
    end = 2**63 - 1
    for batches in (
        [(0, 4, 1, 1)],
        [(0, 4, 7, 1)],
        [(0, 4, -1, -7)],
        [(-9, 4, 2, 1), (-9, -5, 2, 1)],
        [(0, 4, 0, 32767)],
        [(0, end, 0, 1), (end, end, 2, 1)],
        [(2, 4, 2, 1), (0, 1, 2, 1), (2, 7, 0, 3)],
    ):
        peer.note(str(batches))
        state.ask("delete_share_group_state")
        state.initialize(1, 0)
        state.write(*batches)
        state.read(0)
    for offset in (-2, -end, end):
        peer.note(f"start offset {offset}")
        state.ask("delete_share_group_state")
        state.initialize(1, 0)
        state.write((0, 3, 2, 1), start_offset=offset, delivery_complete_count=-9)
        state.read(0)
    for epoch in (-5, 99):
        peer.note(f"epochs {epoch}")
        state.write((0, 3, 2, 1), state_epoch=epoch)
        state.write((0, 3, 2, 1), leader_epoch=epoch)
        state.read(0)


@differential("delete_share_group_state")
def test_state_of_nothing(peer: Peer) -> None:
    state = State(peer)
    state.find()
    nothing = {"topic_id": state.topic_id, "partitions": []}
    one = {"topic_id": state.topic_id, "partitions": [{"partition": 0}]}
    peer.ask(group_id="", topics=[one])
    peer.ask(group_id=state.group, topics=[])
    peer.ask(group_id=state.group, topics=[nothing])
    key = f"{state.group}:{peer.keep('SvqXyFA-SQGVRA1d-mqqCA')}"
    for each in (f"{key}:0", key, f"{key}:x", "x:y:0", ":::", ""):
        asked = {"key_type": 2, "coordinator_keys": [peer.keep(each)]}
        peer.ask("find_coordinator", 6, **asked)


@differential("list_config_resources")
def test_resources_with_a_configuration(peer: Peer) -> None:
    if peer.version == 0:
        peer.ask()
        return
    group = peer.unique("group")
    setting = {"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}
    resource = {"resource_type": _GROUP, "resource_name": group, "configs": [setting]}
    peer.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    for types in ([_BROKER], [_LOGGER], [_METRICS], [_BROKER, _LOGGER], [0], [99], [_BROKER, 3]):
        peer.ask(resource_types=types)
    listed = peer.ask_quietly("list_config_resources", 1, resource_types=[_GROUP])
    assert group in [each.resource_name for each in listed.config_resources]


@differential("incremental_alter_configs", [1])
def test_settings_of_share_groups(peer: Peer) -> None:
    group = peer.unique("group")
    for key, value in (
        ("share.auto.offset.reset", "by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:PT"),
        ("share.auto.offset.reset", "by_duration:-PT1H"),
        ("share.auto.offset.reset", "nowhere"),
        ("share.assignment.interval.ms", "15001"),
        ("share.assignment.interval.ms", "15000"),
        ("share.delivery.count.limit", "11"),
        ("share.delivery.count.limit", "10"),
        ("share.partition.max.record.locks", "4001"),
        ("share.partition.max.record.locks", "100"),
        ("share.isolation.level", "read_committed"),
        ("share.renew.acknowledge.enable", "false"),
        ("share.session.timeout.ms", "60000"),
        ("share.heartbeat.interval.ms", "15000"),
        ("share.no.such.key", "1"),
    ):
        setting = {"name": key, "config_operation": 0, "value": value}
        resource = {"resource_type": _GROUP, "resource_name": group, "configs": [setting]}
        peer.ask(resources=[resource], validate_only=False)
    described = {"resource_type": _GROUP, "resource_name": group, "configuration_keys": None}
    wait_until(lambda: _is_set(peer, group), f"settings of {group} on {peer.name}")
    peer.ask(
        "describe_configs",
        4,
        resources=[described],
        include_synonyms=True,
        include_documentation=False,
    )


def _is_set(peer: Peer, group: str) -> bool:
    keys = ["share.heartbeat.interval.ms"]
    asked = {"resource_type": _GROUP, "resource_name": group, "configuration_keys": keys}
    answer = peer.ask_quietly(
        "describe_configs",
        4,
        resources=[asked],
        include_synonyms=False,
        include_documentation=False,
    )
    return bool(answer.results[0].configs[0].value == "15000")


def _classic_requests(group: str) -> list[tuple[str, int, dict[str, Any]]]:
    member = {"group_id": group, "member_id": "m", "generation_id": 1, "group_instance_id": None}
    protocols = [{"name": "range", "metadata": b""}]
    timeouts = {"session_timeout": 10_000, "rebalance_timeout": 10_000}
    join = {"protocol_type": "consumer", "protocols": protocols, "group_instance_id": None}
    leaving = [{"member_id": "m", "group_instance_id": None}]
    return [
        ("join_group", 9, {"group_id": group, "member_id": "", **timeouts, **join}),
        ("join_group", 9, {"group_id": group, "member_id": "m", **timeouts, **join}),
        ("sync_group", 5, {**member, "assignments": []}),
        ("heartbeat", 4, member),
        ("leave_group", 5, {"group_id": group, "members": leaving}),
    ]


def _consumer_heartbeat(group: str, topic: str, epoch: int) -> dict[str, Any]:
    asked = {"group_id": group, "member_id": "m", "member_epoch": epoch, "instance_id": None}
    names = {"subscribed_topic_names": [topic], "subscribed_topic_regex": None}
    rest = {"rack_id": None, "server_assignor": None, "topic_partitions": []}
    return {**asked, **names, **rest, "rebalance_timeout": 10_000}


@differential("share_group_heartbeat")
def test_members_of_another_kind(peer: Peer) -> None:
    topic = peer.subscribable_topic()
    group = Group(peer)
    group.settle("a", topics=[topic], partitions=1)
    peer.keep("m")
    for is_empty in (False, True):
        peer.note("an empty share group" if is_empty else "a share group")
        for api, version, fields in _classic_requests(group.id):
            peer.ask(api, version, **fields)
        for epoch in (0, 1, -1):
            beat = _consumer_heartbeat(group.id, topic, epoch)
            peer.ask("consumer_group_heartbeat", 1, **beat)
        described = {"group_ids": [group.id], "include_authorized_operations": False}
        peer.ask("consumer_group_describe", 1, **described)
        group.leave("a")
    peer.note("a consumer group")
    consumers = Group(peer, "consumers")
    consumers.find()
    peer.ask_quietly("consumer_group_heartbeat", 1, **_consumer_heartbeat(consumers.id, topic, 0))
    for epoch in (0, 1, -1):
        consumers.heartbeat("a", epoch, [topic])
    consumers.describe()
    consumers.offsets()
    consumers.alter(**{topic: {0: 0}})
    names = [{"topic_name": topic}]
    peer.ask("delete_share_group_offsets", 0, group_id=consumers.id, topics=names)
