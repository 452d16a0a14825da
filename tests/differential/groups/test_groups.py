"""Classic consumer groups: joining, syncing, heartbeats, leaving; what lists and describes them."""

from __future__ import annotations

import struct
from typing import Any

from differential.peer import Connection, Peer
from differential.scripts import all_versions, differential, newest

_JOIN = newest("join_group")
SUBSCRIPTION = struct.pack(">hih", 0, 1, 1) + b"t" + struct.pack(">i", -1)
_PLAIN: dict[str, Any] = {
    "session_timeout": 300_000,
    "rebalance_timeout": 300_000,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    "group_instance_id": None,
}


def join(who: Peer | Connection, group: str, member: str = "", **fields: Any) -> Any:
    """Ask to join, in the newest version."""
    request = _PLAIN | {"group_id": group, "member_id": member} | fields
    return who.ask("join_group", _JOIN, **request)


def sync(who: Peer | Connection, group: str, joined: Any, **fields: Any) -> Any:
    """Hand out an assignment to oneself, as the leader of a group of one does."""
    request = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"mine"}],
    }
    return who.ask("sync_group", newest("sync_group"), **request | fields)


def member_of(peer: Peer, who: Peer | Connection, group: str, **fields: Any) -> Any:
    """The two joins of a dynamic member (KIP-394), and its sync; the second answer."""
    peer.await_coordinator(group)
    first = join(who, group, **fields)
    joined = join(who, group, first.member_id, **fields)
    sync(who, group, joined)
    return joined


@differential("join_group")
def test_join_alone(peer: Peer) -> None:
    """From version 4 on, the first answer only gives an id (KIP-394)."""
    group = peer.unique("group")
    peer.await_coordinator(group)
    first = peer.ask(**_PLAIN | {"group_id": group})
    peer.ask(**_PLAIN | {"group_id": group, "member_id": first.member_id})
    peer.ask(**_PLAIN | {"group_id": group, "member_id": first.member_id})


@differential("join_group")
def test_join_wrongly(peer: Peer) -> None:
    peer.await_coordinator("any")
    cases: dict[str, dict[str, Any]] = {
        "no group": {"group_id": ""},
        "unknown member": {"member_id": peer.keep("nobody")},
        "no protocols": {"protocols": []},
        "no protocol type": {"protocol_type": ""},
        "a session of 0 ms": {"session_timeout": 0},
        "a session of -1 ms": {"session_timeout": -1},
        "a session too short": {"session_timeout": 99},
        "a session too long": {"session_timeout": 2**31 - 1},
        "a rebalance of -1 ms": {"rebalance_timeout": -1},
        "an instance without a name": {"group_instance_id": ""},
        "an instance with a bad name": {"group_instance_id": "a b"},
    }
    for number, (what, fields) in enumerate(cases.items()):
        peer.note(what)
        peer.ask(**_PLAIN | {"group_id": peer.unique(f"group-{number}")} | fields)


@differential("join_group", versions=[2, 4, 5, 9])
def test_join_with_other_protocols(peer: Peer) -> None:
    """A group with members keeps its protocol type, and needs a protocol that all know."""
    group = peer.unique("group")
    member_of(peer, peer.connection("first"), group)
    peer.ask(**_PLAIN | {"group_id": group, "protocol_type": "connect"})
    other = [{"name": "sticky", "metadata": b""}]
    peer.ask(**_PLAIN | {"group_id": group, "protocols": other})


@differential("join_group")
def test_two_members(peer: Peer) -> None:
    """The second one makes the first one join again; the leader hears of both."""
    group = peer.unique("group")
    one, two = peer.connection("one"), peer.connection("two")
    protocols = [{"name": "range", "metadata": b"1"}, {"name": "sticky", "metadata": b"2"}]
    first = member_of(peer, one, group, protocols=protocols)
    pending = join(two, group)
    again = _PLAIN | {"group_id": group}
    two.send(**again | {"member_id": pending.member_id})
    peer.await_rebalance(group, first.generation_id, first.member_id)
    one.ask(**again | {"member_id": first.member_id, "protocols": protocols})
    second = two.receive()
    _assign_to_both(peer, one, two, group, second.generation_id, first, pending)


