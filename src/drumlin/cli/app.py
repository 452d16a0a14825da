"""The command tree apart from `server`, and the one place where errors become exit codes.

A user never sees a traceback: whatever goes wrong is one line on standard error. Set
DRUMLIN_TRACEBACK to see where an unexpected error came from.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Final

import typer

from drumlin.cli import compaction, configs, groups, output, sinks, topics, transactions
from drumlin.cli import consume as consuming
from drumlin.cli import produce as producing
from drumlin.cli.dump import command as dump
from drumlin.cli.options import AsJson
from drumlin.cli.outcomes import sentence
from drumlin.client.errors import ClientError, RequestRefused
from drumlin.peer.errors import PeerError
from drumlin.wire.errors import KafkaError

# typer carries its own copy of click from some version on; its exceptions are found from here.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]
_EXIT_USAGE: Final = 2
_EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name="drumlin",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Drumlin: a commit log that speaks the Kafka protocol.",
    epilog="`drumlin COMMAND --help` has examples.",
)
app.command(epilog=producing.EXAMPLES)(producing.produce)
app.command(epilog=consuming.EXAMPLES)(consuming.consume)
app.add_typer(topics.app, name="topics")
app.add_typer(configs.app, name="configs")
app.add_typer(groups.app, name="groups")
app.add_typer(transactions.app, name="transactions")
app.add_typer(sinks.app, name="sinks")
app.add_typer(compaction.app, name="compaction")
app.command("dump-log", epilog=dump.EXAMPLES)(dump.dump_log)


@app.command(
    context_settings={
        "ignore_unknown_options": True,
        "allow_extra_args": True,
        "help_option_names": [],
    },
)
def server(context: typer.Context) -> None:
    """Run a broker."""
    from drumlin.cli import server as server_command

    raise typer.Exit(server_command.main(context.args))


def _show_version(wanted: bool) -> None:
    if wanted:
        print(_version())
        raise typer.Exit


@app.callback()
def drumlin(
    _: Annotated[
        bool,
        typer.Option("--version", help="Print the version.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Drumlin: a commit log that speaks the Kafka protocol."""


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version."""
    if as_json:
        output.show_json({"version": _version()})
    else:
        print(_version())


def _version() -> str:
    from importlib.metadata import version as version_of

    return version_of("drumlin")


def main(arguments: Sequence[str]) -> int:
    """Run one command and return the exit code."""
    try:
        code = app(list(arguments), prog_name="drumlin", standalone_mode=False) or 0
        sys.stdout.flush()
        return int(code)
    except _UsageError as error:
        return _report_usage(error)
    except typer.Abort:
        return _EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return _EXIT_INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has seen enough: end as typer does when it sees this first.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except output.Failure as error:
        output.note(f"drumlin: {error}")
        return error.exit_code
    except KafkaError as error:
        output.note(f"drumlin: {sentence(error)}")
        return 1
    except (ClientError, PeerError, OSError, ValueError) as error:
        cause = error.__cause__
        if isinstance(error, RequestRefused) and isinstance(cause, KafkaError):
            output.note(f"drumlin: {sentence(cause)}")
        else:
            output.note(f"drumlin: {error}")
        return 1
    except Exception as error:
        if os.environ.get("DRUMLIN_TRACEBACK"):
            raise
        output.note(f"drumlin: {type(error).__name__}: {error} (unexpected)")
        return 1


def _report_usage(error: Exception) -> int:
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "drumlin"
    message = " ".join(error.format_message().split())  # type: ignore[attr-defined]
    if message:
        output.note(f"{command}: {message.rstrip('.')} (see {command} --help)")
    return _EXIT_USAGE
