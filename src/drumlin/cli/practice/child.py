"""Replaces its own process with a program that the kernel kills when the parent process ends.

Run as a file by an interpreter without `site`; `exec` then replaces it with the program. The kernel
kills the program when the parent's *thread* ends, as that setting survives `exec`; so the parent's
main thread has to start it.

    python -I -S child.py PARENT-PID PROGRAM ARGUMENT…
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1


def main(parent: int, command: list[str]) -> NoReturn:
    """Run `command` in place of this program, unless the parent has ended."""
    # Brokers lose nothing by SIGKILL: acknowledged records are in the page cache.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before prctl took effect
        sys.exit(1)
    os.execv(command[0], command)  # noqa: S606 - no shell is the point


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