def _assign_to_both(
    peer: Peer, one: Connection, two: Connection, group: str, generation: int, *members: Any
) -> None:
    first, second = members
    assignments = [
        {"member_id": first.member_id, "assignment": b"for one"},
        {"member_id": second.member_id, "assignment": b"for two"},
    ]
    version = newest("sync_group")
    request = {
        "group_id": group,
        "generation_id": generation,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    two.send("sync_group", version, **request | {"member_id": second.member_id})
    leader = {"member_id": first.member_id, "assignments": assignments}
    one.ask("sync_group", version, **request | leader)
    two.receive("sync_group", version)


@differential("join_group", versions=range(5, _JOIN + 1))
def test_static_member(peer: Peer) -> None:
    """KIP-345: it comes back under its name without a rebalance; the old one is fenced."""
    group = peer.unique("group")
    peer.await_coordinator(group)
    instance = {"group_instance_id": "instance"}
    first = peer.ask(**_PLAIN | {"group_id": group} | instance)
    sync(peer, group, first, **instance)
    second = peer.ask(**_PLAIN | {"group_id": group} | instance)
    sync(peer, group, second, **instance)
    old = {"group_id": group, "generation_id": first.generation_id, "member_id": first.member_id}
    peer.ask("heartbeat", 4, **old | instance)
    peer.ask("heartbeat", 4, **old)
    peer.ask(**_PLAIN | {"group_id": group, "member_id": first.member_id} | instance)
    sync(peer, group, first, **instance)
    wrong = {"group_id": group, "member_id": second.member_id, "group_instance_id": "another"}
    peer.ask(**_PLAIN | wrong)


@differential("join_group", versions=[5, 7, 8, 9])
def test_static_member_changes_its_protocols(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    instance = {"group_instance_id": "instance"}
    first = peer.ask(**_PLAIN | {"group_id": group} | instance)
    sync(peer, group, first, **instance)
    changed = [{"name": "range", "metadata": b"c"}]
    second = peer.ask(**_PLAIN | {"group_id": group, "protocols": changed} | instance)
    sync(peer, group, second, **instance)


@differential("sync_group")
def test_sync(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    joined = join(peer, group, join(peer, group).member_id)
    good = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": joined.member_id, "assignment": b"mine"}],
    }
    for wrong in (
        {"group_id": ""},
        {"group_id": peer.unique("unknown")},
        {"member_id": peer.keep("nobody")},
        {"member_id": ""},
        {"generation_id": joined.generation_id + 1},
        {"generation_id": -1},
        {"protocol_type": "connect"},
        {"protocol_name": "sticky"},
        {"protocol_type": None, "protocol_name": None},
        {"group_instance_id": "instance"},
    ):
        peer.note(str(list(wrong)))
        peer.ask(**good | wrong)
    peer.ask(**good)
    peer.ask(**good)
    peer.ask(**good | {"assignments": []})


@differential("sync_group")
def test_sync_leaves_somebody_out(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    joined = join(peer, group, join(peer, group).member_id)
    request = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    peer.ask(**request, assignments=[{"member_id": peer.keep("nobody"), "assignment": b"x"}])


@differential("heartbeat")
def test_heartbeat(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    joined = join(peer, group, join(peer, group).member_id)
    good = {
        "group_id": group,
        "generation_id": joined.generation_id,
        "member_id": joined.member_id,
    }
    peer.ask(**good)
    sync(peer, group, joined)
    peer.ask(**good)
    for wrong in (
        {"group_id": ""},
        {"group_id": peer.unique("unknown")},
        {"member_id": peer.keep("nobody")},
        {"member_id": ""},
        {"generation_id": joined.generation_id + 1},
        {"generation_id": joined.generation_id - 1},
        {"group_instance_id": "instance"},
    ):
        peer.note(str(list(wrong)))
        peer.ask(**good | wrong)


def _leave(peer: Peer, group: str, *members: dict[str, Any]) -> None:
    """From version 3 on several members at once (KIP-345), before only one."""
    peer.ask(group_id=group, members=list(members), member_id=members[0]["member_id"])


@differential("leave_group")
def test_leave(peer: Peer) -> None:
    group = peer.unique("group")
    joined = member_of(peer, peer, group)
    nobody = {"member_id": peer.keep("nobody")}
    me = {"member_id": joined.member_id}
    _leave(peer, group, nobody)
    _leave(peer, "", me)
    _leave(peer, peer.unique("unknown"), me)
    _leave(peer, group, me, nobody)
    _leave(peer, group, me)
    peer.ask("describe_groups", 5, groups=[group])


@differential("leave_group")
def test_leave_while_pending(peer: Peer) -> None:
    """A member that has an id but has not joined with it."""
    group = peer.unique("group")
    peer.await_coordinator(group)
    _leave(peer, group, {"member_id": join(peer, group).member_id})


@differential("leave_group", versions=range(3, newest("leave_group") + 1))
def test_leave_of_static_members(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    instance = {"group_instance_id": "instance"}
    joined = join(peer, group, **instance)
    sync(peer, group, joined, **instance)
    _leave(peer, group, {"member_id": peer.keep("nobody")} | instance)
    _leave(peer, group, {"member_id": "", "group_instance_id": "another"})
    _leave(peer, group, {"member_id": ""} | instance, {"member_id": ""} | instance)
    peer.ask(group_id=group, members=[])


@differential("join_group", versions=[_JOIN])
def test_session_ends_without_heartbeats(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    short = {"session_timeout": 150, "rebalance_timeout": 150}
    joined = join(peer, group, join(peer, group, **short).member_id, **short)
    sync(peer, group, joined)
    peer.await_group_state(group, "Empty")
    request = {"group_id": group, "generation_id": joined.generation_id}
    peer.ask("heartbeat", 4, **request | {"member_id": joined.member_id})
    join(peer, group, joined.member_id)


@differential("join_group", versions=[_JOIN])
def test_a_member_that_does_not_join_again_is_dropped(peer: Peer) -> None:
    group = peer.unique("group")
    one, two = peer.connection("one"), peer.connection("two")
    quick = {"rebalance_timeout": 200}
    first = member_of(peer, one, group, **quick)
    pending = join(two, group, **quick)
    second = join(two, group, pending.member_id, **quick)
    sync(two, group, second)
    request = {"group_id": group, "generation_id": first.generation_id}
    one.ask("heartbeat", 4, **request | {"member_id": first.member_id})


@differential("join_group", versions=[_JOIN])
def test_a_member_that_does_not_sync_is_dropped(peer: Peer) -> None:
    """Its rebalance timeout counts from its join; the group is empty then."""
    group = peer.unique("group")
    peer.await_coordinator(group)
    quick = {"rebalance_timeout": 200}
    joined = join(peer, group, join(peer, group, **quick).member_id, **quick)
    peer.await_group_state(group, "Empty")
    peer.ask("heartbeat", 4, group_id=group, generation_id=1, member_id=joined.member_id)
    peer.ask("describe_groups", 6, groups=[group])


@differential("describe_groups")
def test_describe(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    peer.ask(groups=[group], include_authorized_operations=True)
    joined = join(peer, group, join(peer, group).member_id)
    peer.ask(groups=[group])
    sync(peer, group, joined)
    peer.ask(groups=[group, peer.unique("unknown"), ""], include_authorized_operations=True)
    peer.ask(groups=[group, group])
    peer.ask(groups=[])


@differential("describe_groups", versions=[4, 5, 6])
def test_describe_static_member(peer: Peer) -> None:
    group = peer.unique("group")
    peer.await_coordinator(group)
    instance = {"group_instance_id": "instance"}
    sync(peer, group, join(peer, group, **instance), **instance)
    peer.ask(groups=[group])


@differential("list_groups", versions=all_versions("list_groups"))
def test_list(peer: Peer) -> None:
    """Only the groups of this script: others are there as well."""
    stable, empty = peer.unique("stable"), peer.unique("empty")
    member_of(peer, peer, stable)
    left = member_of(peer, peer, empty)
    members = [{"member_id": left.member_id}]
    peer.ask("leave_group", newest("leave_group"), group_id=empty, members=members)
    filters: list[dict[str, list[str]]] = [{}]
    if peer.version >= 4:
        filters += [{"states_filter": [each]} for each in ("Stable", "empty", "Dead", "nonsense")]
        filters += [{"states_filter": ["Stable", "Empty"]}, {"states_filter": [""]}]
    if peer.version >= 5:
        filters += [{"types_filter": [each]} for each in ("classic", "Classic", "consumer", "x")]
    for fields in filters:
        peer.note(str(fields))
        peer.ask_about((stable, empty), **fields)


@differential("delete_groups")
def test_delete_groups(peer: Peer) -> None:
    group, empty = peer.unique("group"), peer.unique("empty")
    member_of(peer, peer, group)
    left = member_of(peer, peer, empty)
    members = [{"member_id": left.member_id}]
    peer.ask("leave_group", newest("leave_group"), group_id=empty, members=members)
    peer.ask(groups_names=[group, peer.unique("unknown"), "", empty])
    peer.ask(groups_names=[empty])
    peer.ask(groups_names=[empty, empty])
    peer.ask(groups_names=[])
    peer.ask("describe_groups", 5, groups=[empty])


@differential("find_coordinator")
def test_find_coordinator(peer: Peer) -> None:
    """Below version 4 one key, from there on many (KIP-699)."""
    peer.await_coordinator("any")
    for kind in (0, 1, 2, -1):
        for key in ("some", "", "ü"):
            if kind != 1:
                peer.note(f"{kind} {key!r}")
                peer.ask(key=key, key_type=kind, coordinator_keys=[key])
    peer.ask(key="some", coordinator_keys=["some", "other", "some"])
    peer.ask(key="some", coordinator_keys=[])
