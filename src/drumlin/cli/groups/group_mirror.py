"""`drumlin groups mirror`: keep ZooKeeper's and the brokers' offsets of groups the same.

Runs passes of `migration.mirror` until a signal, reports what they do, and waits while either
store is unavailable. It ends after one more pass, so that both stores are left equal.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import threading
import time
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from drumlin.cli.groups.group_transfer import Groups, Topics, ZooKeeperConfig
from drumlin.cli.reach.cluster import Cluster, connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Option
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, Bootstrap, examples, read_properties
from drumlin.cli.terminal.outcomes import sentence
from drumlin.client.errors import ClientError
from drumlin.migration.store_error import StoreUnavailable
from drumlin.migration.stores import BrokerStore
from drumlin.peer.options import PeerOptions
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import KafkaError

if TYPE_CHECKING:
    from drumlin.migration.mirror import Mirror, Status
    from drumlin.migration.zookeeper import ZooKeeperStore
    from drumlin.migration.zookeeper_follower import ZooKeeperFollower

EXAMPLES: Final = examples(
    "drumlin groups mirror reporting --zookeeper zk1:2181,zk2:2181/kafka",
    "drumlin groups mirror 'reporting*' -z zk1:2181 --interval-ms 200 --quiet",
    "drumlin groups mirror reporting -z zk1:2181 --once",
)
#: Shorter than in other commands: the next pass tries an unavailable store again.
_TIMEOUT_MS: Final = 5_000
_OPTIONS: Final = PeerOptions(
    client_id="drumlin-mirror", request_timeout_ms=_TIMEOUT_MS, connect_timeout_ms=_TIMEOUT_MS
)
_SESSION_TIMEOUT_MS: Final = 10_000
#: Watches report all changes; everything is still re-read from time to time.
_READ_ALL_S: Final = 60.0
_CHOOSE_S: Final = 10.0
_GATHER_S: Final = 0.05

_Away = (StoreUnavailable, PeerError, KafkaError, ClientError, OSError)


def mirror(
    groups: Groups,
    zookeeper: Annotated[
        str,
        Option(
            "--zookeeper",
            "-z",
            metavar="HOST:PORT[,…][/CHROOT]",
            help="A ZooKeeper with /consumers/GROUP/offsets.",
        ),
    ],
    zookeeper_config: ZooKeeperConfig = None,
    topics: Topics = None,
    interval_ms: Annotated[
        int,
        Option("--interval-ms", min=10, help="How often the brokers are asked."),
    ] = 1_000,
    status_ms: Annotated[
        int, Option("--status-ms", min=10, help="How often a status line is printed.")
    ] = 10_000,
    state: Annotated[
        Path | None,
        Option("--state", metavar="FILE", help="Where to remember the offsets of both stores."),
    ] = None,
    once: Annotated[bool, Option("--once", help="Make both equal, then exit.")] = False,
    quiet: Annotated[
        bool, Option("--quiet", "-q", help="Do not print each offset that is copied.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Keep the offsets of groups in ZooKeeper and in this cluster the same, both ways.

    The last change wins, forward or back. Ends at SIGTERM, SIGHUP or Ctrl-C, after a last pass;
    exit code 1 means that this pass failed.
    """
    from drumlin.migration.commit_times import find_commits
    from drumlin.migration.mirror import Mirror
    from drumlin.migration.mirror_state import MirrorState
    from drumlin.migration.zookeeper import ZooKeeperStore, connected
    from drumlin.migration.zookeeper_follower import ZooKeeperFollower

    wake, stop = threading.Event(), threading.Event()
    tell = _Teller(as_json, quiet)
    with ExitStack() as stack:
        _stop_at_signals(stack, stop, wake)
        cluster = stack.enter_context(connect(bootstrap, command_config, _OPTIONS))
        guarded = read_properties(zookeeper_config) if zookeeper_config else {}
        client = stack.enter_context(connected(zookeeper, guarded, _SESSION_TIMEOUT_MS))
        cluster_id = cluster.connections.view.cluster_id
        remembered = MirrorState(state or _default_state(cluster_id, zookeeper), cluster_id)
        stack.callback(remembered.close)
        store = ZooKeeperStore(client, zookeeper, timeout_ms=_TIMEOUT_MS)
        follower = ZooKeeperFollower(store, wake.set)
        commits = find_commits(bootstrap, cluster.connections.options.security)
        tell("started", f"mirroring {zookeeper} and {bootstrap}, state in {remembered.path}")
        passes = Mirror(follower, cluster, remembered, commits, tell, topics)
        running = _Running(passes, follower, store, cluster, groups, tell)
        running.run(wake, stop, interval_ms / 1000, status_ms / 1000, once=once)


def _default_state(cluster_id: str | None, zookeeper: str) -> Path:
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    digest = hashlib.sha256(f"{cluster_id} {zookeeper}".encode()).hexdigest()[:12]
    return folder / "drumlin" / f"mirror-{digest}.json"


