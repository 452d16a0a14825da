"""The process from which commands of tests are forked (`forking`): it has imported all, and has no
threads.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final

from rig.forking import IMPORTED, MESSAGE_BYTES_MAX

_TESTS: Final = str(Path(__file__).parents[1])
_DESCRIPTORS_MAX: Final = 1 << 16


def _serve(control: socket.socket) -> dict[str, Any] | None:
    """Fork for each request. Returns the request in the child, None at the end of all."""
    selector = selectors.DefaultSelector()
    selector.register(control, selectors.EVENT_READ, 0)
    while True:
        for key, _ in selector.select():
            if key.data:
                selector.unregister(key.fd)
                os.close(int(key.fd))
                _, status = os.waitpid(key.data, 0)
                code = os.waitstatus_to_exitcode(status)
                control.send(json.dumps({"ended": key.data, "code": code}).encode())
                continue
            message, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES_MAX, 1)
            if not message:
                return None
            pid = os.fork()
            if not pid:
                selector.close()
                return {**json.loads(message), "output": descriptors[0]}
            os.close(descriptors[0])
            control.send(json.dumps({"started": pid}).encode())
            selector.register(os.pidfd_open(pid), selectors.EVENT_READ, pid)


def _become(request: dict[str, Any]) -> None:
    """Set what a program is started with: its streams, directory, environment and arguments."""
    for descriptor in (1, 2):
        os.dup2(request["output"], descriptor)
    os.closerange(3, _DESCRIPTORS_MAX)  # among them those of its siblings
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.path[:] = [request["cwd"], *(each for each in sys.path[1:] if each != _TESTS)]
    sys.argv = [str(Path(sys.executable).with_name("drumlin")), *request["arguments"]]


def main() -> None:
    for name in IMPORTED[sys.argv[2]]:
        importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.collect()
    gc.freeze()  # a collection would copy all pages of a child
    control = socket.socket(fileno=int(sys.argv[1]))
    request = _serve(control)
    if request is not None:
        control.detach()
        _become(request)
        runpy.run_module("drumlin", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
