"""Groups of consumers: their members, their offsets, and what is told of them."""

from __future__ import annotations

from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import (
    CONSUMERS,
    GROUPS,
    KNOWN,
    KNOWN_GROUP,
    MISSING,
    OTHER,
    OTHER_GROUP,
    TOPICS,
)

_JOINING = {"session_timeout": 6000, "rebalance_timeout": 6000, "protocol_type": "consumer"}
#: Of a consumer that wants all topics here.
_SUBSCRIPTION = b"\0\0" + len(TOPICS).to_bytes(4, "big")
_SUBSCRIPTION += b"".join(len(each).to_bytes(2, "big") + each.encode() for each in TOPICS)
_PROTOCOLS = [{"name": "range", "metadata": _SUBSCRIPTION + bytes(4)}]
_STRANGE = {"member_id": "somebody", "generation_id": 3}


@each_right("offset_commit", "GT", [2, 9])
def test_offset_commit(person: Person) -> None:
    partitions = [
        {"partition_index": index, "committed_offset": 1, "committed_metadata": ""}
        for index in (0, 7)
    ]
    topics = [{"name": name, "partitions": partitions} for name in TOPICS]
    whose = {"generation_id_or_member_epoch": -1}
    for group in (KNOWN_GROUP, "a-committed", OTHER_GROUP):
        person.note(group)
        person.ask(group_id=group, topics=topics, **whose)
    person.note("of a member")
    member = {"generation_id_or_member_epoch": 3, "member_id": "somebody"}
    person.ask(group_id=KNOWN_GROUP, topics=topics, **member)
    person.note("no topics")
    person.ask(group_id=KNOWN_GROUP, topics=[], **whose)


@each_right("offset_commit", "GT")
def test_offset_commit_by_id(person: Person) -> None:
    partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
    topics = [{"topic_id": each, "partitions": [partition]} for each in person.place.ids]
    person.ask(group_id=KNOWN_GROUP, topics=topics, generation_id_or_member_epoch=-1)


@each_right("offset_fetch", "GT", [1, 7, 9])
def test_offset_fetch(person: Person) -> None:
    topics = [{"name": name, "partition_indexes": [0, 7]} for name in TOPICS]
    for wanted in (topics, [], None):
        if wanted is None and person.version < 2:
            continue
        person.note(f"{wanted and len(wanted)} topics")
        if person.version < 8:
            for group in GROUPS:
                person.ask(group_id=group, topics=wanted)
        else:
            person.ask(groups=[{"group_id": group, "topics": wanted} for group in GROUPS])


@each_right("offset_fetch", "GT")
def test_offset_fetch_by_id(person: Person) -> None:
    topics = [{"topic_id": each, "partition_indexes": [0]} for each in person.place.ids]
    for wanted in (topics, None):
        person.note(f"{wanted and len(wanted)} topics")
        groups = [{"group_id": group, "topics": wanted} for group in GROUPS]
        person.ask(groups=groups)
        person.ask(groups=[each | {"member_id": "m", "member_epoch": 4} for each in groups])


@each_right("offset_delete", "GT")
def test_offset_delete(person: Person) -> None:
    partitions = [{"partition_index": 0}, {"partition_index": 7}]
    topics = [{"name": name, "partitions": partitions} for name in TOPICS]
    for group in GROUPS:
        person.note(group)
        answer = person.ask(group_id=group, topics=topics)
        if answer and not answer.error_code:
            person.place.commit(group)


@each_right("find_coordinator", "GXC", [2, 5, 6])
def test_find_coordinator(person: Person) -> None:
    share_key = f"{KNOWN_GROUP}:AAAAAAAAAAAAAAAAAAAAAQ:0"
    for kind, keys in enumerate((GROUPS, ("a-txn", "txn"), (share_key, "no key"), ("a-txn",))):
        person.note(f"kind {kind}")
        if person.version >= 4:
            person.ask(key_type=kind, coordinator_keys=keys)
        else:
            for key in keys:
                person.ask(key_type=kind, key=key)


