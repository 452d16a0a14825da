"""Groups of the consumer protocol (KIP-848): members of it, and classic members among them."""

from __future__ import annotations

import struct
from datetime import timedelta
from typing import Any

from differential.peer import Connection, Peer
from differential.scripts import differential, newest
from drumlin.wire.error_codes import ErrorCode
from rig.waiting import wait_until

_JOIN: dict[str, Any] = {
    "member_epoch": 0,
    "rebalance_timeout": 30_000,
    "topic_partitions": [],
}
_LIMIT_S = 10.0


def beat(who: Peer | Connection, group: str, member: str, epoch: int, **fields: Any) -> Any:
    request = {"group_id": group, "member_id": member, "member_epoch": epoch} | fields
    return who.ask("consumer_group_heartbeat", 1, **{"topic_partitions": None} | request)


def join(who: Peer | Connection, group: str, member: str, *topics: str, **fields: Any) -> Any:
    if isinstance(who, Peer):
        who.keep(member)
    return beat(who, group, member, **_joining(topics) | fields)


def _joining(topics: tuple[str, ...]) -> dict[str, Any]:
    request: dict[str, Any] = {"epoch": 0, "rebalance_timeout": 30_000, "topic_partitions": []}
    return request | {"subscribed_topic_names": list(topics)}


def describe(peer: Peer, group: str) -> Any:
    version = newest("consumer_group_describe")
    return peer.ask(
        "consumer_group_describe",
        version,
        group_ids=[group],
        include_authorized_operations=True,
    )


def await_no_consumer_group(peer: Peer, group: str) -> None:
    """Apache Kafka describes what is replicated, which may lag its answers."""
    version = newest("consumer_group_describe")

    def is_gone() -> bool:
        request = {"group_ids": [group], "include_authorized_operations": False}
        found = peer.ask_quietly("consumer_group_describe", version, **request).groups[0]
        return bool(found.error_code == ErrorCode.group_id_not_found)

    wait_until(is_gone, f"the end of the consumer group {group} on {peer.name}", _LIMIT_S)


def topic_id(peer: Peer, topic: str) -> Any:
    found = peer.ask_quietly("metadata", 12, topics=[{"name": topic}]).topics[0]
    return found.topic_id


def owned(peer: Peer, topic: str, *partitions: int) -> list[dict[str, Any]]:
    return [{"topic_id": topic_id(peer, topic), "partitions": list(partitions)}]


@differential("consumer_group_describe")
def test_describe(peer: Peer) -> None:
    """Groups of either kind, none, and one whose member has told all there is to tell."""
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    join(peer, group, "member-1", topic, instance_id="instance", rack_id="rack")
    classic = peer.unique("classic")
    peer.await_coordinator(classic)
    protocol = {"name": "range", "metadata": b""}
    joining = {"group_id": classic, "session_timeout": 30_000, "rebalance_timeout": 30_000}
    joining |= {"member_id": "", "protocol_type": "consumer", "protocols": [protocol]}
    peer.ask_quietly("join_group", 3, **joining)
    for names in ([group], [classic], [""], ["no-such-group"], [], [group, "no-such-group"]):
        for is_asked in (False, True):
            peer.ask(group_ids=names, include_authorized_operations=is_asked)
    for epoch in (-2, -1):
        beat(peer, group, "member-1", epoch, instance_id="instance")
        peer.ask(group_ids=[group], include_authorized_operations=False)
    peer.ask_quietly("delete_groups", 2, groups_names=[group])  # others list what there is
    await_no_consumer_group(peer, group)


