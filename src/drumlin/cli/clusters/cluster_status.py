"""`drumlin cluster status`: brokers and unhealthy partitions, once or continuously.

Owns the display; `cluster_health` determines the state.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.clusters.cluster_health import ask_all, judge
from drumlin.cli.reach.cluster import connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.reach.eligible_replicas import columns_for
from drumlin.cli.terminal import output, standard_output
from drumlin.cli.terminal.commands import Option, command
from drumlin.cli.terminal.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, examples
from drumlin.cli.terminal.outcomes import sentence
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import KafkaError

#: How many partitions are listed: JSON has them all.
_LISTED_MAX: Final = 20
_WATCH_INTERVAL_S: Final = 2.0
_BROKER_COLUMNS: Final = (
    *("broker", "address", "rack", "is_alive", "is_controller"),
    *("leaders", "replicas", "in_sync"),
)
_PARTITION_COLUMNS: Final = ("state", "topic", "partition", "leader", "replicas", "isr", "min_isr")
_MOVE_COLUMNS: Final = ("state", "topic", "partition", "replicas", "adding", "removing")
#: The problems a partition can have, the worst first.
_KINDS: Final = {
    "offline": "offline",
    "under_min_isr": "under min.insync.replicas",
    "under_replicated": "under-replicated",
}


def status(
    data: Annotated[
        Path | None,
        Option(
            "--data", metavar="DIR", help="A practice cluster's directory, instead of --bootstrap."
        ),
    ] = None,
    watch: Annotated[
        bool,
        Option("--watch", "-w", help="Refresh every 2 s until Ctrl-C; a pipe gets changes only."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> None:
    """Show whether a cluster is healthy: its brokers, and partitions with problems.

    A broker is dead if it has replicas but is not registered. A partition is offline if it has no
    leader, under-replicated if a replica is not in sync. Each partition is listed once, with its
    worst problem, and at most 20 are; --json has them all. Replicas that are being moved, and
    those that may lead without being in sync (Kafka's ELR), are listed if brokers report them.
    """
    known: dict[int, str] = {}
    if data is not None:
        bootstrap, known = _practice(data.absolute())
        command_config = command_config or _administrators(data.absolute())
    if not watch:
        _show(_look(bootstrap, command_config, known), as_json)
        return
    shown: object = None
    while True:
        state: object
        try:
            state = _look(bootstrap, command_config, known)
        except KafkaError as error:
            state = sentence(error)
        except (PeerError, OSError) as error:
            state = str(error)
        if state != shown or sys.stdout.isatty():
            _show_again(state, as_json)
        shown = state
        standard_output.check_read()
        time.sleep(_WATCH_INTERVAL_S)


def _practice(directory: Path) -> tuple[str, dict[int, str]]:
    """The bootstrap address, and the brokers that should be alive.

    Raises:
        Failure: no practice cluster runs there.
    """
    from drumlin.cli.practice.control import not_running
    from drumlin.cli.practice.record import read_record
    from drumlin.storage.directory.directory_lock import is_locked

    record = read_record(directory)
    if record is None or not is_locked(str(directory)):
        raise not_running(directory)
    return record.bootstrap, {int(each.name): each.address for each in record.brokers}


def _administrators(directory: Path) -> Path | None:
    """The file with the administrator's settings to connect to a practice cluster, if secured."""
    from drumlin.securing.client_files import PROPERTIES
    from drumlin.securing.secured_cluster import is_secured

    file = directory / PROPERTIES
    return file if is_secured(directory) and file.exists() else None


def _look(bootstrap: str, command_config: Path | None, known: dict[int, str]) -> dict[str, Any]:
    """The state now. A broker that was seen once is expected from then on.

    Brokers that were alive last time are asked first: one that hangs would cost a timeout.
    """
    addresses = ",".join(dict.fromkeys((*known.values(), bootstrap)))
    with connect(addresses, command_config) as cluster:
        found = ask_all(cluster)
    missing = {number: at for number, at in known.items() if number not in found.brokers}
    known.clear()
    known.update((number, each.address) for number, each in found.brokers.items())
    known.update(missing)
    return judge(found, known)


def _show_again(state: object, as_json: bool) -> None:
    if isinstance(state, str):
        if sys.stdout.isatty():
            click.clear()
        output.note(f"drumlin: {state}")
    elif as_json:
        print(output.json_line(state), flush=True)
    elif isinstance(state, dict):
        if sys.stdout.isatty():
            click.clear()
        _show(state, as_json=False)
        sys.stdout.flush()


def _show(state: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        output.show_json(state)
        return
    title = f"cluster {state['cluster_id']}: {verdict(state)}"
    rows = [{"state": "broker", **each} for each in state["brokers"]]
    output.show_rows(rows, _BROKER_COLUMNS, as_json=False, title=title, plain_first="state")
    amiss = _amiss(state)
    _show_some(amiss, (*_PARTITION_COLUMNS, *columns_for(amiss)))
    moves = [{"state": "being moved", **each} for each in state["reassignments"] or []]
    _show_some(moves, _MOVE_COLUMNS)


def _amiss(state: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Each partition with a problem, once, with its worst one."""
    found: dict[tuple[str, int], dict[str, Any]] = {}
    for kind, words in _KINDS.items():
        for each in state[kind]:
            found.setdefault((each["topic"], each["partition"]), {"state": words, **each})
    return list(found.values())


def _show_some(rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if not rows:
        return
    if sys.stdout.isatty():
        print()
    output.show_rows(rows[:_LISTED_MAX], columns, as_json=False)
    if len(rows) > _LISTED_MAX:
        sys.stdout.flush()
        output.note(f"... and {_partitions(len(rows) - _LISTED_MAX)} more: --json has them all")


def verdict(state: Mapping[str, Any]) -> str:
    """The state in one line."""
    dead = [str(each["broker"]) for each in state["brokers"] if not each["is_alive"]]
    found = [f"broker {each} is dead" for each in dead]
    if state["controller"] is None:
        found.append("there is no controller")
    found += [
        f"{_partitions(len(state[kind]))} {words}" for kind, words in _KINDS.items() if state[kind]
    ]
    if not found:
        topics = f"{state['topics']} topic{'s' * (state['topics'] != 1)}"
        return f"healthy, {topics}, {_partitions(state['partitions'])}"
    return ", ".join(found)


def _partitions(count: int) -> str:
    return f"{count} partition{'s' * (count != 1)}"


status_command: Final = command(
    status,
    epilog=examples(
        "drumlin cluster status",
        "drumlin cluster status --data ./practice --watch",
        "drumlin cluster status -b broker1:9092 --json | jq .is_healthy",
    ),
)
