"""`drumlin version`."""

from __future__ import annotations

from typing import Final

from drumlin.cli.terminal import output
from drumlin.cli.terminal.commands import command
from drumlin.cli.terminal.options import AsJson, examples
from drumlin.version import __version__


def version(as_json: AsJson = False) -> None:
    """Print the version."""
    if as_json:
        output.show_json({"version": __version__})
    else:
        print(__version__)


version_command: Final = command(
    version, epilog=examples("drumlin version", "drumlin version --json")
)
