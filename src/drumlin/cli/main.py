"""The console command `drumlin`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    from drumlin.cli import app, standard_output

    sys.stdout = standard_output.whole(sys.__stdout__)
    code = app.main(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError:  # after an error: else it is written out by now
        standard_output.discard()
    sys.exit(code)