@differential("consumer_group_heartbeat")
def test_a_member_alone(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    member = peer.keep("member-1")
    named = {"group_id": group, "member_id": member}
    first = peer.ask(**named | _JOIN | {"subscribed_topic_names": [topic]})
    epoch = first.member_epoch
    own = owned(peer, topic, 0, 1)
    going_on = named | {"member_epoch": epoch, "topic_partitions": None}
    peer.note("nothing new")
    peer.ask(**going_on)
    peer.note("what it owns")
    peer.ask(**going_on | {"topic_partitions": own})
    peer.note("everything")
    peer.ask(
        **going_on
        | {
            "topic_partitions": own,
            "rebalance_timeout": 30_000,
            "subscribed_topic_names": [topic],
        }
    )
    describe(peer, group)
    peer.ask("list_groups", 5, states_filter=[], types_filter=["Consumer"])
    peer.ask("describe_groups", 6, groups=[group])
    peer.ask("delete_groups", 2, groups_names=[group])
    peer.note("a topic that is not there")
    peer.ask(**going_on | {"subscribed_topic_names": [topic, "missing"]})
    describe(peer, group)
    peer.note("leaving")
    peer.ask(**named | {"member_epoch": -1, "topic_partitions": None})
    describe(peer, group)
    peer.ask(**named | {"member_epoch": -1, "topic_partitions": None})
    peer.ask("delete_groups", 2, groups_names=[group])
    describe(peer, group)


@differential("consumer_group_heartbeat")
def test_heartbeats_that_are_wrong(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    member = peer.keep("member-1")
    good = {"group_id": group, "member_id": member} | _JOIN | {"subscribed_topic_names": [topic]}
    cases: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "no member": {"member_id": "", "member_epoch": 1},
        "a blank instance": {"instance_id": " "},
        "a blank rack": {"rack_id": ""},
        "no rebalance timeout": {"rebalance_timeout": -1},
        "owns something": {"topic_partitions": owned(peer, topic, 0)},
        "owns null": {"topic_partitions": None},
        "subscribes to nothing": {"subscribed_topic_names": None},
        "away, but not static": {"member_epoch": -2},
        "an epoch of -3": {"member_epoch": -3},
        "an unknown assignor": {"server_assignor": "sticky"},
        "a group that is not there": {"member_epoch": 1},
        "leaves a group that is not there": {"member_epoch": -1},
    }
    for what, fields in cases.items():
        peer.note(what)
        peer.ask(**good | fields)
    if peer.version > 0:
        peer.note("a bad regular expression")
        peer.ask(**good | {"subscribed_topic_names": [], "subscribed_topic_regex": "("})
    peer.note("subscribes to no topics")
    peer.ask(**good | {"subscribed_topic_names": []})
    epoch = peer.ask(**good).member_epoch
    for told in (epoch - 1, epoch + 1, 99):
        peer.note(f"epoch {told}")
        peer.ask(**good | {"member_epoch": told, "topic_partitions": None})
    peer.note("another member")
    peer.ask(**good | {"member_id": peer.keep("member-2"), "member_epoch": epoch})
    peer.note("joins once more")
    peer.ask(**good)


@differential("consumer_group_heartbeat", versions=[1])
def test_two_members(peer: Peer) -> None:
    """The second one gets what the first one has given up."""
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=4)
    peer.await_coordinator(group)
    one = join(peer, group, "a-1", topic)
    two = join(peer, group, "b-2", topic)
    describe(peer, group)
    peer.note("told to give up half of it")
    beat(peer, group, "a-1", one.member_epoch, topic_partitions=owned(peer, topic, 0, 1, 2, 3))
    beat(peer, group, "b-2", two.member_epoch)
    describe(peer, group)
    peer.note("gives up some of it")
    beat(peer, group, "a-1", one.member_epoch, topic_partitions=owned(peer, topic, 0, 1, 2))
    peer.note("gives up the rest")
    beat(peer, group, "a-1", one.member_epoch, topic_partitions=owned(peer, topic, 0, 1))
    beat(peer, group, "b-2", two.member_epoch, topic_partitions=[])
    describe(peer, group)
    peer.note("the answer was lost")
    beat(peer, group, "a-1", one.member_epoch, topic_partitions=owned(peer, topic, 0, 1))
    beat(peer, group, "a-1", one.member_epoch, topic_partitions=None)
    peer.note("one leaves")
    beat(peer, group, "a-1", -1)
    beat(peer, group, "b-2", two.member_epoch, topic_partitions=owned(peer, topic, 2, 3))
    describe(peer, group)


@differential("consumer_group_heartbeat", versions=[1])
def test_another_subscription(peer: Peer) -> None:
    group = peer.unique("group")
    first, second = peer.subscribable_topic("first", 2), peer.subscribable_topic("second", 2)
    peer.await_coordinator(group)
    epoch = join(peer, group, "a-1", first, server_assignor="range").member_epoch
    own = owned(peer, first, 0, 1)
    peer.note("other topics")
    beat(peer, group, "a-1", epoch, subscribed_topic_names=[second], topic_partitions=own)
    beat(peer, group, "a-1", epoch, topic_partitions=own)
    told = beat(peer, group, "a-1", epoch, topic_partitions=[])
    describe(peer, group)
    peer.note("nothing")
    beat(peer, group, "a-1", told.member_epoch, subscribed_topic_names=[])
    describe(peer, group)


