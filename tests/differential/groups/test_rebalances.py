"""Groups of several members: the leader, the members that must rejoin, the protocol that wins."""

from __future__ import annotations

from typing import Any, NamedTuple

from differential.groups.test_groups import join
from differential.peer import Connection, Peer
from differential.scripts import differential, newest

_JOIN, _SYNC = newest("join_group"), newest("sync_group")
# One byte is no subscription, which Kafka bears; what only looks like one may hang a group.
_RANGE = [{"name": "range", "metadata": b"r"}]


class _Member(NamedTuple):
    connection: Connection
    member_id: str


class _Group:
    """Two members or more in a stable group, driven step by step."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.name = peer.unique("group")
        self.members: list[_Member] = []
        self.generation = 0
        peer.await_coordinator(self.name)

    def request(self, member_id: str, **fields: Any) -> dict[str, Any]:
        plain = {
            "group_id": self.name,
            "session_timeout": 30_000,
            "rebalance_timeout": 30_000,
            "protocol_type": "consumer",
            "protocols": _RANGE,
            "member_id": member_id,
        }
        return plain | fields

    def send_join(self, member: _Member, **fields: Any) -> None:
        request = self.request(member.member_id, **fields)
        member.connection.send("join_group", _JOIN, **request)

    def receive_join(self, member: _Member) -> Any:
        answer = member.connection.receive("join_group", _JOIN)
        self.generation = answer.generation_id
        return answer

    def admit(self, name: str, **fields: Any) -> _Member:
        """A new member asks to join; it is not answered before the others have joined again."""
        connection = self.peer.connection(name)
        first = join(connection, self.name, **{"protocols": _RANGE} | fields)
        member = _Member(connection, first.member_id)
        self.send_join(member, **fields)
        return member

    def start(self, **fields: Any) -> None:
        """Two members, the first one of them the leader; both have their assignments."""
        one = self.admit("one", **fields)
        self.receive_join(one)
        two = self.admit("two", **fields)
        self.peer.await_rebalance(self.name, self.generation, one.member_id)
        self.send_join(one, **fields)
        self.receive_join(one)
        self.receive_join(two)
        self.members = [one, two]
        self.sync_all()

    def sync_all(self) -> None:
        leader, *others = self.members
        for each in others:
            self.send_sync(each)
        self.send_sync(leader, [each.member_id for each in self.members])
        for each in self.members:
            each.connection.receive("sync_group", _SYNC)

    def send_sync(self, member: _Member, assigned: list[str] | None = None) -> None:
        assignments = [
            {"member_id": each, "assignment": b"for %d" % number}
            for number, each in enumerate(assigned or [])
        ]
        member.connection.send(
            "sync_group",
            _SYNC,
            group_id=self.name,
            generation_id=self.generation,
            member_id=member.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )

    def receive_sync(self, member: _Member) -> None:
        member.connection.receive("sync_group", _SYNC)

    # On a connection of their own, as a broker takes a connection's requests one by one.

    def heartbeat(self, member: _Member) -> None:
        fields = {"generation_id": self.generation, "member_id": member.member_id}
        self.peer.ask("heartbeat", 4, group_id=self.name, **fields)

    def commit(self, member: _Member, topic: str) -> None:
        partition = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
        self.peer.ask(
            "offset_commit",
            9,
            group_id=self.name,
            generation_id_or_member_epoch=self.generation,
            member_id=member.member_id,
            topics=[{"name": topic, "partitions": [partition]}],
        )

    def leave(self, member: _Member) -> None:
        members = [{"member_id": member.member_id}]
        self.peer.ask("leave_group", newest("leave_group"), group_id=self.name, members=members)

    def describe(self) -> None:
        self.peer.ask("describe_groups", 5, groups=[self.name])


@differential("join_group", versions=[_JOIN])
def test_a_follower_joins_again_unchanged(peer: Peer) -> None:
    """It gets the present generation; the other members notice nothing."""
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.send_join(follower)
    group.receive_join(follower)
    group.heartbeat(leader)
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_a_follower_joins_again_changed(peer: Peer) -> None:
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    changed = [{"name": "range", "metadata": b"c"}]
    group.send_join(follower, protocols=changed)
    peer.await_rebalance(group.name, group.generation, leader.member_id)
    group.heartbeat(follower)
    group.describe()
    group.send_join(leader)
    group.receive_join(leader)
    group.receive_join(follower)
    group.heartbeat(follower)
    group.sync_all()
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_the_leader_joins_again(peer: Peer) -> None:
    """A leader that joins again wants a rebalance, changed or not."""
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.send_join(leader)
    peer.await_rebalance(group.name, group.generation, follower.member_id)
    group.send_join(follower)
    group.receive_join(follower)
    group.receive_join(leader)
    group.sync_all()


@differential("join_group", versions=[_JOIN])
def test_the_leader_leaves(peer: Peer) -> None:
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.leave(leader)
    peer.await_rebalance(group.name, group.generation, follower.member_id)
    group.send_join(follower)
    group.receive_join(follower)
    group.members = [follower]
    group.sync_all()
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_the_leader_leaves_before_it_syncs(peer: Peer) -> None:
    """Members that wait for an assignment are told to join again."""
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.send_join(leader)
    peer.await_rebalance(group.name, group.generation, follower.member_id)
    group.send_join(follower)
    group.receive_join(leader)
    group.receive_join(follower)
    group.send_sync(follower)
    group.leave(leader)
    group.receive_sync(follower)
    group.send_join(follower)
    group.receive_join(follower)
    group.members = [follower]
    group.sync_all()


@differential("join_group", versions=[_JOIN])
def test_somebody_joins_before_the_others_sync(peer: Peer) -> None:
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.send_join(leader)
    peer.await_rebalance(group.name, group.generation, follower.member_id)
    group.send_join(follower)
    group.receive_join(leader)
    group.receive_join(follower)
    group.send_sync(follower)
    third = group.admit("three")
    group.receive_sync(follower)
    group.send_sync(leader, [leader.member_id, follower.member_id])
    group.receive_sync(leader)
    group.send_join(follower)
    group.send_join(leader)
    for member in (leader, follower, third):
        group.receive_join(member)
    group.members.append(third)
    group.sync_all()
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_commits_and_heartbeats_while_rebalancing(peer: Peer) -> None:
    topic = peer.topic()
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.commit(follower, topic)
    group.send_join(leader)
    peer.await_rebalance(group.name, group.generation, follower.member_id)
    for _ in range(2):
        group.heartbeat(follower)
        group.commit(follower, topic)
    group.send_join(follower)
    group.receive_join(follower)
    group.receive_join(leader)
    for member in group.members:
        group.heartbeat(member)
        group.commit(member, topic)
    group.sync_all()
    group.commit(leader, topic)


@differential("join_group", versions=[_JOIN])
def test_protocols_are_voted_on(peer: Peer) -> None:
    """Among those that all know, the one that most members like best."""
    group = _Group(peer)
    tastes = {
        "one": ["sticky", "range", "roundrobin"],
        "two": ["range", "sticky"],
        "three": ["roundrobin", "range", "sticky"],
        "four": ["range", "sticky", "nobody-else"],
    }

    def protocols(name: str) -> list[dict[str, Any]]:
        return [{"name": each, "metadata": each[:1].encode()} for each in tastes[name]]

    group.start(protocols=protocols("one"))
    leader, follower = group.members
    third, fourth = (group.admit(each, protocols=protocols(each)) for each in ("three", "four"))
    peer.await_rebalance(group.name, group.generation, leader.member_id)
    group.send_join(follower, protocols=protocols("two"))
    group.send_join(leader, protocols=protocols("one"))
    for member in (leader, follower, third, fourth):
        group.receive_join(member)


@differential("join_group", versions=[_JOIN])
def test_protocols_that_nobody_shares(peer: Peer) -> None:
    group = _Group(peer)
    group.start()
    stranger = peer.connection("stranger")
    other = [{"name": "other", "metadata": b""}]
    join(stranger, group.name, protocols=other)
    group.heartbeat(group.members[0])


@differential("join_group", versions=[_JOIN])
def test_two_of_the_same_instance_at_once(peer: Peer) -> None:
    """The one that came first is fenced, even while it waits."""
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    instance = {"group_instance_id": "instance"}
    one, two = (_Member(peer.connection(each), "") for each in ("static-one", "static-two"))
    group.send_join(one, **instance)
    peer.await_rebalance(group.name, group.generation, leader.member_id)
    group.send_join(two, **instance)
    group.receive_join(one)
    for member in (leader, follower):
        group.send_join(member)
    for member in (leader, follower, two):
        group.receive_join(member)
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_a_static_leader_comes_back(peer: Peer) -> None:
    """Its new id is put in the place of the old one; it is told not to assign (KIP-814)."""
    group = _Group(peer)
    instance = {"group_instance_id": "instance"}
    one = _Member(peer.connection("one"), "")
    group.send_join(one, **instance)
    joined = group.receive_join(one)
    group.members = [_Member(one.connection, joined.member_id)]
    fields = {"group_id": group.name, "generation_id": group.generation, **instance}
    mine = [{"member_id": joined.member_id, "assignment": b"mine"}]
    assigned = {"protocol_type": "consumer", "protocol_name": "range", "assignments": mine}
    one.connection.ask("sync_group", _SYNC, member_id=joined.member_id, **fields, **assigned)
    for version in (8, 9):
        back = one.connection.ask("join_group", version, **group.request("", **instance))
        member = {"member_id": back.member_id} | fields | {"generation_id": back.generation_id}
        one.connection.ask("heartbeat", 4, **member)
        one.connection.ask("sync_group", _SYNC, **member, **assigned | {"assignments": []})
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_a_new_instance_joins_a_stable_group(peer: Peer) -> None:
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    third = _Member(peer.connection("static"), "")
    group.send_join(third, group_instance_id="instance")
    peer.await_rebalance(group.name, group.generation, leader.member_id)
    for member in (follower, leader):
        group.send_join(member)
    for member in (leader, follower, third):
        group.receive_join(member)
    group.describe()


@differential("join_group", versions=[_JOIN])
def test_dead_groups_and_offsets(peer: Peer) -> None:
    """The last one leaves; the group stays for its offsets, and goes with them."""
    topic = peer.topic()
    group = _Group(peer)
    group.start()
    leader, follower = group.members
    group.commit(leader, topic)
    group.leave(follower)
    group.leave(leader)
    group.describe()
    peer.ask("delete_groups", 2, groups_names=[group.name])
    group.describe()
    group.heartbeat(leader)
    join(leader.connection, group.name, leader.member_id)
