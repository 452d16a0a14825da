"""Three brokers and their ZooKeeper, with the network between them, and what ZooKeeper tells."""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from drumlin.metadata.zookeeper.znodes import layout
from guarantees.brokers import SETTINGS
from rig.brokers.drumlin_server import DrumlinServer, server_command
from rig.fault_injection.injector import Call, Injector, Rule
from rig.fault_injection.network import ZOOKEEPER, Network
from rig.fault_injection.small_disk import small_disk
from rig.ports import free_ports
from rig.servers.zookeeper import ZooKeeper
from rig.servers.zookeeper_operator import Operator
from rig.waiting import wait_until

NODES: Final = (1, 2, 3)
_AWAY: Final = re.compile(r"ZooKeeper .*(does not answer|is about to end)|no ZooKeeper answers")
_FILLED_BYTES: Final = 4096
_CHROOT: Final = "/drumlin"
SESSION_TIMEOUT_MS: Final = 3000

_SETTINGS: Final = {
    "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
    "zookeeper.connection.timeout.ms": "60000",
    # Who hears nothing notices in seconds, not in half a minute.
    "request.timeout.ms": "4000",
    "replica.socket.timeout.ms": "4000",
    "socket.connection.setup.timeout.ms": "2000",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.backoff.ms": "200",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "3",
    "auto.create.topics.enable": "false",
    # A replica that is away for longer than deletions are kept never learns of them.
    "log.cleaner.delete.retention.ms": "3600000",
}


def rack(node_id: int) -> str:
    """Each broker is in one of its own; consumers in it read there, whoever leads."""
    return f"rack-{node_id}"


