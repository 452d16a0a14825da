"""The console command `drumlin`: sends `server` one way and everything else the other.

A broker must be ready within a second and stay small, so nothing that paints tables or reads
Arrow may be imported on its way: `server` is recognised before any of that is loaded.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line of this process and exit with its code."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["server"]:
        from drumlin.cli import server

        sys.exit(server.main(arguments[1:]))
    from drumlin.cli import app

    sys.exit(app.main(arguments))
