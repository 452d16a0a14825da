"""Share groups, and the state that brokers keep of them."""

from __future__ import annotations

import uuid
from typing import Any

from differential.rights.asking import Person, each_right
from differential.rights.places import (
    KNOWN,
    MISSING,
    OTHER,
    OTHER_MISSING,
    SHARERS,
    SHARING,
    TOPICS,
)

_MISSING_ID = uuid.UUID(int=7)
_GROUPS = (*SHARERS, "a-no-group", "no-group")
_LIMITS = {
    "max_wait": 0,
    "min_bytes": 0,
    "max_bytes": 1 << 20,
    "max_records": 10,
    "batch_size": 10,
}


@each_right("share_group_heartbeat", "GT")
def test_share_group_heartbeat(person: Person) -> None:
    """Of topics that are not there: when the others are assigned is up to the broker."""
    for names in ([MISSING], [OTHER_MISSING], [MISSING, OTHER_MISSING], []):
        person.note(f"{names}")
        own = person.own("-".join(["sharers", *names]))
        for group in (own, f"other-{own}"):
            member = {"group_id": group, "member_id": "member"}
            person.ask(**member, member_epoch=0, subscribed_topic_names=names)
    for epoch in (-3, 3):
        person.note(f"epoch {epoch}")
        member = {"group_id": "a-no-group", "member_id": "member", "member_epoch": epoch}
        person.ask(**member, subscribed_topic_names=[OTHER])
    person.note("without a member id")
    person.ask(group_id="a-no-group", member_id="", member_epoch=0, subscribed_topic_names=[OTHER])


@each_right("share_group_describe", "GT")
def test_share_group_describe(person: Person) -> None:
    person.place.have_share_groups()
    for operations in (False, True):
        person.note(f"operations: {operations}")
        person.ask(group_ids=[*_GROUPS, ""], include_authorized_operations=operations)


def _wanted(person: Person, **partition: Any) -> list[dict[str, Any]]:
    partitions = [{"partition_index": index, **partition} for index in (0, 7)]
    return [{"topic_id": each, "partitions": partitions} for each in person.place.ids[:-1]]


@each_right("share_fetch", "GT")
def test_share_session(person: Person) -> None:
    person.place.have_share_groups()
    member = {"group_id": SHARING, "member_id": str(uuid.uuid5(_MISSING_ID, person.name))}
    person.note("a new session")
    person.ask(**member, **_LIMITS, share_session_epoch=0, topics=_wanted(person))
    person.note("acknowledged")
    batches = [{"first_offset": 0, "last_offset": 0, "acknowledge_types": [1]}]
    acknowledged = _wanted(person, acknowledgement_batches=batches)
    person.ask("share_acknowledge", **member, share_session_epoch=1, topics=acknowledged)
    person.note("acknowledged while fetching")
    person.ask(**member, **_LIMITS, share_session_epoch=2, topics=acknowledged)
    person.note("forgotten")
    gone = [{"topic_id": each, "partitions": [0]} for each in person.place.ids[:1]]
    person.ask(**member, **_LIMITS, share_session_epoch=3, topics=[], forgotten_topics_data=gone)
    person.note("closed")
    person.ask(**member, **_LIMITS, share_session_epoch=-1, topics=[])


@each_right("share_fetch", "GT")
def test_no_share_session(person: Person) -> None:
    whose = str(uuid.uuid5(_MISSING_ID, f"{person.name} again"))
    for group in ("a-sharing", "sharing", ""):
        for member in (whose, "", "no uuid"):
            for epoch in (5, -1):
                person.note(f"{group}, {member}, {epoch}")
                asked = {"group_id": group, "member_id": member, "share_session_epoch": epoch}
                person.ask(**asked, **_LIMITS, topics=_wanted(person))
                person.ask("share_acknowledge", **asked, topics=_wanted(person))


