"""The console command `drumlin`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    from drumlin.cli import app

    sys.exit(app.main(sys.argv[1:]))
