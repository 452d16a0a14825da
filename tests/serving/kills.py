"""Writes to a topic at random, while whoever keeps it in a store is killed at any moment."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import drumlin
from drumlin.client.client import Client
from rig.waiting import wait_until

Model = dict[bytes, bytes]


def write(
    client: Client, topic: str, model: Model, chance: random.Random, value: bytes, count: int
) -> None:
    """Set some keys, and delete twenty of them; the model has what must be left."""
    changes = {b"k%d" % chance.randrange(3000): value for _ in range(count)}
    deleted = set(chance.sample(sorted(changes), 20))
    table = [{"key": k, "value": None if k in deleted else changes[k]} for k in changes]
    client.append(table, topic, batch_bytes=5000)
    model |= changes
    for key in deleted:
        del model[key]


def kill_again_and_again(
    client: Client, address: str, topic: str, to: str, claims: Callable[[], int], kills: int
) -> Model:
    """Run the command and kill it, then let it end; returns what the store must have.

    Args:
        claims: how often partitions were claimed in the store so far.
    """
    chance = random.Random(kills)
    model: Model = {}
    command = [sys.executable, "-m", "drumlin", "materialize", topic, "--to", to]
    command += ["--group", topic, "--instance", "only", "--bootstrap", address]
    for number in range(kills):
        before = claims()
        process = subprocess.Popen(command, stderr=subprocess.PIPE)
        wait_until(lambda before=before: claims() > before, "a claim")
        last_part = chance.randrange(10)
        for part in range(10):
            write(client, topic, model, chance, b"%d" % number, 300)
            if part == last_part:
                threading.Event().wait(chance.random() / 20)
                process.send_signal(signal.SIGKILL)
                process.communicate()
    done = drumlin.materialize(client, topic, to, group=topic, instance="only", until_end=True)
    assert done.lag == 0
    return model
