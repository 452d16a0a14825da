"""A client behind a hostile proxy, in a process of its own with little memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fuzz.hostile_proxy import HostileProxy
from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports

_TESTS = Path(__file__).parents[1]
_SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "500",
}
_RATE = 0.06
_GRACE_S = 300.0


def fuzz_client(directory: Path, seed: str, seconds: float) -> str:
    """Let a client work through a hostile proxy; what it says of it in the end."""
    (port,) = free_ports(1)
    listeners = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
    server = DrumlinServer(directory, _SETTINGS | listeners)
    server.start()
    try:
        with HostileProxy(port, server.port, seed, _RATE):
            command = [
                sys.executable,
                "-m",
                "fuzz.client_program",
                f"127.0.0.1:{port}",
                str(seconds),
            ]
            # glibc reserves 64 MiB for each thread that allocates: not what is measured here.
            environment = os.environ | {"PYTHONPATH": str(_TESTS), "MALLOC_ARENA_MAX": "2"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=seconds + _GRACE_S
            )
        server.check_output()
    finally:
        server.close()
    assert done.returncode == 0, f"{done.returncode}:\n{done.stderr[-6000:]}"
    return done.stdout
