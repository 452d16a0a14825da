"""A cluster with ZooKeeper, secured between its brokers, with ACLs and users there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from between.internal import check_refused
from between.work import await_whole, check_filled, fill, grant, prepare, topic_id, use
from rig.brokers.secured_brokers import SecuredMember
from rig.data.raw import RawClient
from rig.data.secured_between import (
    EVERY_WAY,
    MUTUAL,
    PLAIN,
    SCRAM,
    Way,
    brokers_settings,
    clients_settings,
)
from rig.ports import free_ports
from rig.servers.certificates import Certificates
from rig.servers.zookeeper import ZooKeeper, running_zookeeper
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

pytestmark = [pytest.mark.zookeeper, pytest.mark.clients, pytest.mark.slow]

MakeMember = Callable[..., SecuredMember]


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    with running_zookeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture
def make(
    request: pytest.FixtureRequest, tmp_path: Path, zookeeper: ZooKeeper, way: Way
) -> Iterator[MakeMember]:
    """Makes brokers of one cluster, not yet started."""
    made: list[SecuredMember] = []

    def member(node_id: int, **others: str) -> SecuredMember:
        plain, secure = free_ports(2)
        settings = brokers_settings(way, plain, secure, _certificates(request, way), **others)
        chroot = f"{zookeeper.address}/{tmp_path.name}"
        made.append(SecuredMember(tmp_path / str(node_id), node_id, chroot, settings))
        return made[-1]

    try:
        yield member
    finally:
        for each in made:
            each.close()
    for each in made:
        each.check_output()


def _certificates(request: pytest.FixtureRequest, way: Way) -> Certificates | None:
    return request.getfixturevalue("certificates") if way.has_tls else None


def _secure(*members: SecuredMember) -> str:
    listeners = (each.configured["listeners"].rpartition("://")[2] for each in members)
    return ",".join(listeners)


_WAYS = [
    pytest.param(each, marks=() if each == PLAIN else pytest.mark.deep, id=str(each))
    for each in EVERY_WAY
]


@pytest.mark.parametrize("way", _WAYS)
def test_brokers_replicate_and_clients_work(
    request: pytest.FixtureRequest, make: MakeMember, way: Way
) -> None:
    """The users and ACLs that one broker was told of are known to the other one."""
    first, second = make(1), make(2)
    first.start()
    second.start()
    prepare(first.port, way, 2)
    await_whole(second.port, 2)
    security = clients_settings(way, _certificates(request, way))
    use(_secure(second, first), security)
    if way == PLAIN:
        for each in (first, second):
            check_refused(int(_secure(each).rpartition(":")[2]), "t", topic_id(each.port, "t"))
    known = _count_acls(second)
    with first.connect() as admin:
        grant(admin, "User:late")
    wait_until(lambda: _count_acls(second) == known + 3, "the late ACLs")


@pytest.mark.deep
@pytest.mark.parametrize("way", [pytest.param(each, id=str(each)) for each in EVERY_WAY])
def test_a_broker_that_was_killed_catches_up(
    request: pytest.FixtureRequest, make: MakeMember, way: Way
) -> None:
    """Of three brokers, each in its turn; the others go on meanwhile."""
    members = [make(each) for each in (1, 2, 3)]
    for each in members:
        each.start()
    prepare(members[0].port, way, 3)
    await_whole(members[0].port, 3)
    security = clients_settings(way, _certificates(request, way))
    use(_secure(*members), security)
    written = fill(_secure(*members), security, 0)
    for number, each in enumerate(members, 1):
        each.kill()
        others = [other for other in members if other is not each]
        use(_secure(*others), security, number)
        written |= fill(_secure(*others), security, number)
        each.start()
        await_whole(each.port, 3)
    check_filled(_secure(*members), security, written)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("way", "wrong", "why"),
    [
        pytest.param(PLAIN, {"password": "wrong"}, "user 'broker' cannot log in", id="password"),
        pytest.param(SCRAM, {"password": "wrong"}, "user 'broker' cannot log in", id="proof"),
        pytest.param(MUTUAL, {"certificate": "foreign"}, "certificate", id="certificate"),
        pytest.param(PLAIN, {"has_right": False}, "CLUSTER_ACTION", id="right"),
    ],
)
def test_a_broker_that_shows_something_wrong_is_kept_out(
    request: pytest.FixtureRequest, make: MakeMember, way: Way, wrong: dict[str, str], why: str
) -> None:
    """It gets no record, and both sides say so in a few lines, however long it goes on.

    Where its settings do not make the others super users, it is these that are kept out.
    """
    first, second = make(1), make(2, **wrong)
    for each in (first, second):
        each.configure({**each.configured, "replica.lag.time.max.ms": "3000"})
        each.start()
    prepare(first.port, way, 2)
    leader = 2 if "has_right" in wrong else 1
    wait_until(lambda: _isrs(first.port, leader) == {(leader,)}, "the ISRs without a replica", 60)
    is_away = first if leader == 2 else second
    lines = is_away.said().splitlines()
    assert 0 < sum(why in line for line in lines) < 4, lines
    for each in (first, second):
        said = [line for line in each.said().splitlines() if "WARN" in line or "ERROR" in line]
        assert len(said) < 15, said

    plain, secure = second.port, int(_secure(second).rpartition(":")[2])
    second.stop()
    right = brokers_settings(way, plain, secure, _certificates(request, way))
    second.configure({**second.configured, **right})
    second.start()
    await_whole(first.port, 2)


def _isrs(admin_port: int, leader: int) -> set[tuple[int, ...]]:
    """The ISRs of all partitions that this broker leads."""
    with RawClient(admin_port) as admin:
        known = admin.ask("metadata", 12, topics=None)
    return {
        tuple(each.isr_nodes)
        for topic in known.topics
        for each in topic.partitions
        if each.leader_id == leader
    }


@pytest.mark.deep
@pytest.mark.parametrize("way", [pytest.param(PLAIN, id=str(PLAIN))])
def test_acls_that_tools_write_are_followed(make: MakeMember, zookeeper: ZooKeeper) -> None:
    """A node that cannot be read changes nothing while the broker runs, and stops its start."""
    broker = make(1)
    broker.start()
    operator = Operator(broker.configured["zookeeper.connect"])
    path, told = "/kafka-acl/Group/g", ("/kafka-acl-changes/acl_changes_", b"GROUP:g")
    acl = b'{"principal":"User:alice","permissionType":"Deny","operation":"READ","host":"*"}'
    acls = b'{"version":1,"acls":[%b]}' % acl
    try:
        for data, known in ((acls, 1), (b"{", 1), (b'{"version":1,"acls":[]}', 0)):
            operator.put(path, data)
            operator.client.create(*told, sequence=True)
            if known and data != acls:
                wait_until(lambda: f"{path} cannot be used" in broker.said(), "a line about it")
            wait_until(lambda known=known: _count_acls(broker) == known, f"{known} ACLs")  # type: ignore[misc]
        operator.put(path, b"{")
        broker.stop()
        with pytest.raises(AssertionError, match="ended with 1"):
            broker.start()
        last = broker.said().splitlines()[-1]
        assert last.startswith(f"drumlin server: ZooKeeper's {path} cannot be used"), last
    finally:
        operator.close()


def _count_acls(broker: SecuredMember) -> int:
    anything = {
        "resource_type_filter": 1,
        "resource_name_filter": None,
        "pattern_type_filter": 1,
        "principal_filter": None,
        "host_filter": None,
        "operation": 1,
        "permission_type": 1,
    }
    with broker.connect() as admin:
        return sum(len(each.acls) for each in admin.ask("describe_acls", 3, **anything).resources)
