"""The console command `drumlin`."""

from __future__ import annotations

import gc
import sys
from typing import Final

#: New objects after which Python looks for cycles. Loading a command makes fewer, nearly all of
#: which stay: looking at them again and again took a tenth of the time until it works.
_NEW_OBJECTS: Final = 200_000


def main() -> None:
    """Run the command line of this process and exit with its code."""
    gc.set_threshold(_NEW_OBJECTS)
    from drumlin.cli import app
    from drumlin.cli.terminal import standard_output

    sys.stdout = standard_output.whole(sys.__stdout__)
    code = app.main(sys.argv[1:])
    try:
        if code != app.EXIT_INTERRUPTED or standard_output.has_room():
            sys.stdout.flush()
        else:  # Ctrl-C, perhaps without a reader: do not wait for one
            standard_output.discard()
    except (OSError, KeyboardInterrupt):  # only after an error: otherwise everything is written
        standard_output.discard()
    gc.freeze()  # or Python looks for cycles in all that is loaded, twice, before it ends
    sys.exit(code)