@differential("consumer_group_heartbeat", versions=[1])
def test_static_members(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    static = {"instance_id": "red"}
    epoch = join(peer, group, "a-1", topic, **static).member_epoch
    peer.note("the place is taken")
    join(peer, group, "a-2", topic, **static)
    peer.note("leaves for a while")
    beat(peer, group, "a-1", -2, **static)
    describe(peer, group)
    beat(peer, group, "a-1", epoch, **static)
    peer.note("is back")
    back = join(peer, group, "a-3", topic, **static)
    describe(peer, group)
    beat(peer, group, "a-1", epoch, **static)
    beat(peer, group, "a-3", back.member_epoch)
    beat(peer, group, "a-3", back.member_epoch, instance_id="blue")
    beat(peer, group, "a-1", -1, **static)
    beat(peer, group, "a-3", -1, instance_id="blue")
    beat(peer, group, "a-3", -1, **static)
    describe(peer, group)


@differential("consumer_group_heartbeat", versions=[1])
def test_offsets_of_members(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    epoch = join(peer, group, "a-1", topic).member_epoch

    def commit(version: int, member: str, told: int) -> None:
        peer.note(f"{member or 'nobody'} commits in epoch {told}")
        part = {"partition_index": 0, "committed_offset": 5, "committed_metadata": ""}
        named = {"name": topic, "topic_id": topic_id(peer, topic)}
        peer.ask(
            "offset_commit",
            version,
            group_id=group,
            member_id=member,
            generation_id_or_member_epoch=told,
            group_instance_id=None,
            topics=[named | {"partitions": [part]}],
        )

    def fetch(member: str | None, told: int) -> None:
        peer.note(f"{member or 'nobody'} fetches in epoch {told}")
        asked = {"group_id": group, "member_id": member, "member_epoch": told}
        peer.ask("offset_fetch", 9, groups=[asked | {"topics": None}], require_stable=False)

    for version in (8, 9, 10):
        commit(version, "a-1", epoch)
    for member, told in (("a-1", epoch - 1), ("a-1", epoch + 1), ("b-2", epoch), ("", -1)):
        commit(9, member, told)
        fetch(member, told)
    fetch(None, -1)
    fetch("a-1", epoch)
    topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
    peer.ask("offset_delete", 0, group_id=group, topics=topics)
    beat(peer, group, "a-1", -1)
    commit(9, "a-1", epoch)
    commit(9, "", -1)
    peer.ask("offset_delete", 0, group_id=group, topics=topics)


@differential("consumer_group_heartbeat", versions=[1])
def test_topics_that_change(peer: Peer) -> None:
    """Partitions that are added, a topic that comes later: each gives the group an epoch."""
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=1)
    later = peer.unique("later")
    peer.await_coordinator(group)
    epoch = join(peer, group, "a-1", topic, later).member_epoch
    more = {"name": topic, "count": 2, "assignments": None}
    peer.ask("create_partitions", 3, topics=[more], timeout=10_000, validate_only=False)
    peer.await_topic(topic, 2)
    epoch = _until_epoch(peer, group, epoch)
    peer.subscribable_topic("later")
    _until_epoch(peer, group, epoch)
    describe(peer, group)


def _until_epoch(peer: Peer, group: str, epoch: int) -> int:
    """Heartbeats that are not compared, until the member is in another epoch."""

    def moved() -> int:
        request = {"group_id": group, "member_id": "a-1", "member_epoch": epoch}
        told = peer.ask_quietly("consumer_group_heartbeat", 1, **request, topic_partitions=None)
        return int(told.member_epoch) if told.member_epoch != epoch else 0

    return wait_until(moved, f"another epoch of {group} on {peer.name}", _LIMIT_S)


@differential("consumer_group_heartbeat", versions=[1])
def test_regular_expressions(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    fields = {"subscribed_topic_names": None, "subscribed_topic_regex": f"{topic[:-1]}.*"}
    epoch = join(peer, group, "a-1", **fields).member_epoch
    epoch = _until_epoch(peer, group, epoch)
    describe(peer, group)
    peer.note("a second member with the same")
    join(peer, group, "b-2", **fields)
    peer.note("names instead")
    beat(
        peer,
        group,
        "a-1",
        epoch,
        subscribed_topic_names=[topic],
        subscribed_topic_regex="",
        topic_partitions=owned(peer, topic, 0, 1),
    )
    describe(peer, group)


@differential("consumer_group_heartbeat", versions=[1])
def test_the_configuration_of_a_group(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=1)
    peer.await_coordinator(group)
    change = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "6000"}
    resource = {"resource_type": 32, "resource_name": group, "configs": [change]}
    peer.ask("incremental_alter_configs", 1, resources=[resource], validate_only=False)
    request = {"group_id": group, "member_id": peer.keep("a-1"), "member_epoch": 0}
    first = request | {"rebalance_timeout": 30_000, "subscribed_topic_names": [topic]}
    told = peer.ask_quietly("consumer_group_heartbeat", 1, topic_partitions=[], **first)
    epoch = told.member_epoch

    def changed() -> bool:
        request = {"group_id": group, "member_id": "a-1", "member_epoch": epoch}
        told = peer.ask_quietly("consumer_group_heartbeat", 1, **request, topic_partitions=None)
        return bool(told.heartbeat_interval == timedelta(seconds=6))

    wait_until(changed, f"the interval of {group} on {peer.name}", _LIMIT_S)
    beat(peer, group, "a-1", epoch)


# -- classic members -----------------------------------------------------------------------------


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(each)) + each.encode() for each in topics)
    return struct.pack(">hi", 1, len(topics)) + names + struct.pack(">ii", -1, 0)


