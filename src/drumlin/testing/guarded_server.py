"""The process of a test broker, which does not outlive the process that started it.

Standard input is a pipe whose other end only the starter holds. When the starter ends, however it
ends, the system closes that end, and the broker removes its folder and ends. (PR_SET_PDEATHSIG
would end the broker with the *thread* that started it.)

    python -m drumlin.testing.guarded_server FOLDER PROPERTIES-AS-JSON [secure]
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path


def main(folder: Path, properties: Mapping[str, str], *, is_secure: bool) -> int:
    """Run a broker until it is stopped, or its starter has ended."""
    is_data_kept = folder not in Path(properties["log.dirs"]).parents
    threading.Thread(target=_watch, args=(folder, is_data_kept), daemon=True).start()
    from drumlin.broker.start.process import run

    if is_secure:
        from drumlin.securing.secured_server import secured_server

        properties = secured_server(properties, 1).properties
    return run(properties)


def _watch(folder: Path, is_data_kept: bool) -> None:
    """Wait for the starter to end, then remove the folder and end the broker."""
    while os.read(sys.stdin.fileno(), 4096):
        pass
    if is_data_kept:
        shutil.rmtree(folder, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGTERM)
        return
    while folder.exists():  # the broker may be writing into it
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), json.loads(sys.argv[2]), is_secure=sys.argv[3:] == ["secure"]))