@each_right("join_group", "GT", [0, 5, 9])
def test_join_group(person: Person) -> None:
    for group in (KNOWN_GROUP, "no-group"):
        person.note(group)
        person.ask(group_id=group, member_id="somebody", protocols=_PROTOCOLS, **_JOINING)
        person.ask(group_id=group, member_id="somebody", protocols=[], **_JOINING)
    person.note("a group without a name")
    person.ask(group_id="", member_id="", protocols=_PROTOCOLS, **_JOINING)


@each_right("join_group", "GT", [9])
def test_members(person: Person) -> None:
    """A member of the first protocol, from joining to leaving."""
    group = person.own("members")
    joining = {"group_id": group, "protocols": _PROTOCOLS, **_JOINING}
    member_id = person.ask(member_id="", **joining).member_id
    answer = person.ask(member_id=member_id, **joining)
    member = {"group_id": group, "member_id": answer.member_id}
    member["generation_id"] = answer.generation_id
    given = [{"member_id": answer.member_id, "assignment": b"all"}]
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    person.ask("sync_group", assignments=given, **member, **protocol)
    person.ask("heartbeat", **member)
    person.ask("describe_groups", groups=[group], include_authorized_operations=True)
    person.ask("leave_group", group_id=group, members=[{"member_id": answer.member_id}])


@each_right("sync_group", "G", [0, 5])
def test_sync_group(person: Person) -> None:
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    for group in (*GROUPS, ""):
        person.note(group)
        person.ask(group_id=group, assignments=[], **_STRANGE, **protocol)


@each_right("heartbeat", "G")
def test_heartbeat(person: Person) -> None:
    for group in (*GROUPS, ""):
        person.note(group)
        person.ask(group_id=group, **_STRANGE)


@each_right("leave_group", "G", [2, 5])
def test_leave_group(person: Person) -> None:
    for group in (*GROUPS, ""):
        person.note(group)
        person.ask(group_id=group, member_id="m", members=[{"member_id": "m"}])


@each_right("describe_groups", "GC", [2, 5, 6])
def test_describe_groups(person: Person) -> None:
    for operations in (False, True):
        person.note(f"operations: {operations}")
        person.ask(groups=[*GROUPS, ""], include_authorized_operations=operations)


@each_right("list_groups", "GC")
def test_list_groups(person: Person) -> None:
    """Of the groups that scripts have made, only these are there for all of them."""
    for states in ([], ["Empty"], ["no state"]):
        person.note(f"{states}")
        person.ask_about_groups(GROUPS, states_filter=states, types_filter=[])


@each_right("delete_groups", "G")
def test_delete_groups(person: Person) -> None:
    answer = person.ask(groups_names=[*GROUPS[:2], "no-group", "", person.own("no")])
    if answer and any(not each.error_code for each in answer.results):
        person.place.commit(KNOWN_GROUP)


def _heartbeat(group: str, **fields: Any) -> dict[str, Any]:
    joining = {"member_epoch": 0, "rebalance_timeout": 6000, "topic_partitions": []}
    return {"group_id": group, "member_id": "member", **joining, **fields}


@each_right("consumer_group_heartbeat", "GT")
def test_consumer_group_heartbeat(person: Person) -> None:
    for names in ([KNOWN], [MISSING], [OTHER], [KNOWN, OTHER], []):
        person.note(f"{names}")
        own = person.own("-".join(["consumer", *names]))
        for group in (own, f"other-{own}"):
            person.ask(**_heartbeat(group, subscribed_topic_names=names))
    person.note("without epoch")
    person.ask(**_heartbeat(KNOWN_GROUP, member_epoch=-3, subscribed_topic_names=[OTHER]))
    person.note("not joined")
    person.ask(**_heartbeat(KNOWN_GROUP, member_epoch=3, subscribed_topic_names=[OTHER]))


@each_right("consumer_group_describe", "GT")
def test_consumer_group_describe(person: Person) -> None:
    person.place.have_consumer_groups()
    groups = [*CONSUMERS, *GROUPS]
    for operations in (False, True):
        person.note(f"operations: {operations}")
        person.ask(group_ids=[*groups, ""], include_authorized_operations=operations)
