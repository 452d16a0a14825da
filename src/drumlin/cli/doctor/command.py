"""`drumlin doctor`: gathers facts, has them checked, and shows the findings."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import click

from drumlin.cli.doctor.checkup import checkup
from drumlin.cli.doctor.facts import Facts
from drumlin.cli.doctor.finding import Finding, Severity
from drumlin.cli.doctor.gathering import directory, machine
from drumlin.cli.doctor.gathering.cluster import look_at_cluster
from drumlin.cli.reach.broker_http import BrokerHttp, broker_at, broker_on
from drumlin.cli.reach.cluster import connect
from drumlin.cli.reach.command_config import CommandConfig
from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import Argument, Option, command
from drumlin.cli.terminal.options import (
    DEFAULT_BOOTSTRAP,
    AsJson,
    choose_bootstrap,
    examples,
    read_properties,
)
from drumlin.config.config_error import ConfigError
from drumlin.peer.peer_error import PeerError

#: Exit codes for scripts; 1 and 2 are those of a doctor that could not look.
_EXIT_WARNINGS: Final = 3
_EXIT_ERRORS: Final = 4
_COLUMNS: Final = ("severity", "check", "subject", "what", "why", "remedy")
_COLOURS: Final = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "blue"}

#: As everywhere, but without a default: with --data, no cluster is looked at that nobody named.
_Bootstrap = Annotated[
    str | None,
    Option(
        "--bootstrap",
        "-b",
        envvar="DRUMLIN_BOOTSTRAP",
        metavar="HOST:PORT[,…]",
        help="A cluster's brokers. Without --data, --http and a file: 127.0.0.1:9092.",
        choose=choose_bootstrap,
    ),
]


def doctor(
    file: Annotated[
        Path | None,
        Argument("[server.properties]", help="A broker's configuration, running or not."),
    ] = None,
    data: Annotated[
        Path | None,
        Option("--data", "-d", metavar="DIR", help="A broker's data directory, on this machine."),
    ] = None,
    http: Annotated[
        str | None,
        Option("--http", metavar="HOST:PORT", help="A Drumlin broker's drumlin.metrics.listener."),
    ] = None,
    bootstrap: _Bootstrap = None,
    seconds: Annotated[
        int,
        Option("--seconds", metavar="N", min=0, max=3600, help="The time between two looks."),
    ] = 10,
    command_config: CommandConfig = None,
    as_json: AsJson = False,
) -> int:
    """Find what is wrong, or will be, with a cluster, a broker's machine and its configuration.

    Each finding says why it matters, and what to do. It changes nothing. A cluster may be any that
    speaks the Kafka protocol. The cleaner and jumps of the clock are known to Drumlin's brokers
    alone: through --data beside a running broker, or --http.

    Exit code: 0 nothing but notes, 3 warnings, 4 errors; 1 and 2 if the doctor itself failed.
    """
    if bootstrap is None and data is None and http is None and file is None:
        bootstrap = DEFAULT_BOOTSTRAP
    facts = _of_machine(file, data, http)
    if bootstrap is not None:
        facts |= _of_cluster(bootstrap, command_config, seconds, facts.pop("unknown"))
    findings = checkup(Facts(now_ms=time.time_ns() // 1_000_000, **facts))
    _show(findings, as_json)
    worst = max((each.severity for each in findings), default=Severity.NOTE)
    return {Severity.ERROR: _EXIT_ERRORS, Severity.WARNING: _EXIT_WARNINGS}.get(worst, 0)


def _of_machine(file: Path | None, data: Path | None, http: str | None) -> dict[str, Any]:
    """The facts about this machine, its data directory, and the broker on it."""
    facts: dict[str, Any] = {"unknown": ()}
    properties = {} if file is None else read_properties(file)
    log_dirs = [] if data is None else directory.log_dirs_below(data)
    broker = None
    if data is not None:
        broker = broker_on(data)
    if file is not None:
        try:
            facts["configuration"], config = directory.configuration_of(file, properties)
        except ConfigError as error:
            facts["invalid_configuration"] = str(error)
        else:
            if data is None:
                log_dirs = [each for each in map(Path, config.log_dirs) if each.is_dir()]
                data = next(iter(log_dirs), None)
                broker = broker_on(data) if data is not None else None
            if broker is None:
                facts["ports"] = machine.closed_ports(config.listeners)
    if file is not None or data is not None:
        facts["machine"] = machine.look_at_machine(log_dirs)
        facts["certificates"] = directory.certificates_in(data, properties)
    return facts | _of_broker(data, broker_at(http) if http is not None else broker)


def _of_broker(data: Path | None, broker: BrokerHttp | None) -> dict[str, Any]:
    """What a Drumlin broker says of itself, or its files say."""
    facts: dict[str, Any] = {"unknown": ()}
    try:
        facts["cleaner"] = directory.cleaner_report(data, broker)
        if broker is not None:
            facts["clocks"] = directory.clocks_of(broker)
    except output.Failure as error:
        facts["unknown"] = (("cleaner and clock", str(error)),)
    return facts


def _of_cluster(
    bootstrap: str, command_config: Path | None, seconds: int, unknown: tuple[Any, ...]
) -> Mapping[str, Any]:
    try:
        with connect(bootstrap, command_config) as cluster:
            if sys.stderr.isatty():
                output.note(f"looking twice, {seconds} s apart ...")
            facts, others = look_at_cluster(cluster, seconds)
    except PeerError as error:
        return {"unreachable": str(error), "unknown": unknown}
    return {"cluster": facts, "unknown": (*unknown, *others)}


def _show(findings: Sequence[Finding], as_json: bool) -> None:
    rows = [each.as_row() for each in findings]
    if as_json or not sys.stdout.isatty():
        output.show_rows(rows, _COLUMNS, as_json=as_json)
    else:
        for each in findings:
            click.secho(f"{each.severity.name.lower()} ", fg=_COLOURS[each.severity], nl=False)
            click.secho(output.printable(f"{each.subject}: {each.what}"), bold=True)
            print(f"    why: {each.why}")
            print(output.printable(f"    do:  {each.remedy}    [{each.check}]") + "\n")
    output.note(_summary(findings))


def _summary(findings: Sequence[Finding]) -> str:
    counts = [
        output.counted(count, severity.name.lower())
        for severity in sorted(Severity, reverse=True)
        if (count := sum(each.severity is severity for each in findings))
    ]
    return ", ".join(counts) or "nothing is wrong"


doctor_command: Final = command(
    doctor,
    epilog=examples(
        "drumlin doctor -b broker1:9092",
        "drumlin doctor --data /var/lib/drumlin -b 127.0.0.1:9092",
        "drumlin doctor config/server.properties",
        "drumlin --profile prod doctor --json | jq '.[] | select(.severity == \"error\")'",
    ),
)
