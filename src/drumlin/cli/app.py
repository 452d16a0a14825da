"""The tree of commands, and the one place where errors become exit codes.

A command is loaded when it is run: a broker must be ready within a second and stay small, and a
user waits for each command. A user never sees a traceback: whatever goes wrong is one line on
standard error. Set DRUMLIN_TRACEBACK to see where an unexpected error came from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

import click

from drumlin.cli.terminal import output, standard_output
from drumlin.cli.terminal.before_command import options_before_command
from drumlin.cli.terminal.commands import LazyGroup, Place

_EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130


def _at(module: str, attribute: str, help: str) -> Place:  # noqa: A002
    return Place(f"drumlin.cli.{module}", attribute, help)


app: Final = LazyGroup(
    {
        "server": _at("server", "server_command", "Run a broker."),
        "topics": _at("topics.topics", "app", "List, describe, create, change and delete topics."),
        "produce": _at(
            "records.produce", "produce_command", "Write lines, or rows of a file, to a topic."
        ),
        "consume": _at(
            "records.consume", "consume_command", "Show records, or write them to a file."
        ),
        "bench": _at("records.bench", "bench_command", "Measure how fast a cluster is."),
        "snapshot": _at(
            "records.snapshot", "snapshot_command", "Show the last record of every key."
        ),
        "restore": _at("records.restore", "restore_command", "Write a state into a new topic."),
        "materialize": _at(
            "records.materialize", "materialize_command", "Keep a topic as a table in a store."
        ),
        "land": _at(
            "records.land", "land_command", "Bring topics into tables and files, with Spark."
        ),
        "capture": _at("captures.capture", "app", "Write the changes of a database to topics."),
        "groups": _at(
            "groups.groups", "app", "List, describe and delete groups; move their offsets."
        ),
        "cluster": _at(
            "clusters.cluster_commands", "app", "Show a cluster's state; run one for practice."
        ),
        "top": _at("top.command", "top_command", "Show rates, lag and sizes, live."),
        "doctor": _at(
            "doctor.command", "doctor_command", "Find what is wrong, and say what to do."
        ),
        "health": _at("health", "health_command", "Ask a server whether it is well."),
        "users": _at("access.users", "app", "Add, list and remove users; change passwords."),
        "acls": _at("access.acls", "app", "Say who may do what, and ask it."),
        "certificates": _at(
            "access.certificates", "app", "Issue, renew and show a server's own certificates."
        ),
        "configs": _at("topics.configs", "app", "Show and change configurations."),
        "quotas": _at("quotas", "app", "Show and change quotas of users, clients and addresses."),
        "transactions": _at("topics.transactions", "app", "List, describe and abort transactions."),
        "state": _at("states", "app", "Look into the keyed states of processes."),
        "sinks": _at(
            "topics.sinks", "app", "Show the open transactions of Spark's exactly-once sinks."
        ),
        "compaction": _at("topics.compaction", "app", "Show, force or simulate log cleaning."),
        "backup": _at("backups.backup", "app", "Back up a running server's data, and restore it."),
        "console": _at("console", "console_command", "Show a cluster in a web browser."),
        "clock": _at("clock", "app", "Show a broker's clock, or mark it as right."),
        "context": _at("contexts", "app", "Name clusters, and choose one."),
        "dump-log": _at("dump.command", "dump_log_command", "Print and verify files of a log."),
        "completion": _at("completion_script", "completion_command", "Print shell completion."),
        "version": _at("version", "version_command", "Print the version."),
    },
    help="Drumlin: a commit log that speaks the Kafka protocol.",
    epilog="`drumlin COMMAND --help` has examples.",
)


def _show_version(context: click.Context, _: click.Parameter, is_requested: bool) -> None:
    if is_requested and not context.resilient_parsing:
        from drumlin.version import __version__

        print(__version__)
        context.exit()


app.params += options_before_command()
app.params.append(
    click.Option(
        ["--version", "-V"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_show_version,
        help="Print the version.",
    )
)


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    try:
        code = app.main(list(arguments), prog_name="drumlin", standalone_mode=False) or 0
        sys.stdout.flush()
        return int(code)
    except click.UsageError as error:
        return _report_usage(error)
    except (click.Abort, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe: exit as click does if click notices it first.
        standard_output.discard()
        return 1
    except output.Failure as error:
        output.note(f"drumlin: {error}")
        return error.exit_code
    except Exception as error:
        if not _is_expected(error) and os.environ.get("DRUMLIN_TRACEBACK"):
            raise
        output.note(f"drumlin: {_sentence(error)}")
        return 1


def _is_expected(error: Exception) -> bool:
    from drumlin.client.errors import ClientError
    from drumlin.peer.peer_error import PeerError
    from drumlin.wire.error_codes import KafkaError

    return isinstance(error, KafkaError | ClientError | PeerError | OSError | ValueError)


def _sentence(error: Exception) -> str:
    from drumlin.cli.terminal.outcomes import sentence, with_notes
    from drumlin.client.errors import RequestRefused
    from drumlin.client.needs_arrow import NO_ARROW, PACKAGES
    from drumlin.wire.error_codes import KafkaError

    if isinstance(error, ModuleNotFoundError) and error.name in PACKAGES:
        return NO_ARROW
    if isinstance(error, KafkaError):
        return sentence(error)
    if isinstance(error, RequestRefused) and isinstance(error.__context__, KafkaError):
        return sentence(error.__context__)
    if _is_expected(error):
        return with_notes(str(error), error)
    return f"{type(error).__name__}: {error} (unexpected)"


def _report_usage(error: click.UsageError) -> int:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        print(error.message)
        return 0
    command = error.ctx.command_path if error.ctx else "drumlin"
    message = " ".join(error.format_message().split())
    if message:
        output.note(f"{command}: {message.rstrip('.')} (see {command} --help)")
    return _EXIT_USAGE