@each_right("describe_share_group_offsets", "GT")
def test_describe_share_group_offsets(person: Person) -> None:
    person.place.have_share_groups()
    topics = [{"topic_name": name, "partitions": [0]} for name in TOPICS]
    for wanted in (topics, [], None):
        person.note(f"{wanted and len(wanted)} topics")
        person.ask(groups=[{"group_id": each, "topics": wanted} for each in _GROUPS])


@each_right("alter_share_group_offsets", "GT")
def test_alter_share_group_offsets(person: Person) -> None:
    person.place.have_share_groups()
    partitions = [{"partition_index": index, "start_offset": 0} for index in (0, 7)]
    topics = [{"topic_name": name, "partitions": partitions} for name in TOPICS]
    for group in _GROUPS[:3]:
        person.note(group)
        person.ask(group_id=group, topics=topics)


@each_right("delete_share_group_offsets", "GT")
def test_delete_share_group_offsets(person: Person) -> None:
    person.place.have_share_groups()
    topics = [{"topic_name": name} for name in TOPICS]
    for group in (*SHARERS, "no-group", ""):
        person.note(group)
        person.ask(group_id=group, topics=topics)


def _have_group_without_members(person: Person, group: str) -> None:
    """Whose offsets can be changed."""
    member = {"group_id": group, "member_id": "one"}
    for epoch, names in ((0, [MISSING]), (-1, None)):
        asked = {"member_epoch": epoch, "subscribed_topic_names": names}
        person.admin.ask("share_group_heartbeat", 1, **member, **asked)


@each_right("alter_share_group_offsets", "GT")
def test_alter_without_members(person: Person) -> None:
    if person.is_first:
        _have_group_without_members(person, "a-altered")
    partitions = [{"partition_index": index, "start_offset": 0} for index in (0, 7)]
    person.note("a group without members")
    for name in TOPICS:
        topic = {"topic_name": name, "partitions": partitions}
        person.ask(group_id="a-altered", topics=[topic])


@each_right("delete_share_group_offsets", "GT")
def test_delete_without_members(person: Person) -> None:
    if person.is_first:
        _have_group_without_members(person, "a-emptied")
    partition = {"partition_index": 0, "start_offset": 0}
    known = [{"topic_name": name, "partitions": [partition]} for name in (KNOWN, OTHER)]
    person.admin.ask("alter_share_group_offsets", 0, group_id="a-emptied", topics=known)
    topics = [{"topic_name": name} for name in TOPICS]
    person.ask(group_id="a-emptied", topics=topics)


def _state(person: Person, group: str, **partition: Any) -> dict[str, Any]:
    """A request about a group whose state is there."""
    person.place.have_share_groups()

    def asked(**fields: Any) -> dict[str, Any]:
        topics = [{"topic_id": each, "partitions": [fields]} for each in person.place.ids]
        return {"group_id": group, "topics": topics}

    if person.is_first:
        first = asked(partition=0, state_epoch=1, start_offset=0)
        person.admin.ask("initialize_share_group_state", 0, **first)
    return asked(partition=0, **partition)


@each_right("initialize_share_group_state", "CG")
def test_initialize_share_group_state(person: Person) -> None:
    person.ask(**_state(person, "a-initialized", state_epoch=2, start_offset=0))


@each_right("read_share_group_state", "CG")
def test_read_share_group_state(person: Person) -> None:
    person.ask(**_state(person, "a-read", leader_epoch=0))


@each_right("write_share_group_state", "CG")
def test_write_share_group_state(person: Person) -> None:
    person.ask(**_state(person, "a-written", state_epoch=0, leader_epoch=0, start_offset=0))


@each_right("read_share_group_state_summary", "CG")
def test_read_share_group_state_summary(person: Person) -> None:
    person.ask(**_state(person, "a-summary", leader_epoch=0))


@each_right("delete_share_group_state", "CG")
def test_delete_share_group_state(person: Person) -> None:
    person.ask(**_state(person, "a-deleted"))
