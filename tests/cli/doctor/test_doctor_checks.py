"""What the doctor's checks make of facts: those whose bad state is dear, or not this machine's."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta

import pytest

from drumlin.cli.doctor.checks import (
    cleaning,
    clocks,
    directories,
    disks,
    groups,
    listeners,
    machine,
)
from drumlin.cli.doctor.checks import partitions as of_partitions
from drumlin.cli.doctor.checks import transactions as of_transactions
from drumlin.cli.doctor.facts import (
    Address,
    BrokerClock,
    Certificate,
    ClusterFacts,
    Configuration,
    Disk,
    FileSystem,
    GroupFacts,
    GroupPosition,
    LogGrowth,
    Machine,
    OpenTransaction,
    Partition,
)
from drumlin.cli.doctor.finding import Severity, some_of
from drumlin.cli.doctor.gathering.growth import Window, bytes_per_s
from drumlin.client.topic_partition import TopicPartition

NOW = datetime(2026, 11, 30, tzinfo=UTC)
DISK = FileSystem("/data", "ext4", "/", frozenset({"rw"}), 1000, 500, 100, 50)
DAY_S = 86_400.0


def on(**how: object) -> Machine:
    return Machine(file_systems=(dataclasses.replace(DISK, **how),))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("host", "checks"),
    [
        (on(), set()),
        (on(kind="tmpfs"), {"file-system"}),
        (on(kind="overlay"), {"file-system"}),
        (on(kind="nfs4"), {"file-system"}),
        (on(kind="fuse.sshfs"), {"file-system"}),
        (on(path="/tmp/data"), {"fleeting-directory"}),
        (on(options=frozenset({"rw", "nobarrier"})), {"mount-option"}),
        (on(options=frozenset({"ro"})), {"read-only"}),
        (on(is_writable=False), {"rights"}),
        (on(free_bytes=50), {"disk-room"}),
        (on(free_inodes=1), {"inodes"}),
        (on(total_inodes=0, free_inodes=0), set()),  # of btrfs, which has no limit
    ],
)
def test_directories(host: Machine, checks: set[str]) -> None:
    every = (
        directories.file_system,
        directories.fleeting,
        directories.mount_options,
        directories.writable,
        directories.room,
    )
    assert {each.check for check in every for each in check(host)} == checks


def test_limits() -> None:
    assert not [*machine.descriptors(Machine(descriptors_max=100_000, partitions=20))]
    (few,) = machine.descriptors(Machine(descriptors_max=1024, partitions=20, broker_pid=7))
    assert (
        few.what
        == "the broker (process 7) may open 1,024 files; 10,000 are advisable with 20 partitions"
    )
    (many,) = machine.descriptors(Machine(descriptors_max=20_000, partitions=10_000))
    assert "40,000 are advisable" in many.what
    assert not [*machine.descriptors(Machine())]
    assert [*machine.memory_maps(Machine(memory_maps_max=65_530, partitions=20_000))]
    assert not [*machine.memory_maps(Machine(memory_maps_max=65_530, partitions=100))]


def test_ports_of_outgoing_connections() -> None:
    host = Machine(ephemeral_ports=range(32768, 61000))
    high = Configuration("file", {"listeners": "PLAINTEXT://127.0.0.1:40000"})
    low = Configuration("file", {"listeners": "PLAINTEXT://127.0.0.1:9092"})
    (found,) = machine.ephemeral_ports(host, (high, low))
    assert "127.0.0.1:40000" in found.what


@pytest.mark.parametrize(
    ("ahead_ms", "error_ms", "severity"),
    [
        (500, 0, None),
        (5_000, 4_500, None),
        (5_000, 10, Severity.WARNING),
        (-90_000, 10, Severity.ERROR),
    ],
)
def test_clock_skew(ahead_ms: int, error_ms: int, severity: Severity | None) -> None:
    found = [*clocks.skew((BrokerClock("broker 1", ahead_ms, error_ms),))]
    assert [each.severity for each in found] == ([] if severity is None else [severity])


def test_clocks_that_jump_or_are_left_alone() -> None:
    (jump,) = clocks.jump((BrokerClock("this broker", 0, 0, 3_600_000),))
    assert "jumped ahead by 1 h" in jump.what
    assert [*clocks.synchronized(Machine(is_clock_synchronized=False))]
    assert not [*clocks.synchronized(Machine(is_clock_synchronized=None))]


def address(host: str, **how: object) -> Address:
    known = Address(1, "PLAINTEXT", None, host, 9092, is_ours=True)
    return dataclasses.replace(known, **how)  # type: ignore[arg-type]


def test_addresses() -> None:
    lost = address("nowhere.invalid", resolve_error="Name or service not known")
    (found,) = listeners.resolves((lost,))
    assert found.severity is Severity.ERROR
    (note,) = listeners.resolves((dataclasses.replace(lost, is_ours=False),))
    assert note.severity is Severity.NOTE
    (closed,) = listeners.reachable((address("a", connect_error="refused"),))
    assert "a:9092 cannot be connected to" in closed.what


@pytest.mark.parametrize(
    ("bound", "resolved", "is_found"),
    [
        ("", "127.0.0.1", True),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "192.0.2.1", False),
        ("127.0.0.1", "127.0.0.1", False),
    ],
)
def test_an_open_listener_that_sends_clients_to_themselves(
    bound: str, resolved: str, is_found: bool
) -> None:
    configuration = Configuration("broker 1", {"listeners": f"PLAINTEXT://{bound}:9092"}, 1)
    told = address("localhost", resolved=(resolved,))
    assert bool([*listeners.loopback((told,), (configuration,))]) is is_found


@pytest.mark.parametrize(
    ("host", "is_covered"),
    [("b.example", True), ("c.wild.example", True), ("x.c.wild.example", False), ("d", False)],
)
def test_hosts_in_certificates(host: str, is_covered: bool) -> None:
    known = Certificate("x", "CN=b", ("b.example", "*.wild.example"), NOW, NOW)
    found = [*listeners.certificate_covers((address(host, certificate=known),))]
    assert (not found) is is_covered


@pytest.mark.parametrize(
    ("begins_days", "ends_days", "severity"),
    [
        (-1, 365, None),
        (-1, 20, Severity.WARNING),
        (-1, 3, Severity.ERROR),
        (-9, -1, Severity.ERROR),
        (1, 365, Severity.ERROR),
    ],
)
def test_certificates_that_end(begins_days: int, ends_days: int, severity: Severity | None) -> None:
    known = Certificate(
        "file", "CN=b", (), NOW + timedelta(days=begins_days), NOW + timedelta(days=ends_days)
    )
    found = [*listeners.certificate_ends((known,), NOW)]
    assert [each.severity for each in found] == ([] if severity is None else [severity])


OPEN = {"listeners": "PLAINTEXT://0.0.0.0:9092"}
SSL = {"listeners": "SSL://0.0.0.0:9092"}


@pytest.mark.parametrize(
    ("values", "check"),
    [
        ({"listeners": "PLAINTEXT://127.0.0.1:9092"}, None),
        (OPEN, "open-listener"),
        (OPEN | {"authorizer.class.name": "x"}, None),
        (OPEN | {"authorizer.class.name": "x", "super.users": "User:ANONYMOUS"}, "open-listener"),
        ({"listeners": "CONTROLLER://:9093", "controller.listener.names": "CONTROLLER"}, None),
        (SSL, "open-listener"),
        (SSL | {"ssl.client.auth": "required"}, "no-authorizer"),
        ({"listeners": "SASL_PLAINTEXT://:9092"}, "login-in-the-clear"),
        ({"listeners": "SASL_SSL://:9092"}, "no-authorizer"),
        ({"listeners": "SASL_SSL://:9092", "authorizer.class.name": "x"}, None),
        (
            {"listeners": "A://:9092", "listener.security.protocol.map": "A:PLAINTEXT"},
            "open-listener",
        ),
    ],
)
def test_protection(values: dict[str, str], check: str | None) -> None:
    found = [*listeners.protection((Configuration("broker 1", values),))]
    assert [each.check for each in found] == ([] if check is None else [check])


def cluster(*partitions: Partition, min_isr: int | None = None, live: int = 3) -> ClusterFacts:
    configs = {} if min_isr is None else {"t": {"min.insync.replicas": str(min_isr)}}
    nodes = frozenset(range(1, live + 1))
    return ClusterFacts("id", nodes, 1, partitions, configs)


@pytest.mark.parametrize(
    ("leader", "isr", "check"),
    [
        (1, (1, 2, 3), None),
        (1, (1, 2), "at-min-isr"),
        (1, (1,), "below-min-isr"),
        (-1, (), "offline"),
        (9, (9,), "offline"),  # its leader is gone
    ],
)
def test_partitions_at_risk(leader: int, isr: tuple[int, ...], check: str | None) -> None:
    found = [*of_partitions.at_risk(cluster(Partition("t", 0, leader, (1, 2, 3), isr), min_isr=2))]
    assert [each.check for each in found] == ([] if check is None else [check])


def test_a_single_replica_is_not_below_what_is_asked_of_it() -> None:
    assert not [*of_partitions.at_risk(cluster(Partition("t", 0, 1, (1,), (1,)), min_isr=2))]


def test_partitions_whose_topic_may_not_be_described() -> None:
    (found,) = of_partitions.at_risk(cluster(Partition("t", 0, 1, (1, 2, 3), (1, 2))))
    assert found.check == "under-replicated"


@pytest.mark.parametrize(
    ("replicas", "min_isr", "check"),
    [
        ((1, 2, 3), 2, None),
        ((1,), 1, "single-replica"),
        ((1, 2, 3), 1, "min-isr-one"),
        ((1, 2), 2, "min-isr-all"),
    ],
)
def test_durability(replicas: tuple[int, ...], min_isr: int, check: str | None) -> None:
    facts = cluster(Partition("t", 0, 1, replicas, replicas), min_isr=min_isr)
    assert [each.check for each in of_partitions.durability(facts)] == ([check] if check else [])


def test_brokers_and_leaders() -> None:
    assert [each.check for each in of_partitions.brokers(cluster())] == ["no-topics"]
    away = Partition("t", 0, 1, (1, 4), (1,))
    (dead,) = of_partitions.brokers(cluster(away))
    assert dead.subject == "broker 4"
    lost = dataclasses.replace(cluster(Partition("t", 0, 1, (1,), (1,))), controller=-1)
    assert [each.check for each in of_partitions.brokers(lost)] == ["no-controller"]
    moved = [Partition("t", index, 2, (1, 2), (1, 2)) for index in range(4)]
    assert [*of_partitions.preferred_leaders(cluster(*moved))]
    assert not [*of_partitions.preferred_leaders(cluster(away))]


@pytest.mark.parametrize(
    ("free", "logs", "seconds"),
    [
        (1000, [LogGrowth(0, 1.0)], 1000),
        (1000, [LogGrowth(0, 0.0)], math.inf),
        (1000, [LogGrowth(0, 1.0, retention_s=500)], math.inf),
        (1000, [LogGrowth(100, 1.0, retention_bytes=200)], math.inf),
        # Until second 500 both grow, then one of them.
        (1000, [LogGrowth(0, 1.0, retention_s=400), LogGrowth(0, 1.0)], 600),
        (100, [LogGrowth(0, 1.0, retention_s=400), LogGrowth(0, 1.0)], 50),
        (0, [LogGrowth(0, 1.0)], 0),
        (1000, [LogGrowth(900, 1.0, retention_s=500)], math.inf),  # it only shrinks
    ],
)
def test_when_a_disk_is_full(free: int, logs: list[LogGrowth], seconds: float) -> None:
    assert disks.full_in_s(free, logs) == pytest.approx(seconds)


def test_disks() -> None:
    (late,) = disks.full([Disk(1, "/d", None, 10**9, 5 * 10**8, (LogGrowth(0, 5000.0),))])
    assert late.severity is Severity.WARNING
    assert "full in 1.2 d" in late.what
    assert not [*disks.full([Disk(1, "/d", None, 10**9, 5 * 10**8, (LogGrowth(0, 1.0),))])]
    assert not [*disks.full([Disk(1, "/d", None, None, None, (LogGrowth(0, 1e9),))])]
    (gone,) = disks.offline([Disk(1, "/d", "kafka_storage_error", None, None)])
    assert "kafka storage error" in gone.what


@pytest.mark.parametrize(
    ("windows", "speed"),
    [
        ([Window(100, 900), Window(10, 990)], 10.0),  # of 1,000 records of 10 bytes
        ([Window(100, 0), Window(10, 950)], 50.0),  # a log that is younger than a day
        ([Window(100, None), Window(10, None)], 0.0),  # nothing since
        ([Window(100, 0), Window(10, 0)], 0.0),  # too young for a word
    ],
)
def test_growth(windows: list[Window], speed: float) -> None:
    assert bytes_per_s(10_000, 0, 1000, windows) == pytest.approx(speed)
    assert bytes_per_s(10_000, 1000, 1000, windows) == 0


def group(*positions: GroupPosition, state: str = "Stable") -> GroupFacts:
    places = {TopicPartition("t", index): each for index, each in enumerate(positions)}
    return GroupFacts("g", state, places, 10.0)


def test_groups_that_stand() -> None:
    stands = GroupPosition(0, (5, 5), (10, 20))
    moves = GroupPosition(0, (5, 20), (10, 20))
    idle = GroupPosition(0, (5, 5), (10, 10))  # nothing arrives: perhaps nobody reads now
    waits = GroupPosition(0, (10, 10), (10, 12))  # it had read all, and commits soon
    assert not [*groups.stuck([group(moves, idle, waits)])]
    (all_stand,) = groups.stuck([group(stands)])
    assert "it has committed nothing for 10 s" in all_stand.what
    (one,) = groups.stuck([group(moves, stands)])
    assert "nothing of t-1" in one.what


def test_groups_that_fall_behind() -> None:
    assert [*groups.behind([group(GroupPosition(0, (0, 10), (10_000, 10_100)))])]
    near = GroupPosition(0, (9_900, 9_990), (10_000, 10_100))
    assert not [*groups.behind([group(near)])]
    catching_up = GroupPosition(0, (0, 5_000), (10_000, 10_100))
    assert not [*groups.behind([group(catching_up)])]


def test_transactions_that_are_late() -> None:
    facts = ClusterFacts(
        open_transactions=(OpenTransaction("fine", 100, 60), OpenTransaction("late", 200, 60))
    )
    assert [each.subject for each in of_transactions.late(facts)] == ["late"]


CLEAN = {"topic": "t", "partition": 0, "uncleanable_because": None, "overdue_ms": 0}


@pytest.mark.parametrize(
    ("row", "checks"),
    [
        ({}, []),
        ({"uncleanable_because": "invalid batch"}, ["uncleanable"]),
        ({"error": "no such file"}, ["uncleanable"]),
        ({"overdue_ms": 5000}, ["cleaning-overdue"]),
    ],
)
def test_cleaning(row: dict[str, object], checks: list[str]) -> None:
    report = {"is_enabled": True, "partitions": [CLEAN | row]}
    found = [*cleaning.uncleanable(report), *cleaning.overdue(report)]
    assert [each.check for each in found] == checks
    assert not [*cleaning.disabled(report)]
    assert [*cleaning.disabled(report | {"is_enabled": False})]
    assert not [*cleaning.disabled(report | {"is_enabled": None})]  # no broker runs there


def test_few_names_are_told() -> None:
    assert some_of(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
    assert some_of(["a"]) == "a"