class State(NamedTuple):
    """A partition, as ZooKeeper has it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]


States = Mapping[tuple[str, int], State]


class Member(DrumlinServer):
    """One broker: clients reach it directly, others through the network, as it does ZooKeeper."""

    def __init__(self, node_id: int, directory: Path, settings: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        super().__init__(directory, settings)
        self.data = directory / "disk" / "data"
        self.node_id = node_id
        self.peer_port, self.peer_proxy_port, self.zookeeper_proxy_port = free_ports(3)
        #: Of its disk and its wall clock.
        self.injector = Injector(directory / "faults")
        self.environment = self.injector.environment()

    def start(self, timeout_s: float = 60.0) -> None:
        """Start, and wait for the line that says it is ready."""
        own = {
            "node.id": str(self.node_id),
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_proxy_port}{_CHROOT}",
            "listeners": f"PLAINTEXT://{self.address},PEERS://127.0.0.1:{self.peer_port}",
            "advertised.listeners": (
                f"PLAINTEXT://{self.address},PEERS://127.0.0.1:{self.peer_proxy_port}"
            ),
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PEERS:PLAINTEXT",
            "inter.broker.listener.name": "PEERS",
            "broker.rack": rack(self.node_id),
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        }
        deadline = time.monotonic() + timeout_s
        while True:
            said_before = len(self.said())
            self.launch(server_command(self.data, self.port, self.settings | own))
            try:
                left_s = deadline - time.monotonic()
                self.await_ready_line(re.escape(self.address), said_before, left_s)
            except AssertionError:
                # As whoever looks after a broker does: it says so, and ends, without ZooKeeper.
                why = self.said()[said_before:].rstrip().splitlines()[-1]
                is_over = time.monotonic() > deadline or not _AWAY.search(why)
                if is_over or self.process is None or self.process.poll() is None:
                    raise
                self.close()
            else:
                return

    def fail_disk(self, calls: Iterable[Call]) -> None:
        """From now on the device does not do these."""
        self.injector.inject(Rule(calls, part=str(self.data)))

    def fill_disk(self) -> Path:
        """Leave no room on its disk, a small one; the file that takes it all."""
        filler = self.data.parent / "filler"
        with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            left = shutil.disk_usage(filler.parent).free
            with contextlib.suppress(OSError):
                os.posix_fallocate(file.fileno(), 0, left)
            file.seek(0, os.SEEK_END)
            while file.write(bytes(_FILLED_BYTES)):  # the broker may have removed something
                pass
        return filler

    def lose_disk(self) -> None:
        """An empty disk takes the place of its own, while it is down."""
        shutil.rmtree(self.data, ignore_errors=True)

    def copy_disk(self) -> Path:
        """What is on its disk now, for `restore_disk`, while it is down."""
        copy = self.data.parents[1] / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.data, copy, ignore=shutil.ignore_patterns("*.sock"))
        return copy

    def restore_disk(self, copy: Path) -> None:
        """What was copied once takes the place of what is on its disk."""
        self.lose_disk()
        shutil.copytree(copy, self.data)

    @contextlib.contextmanager
    def starved(self) -> Iterator[None]:
        """Meanwhile it opens nothing, but in place of what it closes."""
        pid = self.pid
        limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        with contextlib.suppress(ProcessLookupError):
            in_use = sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use, limits[1]))
        yield
        with contextlib.suppress(ProcessLookupError):
            resource.prlimit(pid, resource.RLIMIT_NOFILE, limits)

    @property
    def end(self) -> str:
        """Its name in the network."""
        return str(self.node_id)

    @property
    def is_running(self) -> bool:
        return self.process is not None


class Cluster:
    """All of it; nothing runs before `start`."""

    def __init__(
        self, directory: Path, network: Network, settings: Mapping[str, str] | None = None
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.network = network
        self.zookeeper = ZooKeeper(directory)
        known = SETTINGS | _SETTINGS | dict(settings or {})
        self.members = {each: Member(each, directory / f"broker-{each}", known) for each in NODES}
        self._operator: Operator | None = None
        self._disks = contextlib.ExitStack()

    def mount(self, size_mib: int) -> None:
        """Give each broker a disk of its own, before it starts.

        Raises:
            NotPermitted: disks cannot be mounted.
        """
        for each in self.members.values():
            each.data.parent.mkdir(parents=True)
            self._disks.enter_context(small_disk(each.data.parent, size_mib))

    @property
    def bootstrap(self) -> str:
        return ",".join(each.address for each in self.members.values())

    def start(self) -> None:
        self.zookeeper.start()
        for each in self.members.values():
            self.network.carry(each.peer_proxy_port, each.end, each.peer_port)
            self.network.carry(each.zookeeper_proxy_port, ZOOKEEPER, self.zookeeper.port, each.end)
            each.start()
        self._operator = Operator(self.zookeeper.address + _CHROOT)

    def keep_data(self) -> None:
        """Copy what is on disks that vanish with the run."""
        for each in self.members.values():
            if each.data.parent.is_mount():
                kept, ignored = each.data.parents[1] / "data", shutil.ignore_patterns("*.sock")
                shutil.copytree(each.data, kept, ignore=ignored)

    def close(self) -> None:
        """Leave nothing running."""
        for each in self.members.values():
            each.close()
        if self._operator is not None:
            self._operator.close()
        self.zookeeper.close()
        self._disks.close()

    def now(self) -> str:
        """For the report, as the brokers' logs tell the time."""
        return time.strftime("%H:%M:%S")

    # -- what ZooKeeper tells ------------------------------------------------------------------

    def states(self) -> States:
        """All partitions; fails while ZooKeeper is away."""
        client, states = self._client(), {}
        for topic in client.get_children(layout.TOPICS):
            path = layout.topic_path(topic)
            node = layout.decode_topic(path, client.get(path)[0])
            for index, replicas in enumerate(node.replicas):
                path = layout.state_path(topic, index)
                state = layout.decode_state(path, client.get(path)[0])
                states[topic, index] = State(
                    state.leader, state.leader_epoch, tuple(state.isr), tuple(replicas)
                )
        return states

    def alive(self) -> set[int]:
        """The brokers that are registered."""
        return {int(each) for each in self._client().get_children(layout.BROKERS)}

    def controller(self) -> int | None:
        """The broker that is the controller now."""
        with contextlib.suppress(KazooException):
            return layout.decode_controller(self._client().get(layout.CONTROLLER)[0])
        return None

    def controller_epoch(self) -> int:
        return layout.decode_controller_epoch(self._client().get(layout.CONTROLLER_EPOCH)[0])

    def await_whole(self, timeout_s: float) -> float:
        """Wait until every broker is registered, and every replica in sync; how long it took."""
        began = time.monotonic()

        def is_whole() -> bool:
            try:
                return self.alive() == set(NODES) and not self.unwhole()
            except KazooException:
                return False

        try:
            wait_until(is_whole, "the cluster to be whole", timeout_s)
        except AssertionError as failure:
            raise AssertionError(f"{failure}: {self.unwhole()}, of {self.alive()}") from None
        return time.monotonic() - began

    def unwhole(self) -> States:
        """Partitions without a leader, or with replicas that are not in sync."""
        return {
            at: state
            for at, state in self.states().items()
            if state.leader not in state.isr or set(state.isr) != set(state.replicas)
        }

    def _client(self) -> KazooClient:
        assert self._operator is not None, "not started"
        return self._operator.client


def elections(before: States, after: States) -> int:
    """How many leader epochs have begun in between, in all partitions together."""
    return sum(
        after[at].leader_epoch - state.leader_epoch for at, state in before.items() if at in after
    )


def tracebacks(members: Iterable[Member]) -> Iterator[str]:
    """What no broker may ever show."""
    for each in members:
        said = each.said()
        position = said.find("Traceback (most recent call last)")
        if position >= 0:
            yield f"broker {each.node_id}:\n{said[max(0, position - 300) : position + 3000]}"