def _stop_at_signals(stack: ExitStack, stop: threading.Event, wake: threading.Event) -> None:
    def stop_soon(_number: int, _frame: object) -> None:
        stop.set()
        wake.set()

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        before = signal.getsignal(number)
        if number == signal.SIGHUP and before == signal.SIG_IGN:
            continue  # as under nohup, the signal stays ignored
        signal.signal(number, stop_soon)
        stack.callback(signal.signal, number, before)


class _Teller:
    """Prints events, one per line, for people or for programs."""

    def __init__(self, as_json: bool, quiet: bool) -> None:
        self._as_json = as_json
        self._quiet = quiet

    def __call__(self, event: str, sentence: str, **fields: Any) -> None:
        if self._quiet and event == "written":
            return
        now_ms = time.time_ns() // 1_000_000
        if self._as_json:
            print(output.json_line({"event": event, "timestamp": now_ms, **fields}), flush=True)
        else:
            print(f"{output.human_timestamp(now_ms)} {event}: {sentence}", flush=True)


class _Running:
    """The loop of passes, the waits between them and the status lines."""

    def __init__(
        self,
        mirror: Mirror,
        follower: ZooKeeperFollower,
        store: ZooKeeperStore,
        cluster: Cluster,
        patterns: Collection[str],
        tell: _Teller,
    ) -> None:
        self._mirror = mirror
        self._follower = follower
        self._store = store
        self._broker = BrokerStore(cluster, "the broker")
        self._patterns = patterns
        self._tell = tell
        self._groups: list[str] = []
        self._choose_at = self._read_all_at = 0.0
        self._written = [0, 0]  # to the broker, to ZooKeeper
        self._is_away = False
        self._odd: set[str] = set()

    def run(
        self,
        wake: threading.Event,
        stop: threading.Event,
        interval_s: float,
        status_s: float,
        *,
        once: bool,
    ) -> None:
        """
        Raises:
            output.Failure: the last pass failed.
        """
        status_at = 0.0
        has_looked = False
        while True:
            is_last = stop.is_set() or once
            wake.clear()
            try:
                status = self._one_pass(is_last)
            except _Away as error:
                # A failure in the first pass is more likely a mistake than a restart.
                if is_last or not has_looked:
                    raise
                self._away(error)
            else:
                has_looked = True
                self._back()
                if is_last or time.monotonic() >= status_at:
                    self._show(status)
                    status_at = time.monotonic() + status_s
            if is_last:
                self._tell("stopped", "both stores are in the state of the last status line")
                return
            # Wait a moment, so that one pass handles changes that arrive together.
            if wake.wait(interval_s) and not stop.is_set():
                stop.wait(min(interval_s, _GATHER_S))

    def _one_pass(self, is_last: bool) -> Status:
        from drumlin.migration.mirror import choose_groups

        now = time.monotonic()
        if now >= self._read_all_at:
            self._follower.read_all_again()
            self._read_all_at = now + _READ_ALL_S
        if now >= self._choose_at or not self._groups:
            self._groups = choose_groups(self._patterns, self._known_groups)
            self._choose_at = now + _CHOOSE_S
        status = self._mirror.run_pass(self._groups, is_last=is_last)
        self._written[0] += status.to_broker
        self._written[1] += status.to_zookeeper
        for note in self._store.notes:
            if note not in self._odd:
                self._odd.add(note)
                self._tell("odd", note, node=note)
        self._store.notes.clear()
        return status

    def _known_groups(self) -> list[str]:
        """The groups that both stores can have."""
        from drumlin.zookeeper.consumer_offsets import can_have_group

        return [*self._follower.groups(), *filter(can_have_group, self._broker.groups())]

    def _away(self, error: BaseException) -> None:
        if not self._is_away:
            self._is_away = True
            what = sentence(error) if isinstance(error, KafkaError) else str(error)
            self._tell("waiting", what, reason=what)

    def _back(self) -> None:
        if self._is_away:
            self._is_away = False
            self._tell("going on", "both stores answer again")

    def _show(self, status: Status) -> None:
        different = status.differences
        to_broker, to_zookeeper = self._written
        worst = max(different, key=lambda each: each.distance, default=None)
        far = worst.distance if worst is not None else 0
        absent = f", {status.absent} not in the cluster" if status.absent else ""
        about = f", by {far} at most: {worst}" if worst is not None else ""
        self._tell(
            "status",
            f"{status.partitions} partitions of {status.groups} "
            f"group{'s' if status.groups != 1 else ''}, {len(different)} differ"
            f"{about}{absent}; written {to_broker} to the broker, {to_zookeeper} to ZooKeeper",
            groups=status.groups,
            partitions=status.partitions,
            absent=status.absent,
            different=len(different),
            offsets_apart=far,
            written_to_broker=to_broker,
            written_to_zookeeper=to_zookeeper,
        )
        sys.stdout.flush()