def classic_join(who: Peer | Connection, group: str, member: str, topic: str, **fields: Any) -> Any:
    request: dict[str, Any] = {
        "group_id": group,
        "member_id": member,
        "session_timeout": 30_000,
        "rebalance_timeout": 30_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": subscription(topic)}],
        "group_instance_id": None,
    }
    return who.ask("join_group", newest("join_group"), **request | fields)


def classic_sync(who: Peer | Connection, group: str, joined: Any, **fields: Any) -> Any:
    request: dict[str, Any] = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    }
    return who.ask("sync_group", newest("sync_group"), **request | fields)


def classic_beat(peer: Peer, group: str, joined: Any, **fields: Any) -> Any:
    request = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    return peer.ask("heartbeat", newest("heartbeat"), **request | fields)


@differential("consumer_group_heartbeat", versions=[1])
def test_a_classic_member_joins(peer: Peer) -> None:
    """It keeps using the requests that it knows; with it alone the group is a classic one again."""
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    epoch = join(peer, group, "a-1", topic).member_epoch
    peer.note("wrongly")
    classic_join(peer, group, "", topic, protocol_type="connect")
    classic_join(peer, group, "", topic, protocols=[])
    peer.note("rightly")
    first = classic_join(peer, group, "", topic)
    joined = classic_join(peer, group, first.member_id, topic)
    peer.call(joined.member_id, "the classic member")
    classic_sync(peer, group, joined)
    classic_sync(peer, group, joined, protocol_name="sticky")
    classic_sync(peer, group, joined, generation_id=99)
    classic_beat(peer, group, joined)
    classic_beat(peer, group, joined, generation_id=99)
    classic_beat(peer, group, joined, member_id="a-1")
    peer.note("the other gives up half")
    beat(peer, group, "a-1", epoch, topic_partitions=owned(peer, topic, 0, 1))
    beat(peer, group, "a-1", epoch, topic_partitions=owned(peer, topic, 0))
    classic_beat(peer, group, joined)
    again = classic_join(peer, group, joined.member_id, topic)
    classic_sync(peer, group, again)
    classic_beat(peer, group, again)
    describe(peer, group)
    peer.note("the other leaves")
    beat(peer, group, "a-1", -1)
    described = peer.ask("describe_groups", 6, groups=[group])
    assert described.groups[0].error_code == ErrorCode.none
    classic_beat(peer, group, again)


@differential("consumer_group_heartbeat", versions=[1])
def test_a_classic_group_is_joined(peer: Peer) -> None:
    """The classic group becomes a consumer group; its member keeps what it has for a while."""
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    first = classic_join(peer, group, "", topic)
    joined = classic_join(peer, group, first.member_id, topic)
    peer.call(joined.member_id, "the classic member")
    name = topic.encode()
    assignment = struct.pack(">hih", 0, 1, len(name)) + name + struct.pack(">iiii", 2, 0, 1, -1)
    assigned = [{"member_id": joined.member_id, "assignment": assignment}]
    classic_sync(peer, group, joined, assignments=assigned)
    new = join(peer, group, "a-1", topic)
    describe(peer, group)
    classic_beat(peer, group, joined)
    peer.note("joins again, as it is told")
    again = classic_join(peer, group, joined.member_id, topic)
    classic_sync(peer, group, again)
    beat(peer, group, "a-1", new.member_epoch)
    classic_join(peer, group, joined.member_id, topic)
    beat(peer, group, "a-1", new.member_epoch)
    describe(peer, group)
    peer.note("leaves")
    members = [{"member_id": each} for each in (joined.member_id, "nobody", "a-1")]
    peer.ask("leave_group", newest("leave_group"), group_id=group, members=members)
    describe(peer, group)
    peer.note("an empty group becomes a classic one")
    classic_join(peer, group, "", topic)
    await_no_consumer_group(peer, group)
    describe(peer, group)
    peer.ask("describe_groups", 6, groups=[group])


@differential("consumer_group_heartbeat", versions=[1])
def test_a_group_of_another_protocol(peer: Peer) -> None:
    group, topic = peer.unique("group"), peer.subscribable_topic(partitions=2)
    peer.await_coordinator(group)
    first = classic_join(peer, group, "", topic, protocol_type="connect")
    classic_join(peer, group, first.member_id, topic, protocol_type="connect")
    join(peer, group, "a-1", topic)
    beat(peer, group, "a-1", 1)
    describe(peer, group)
