"""Disks of three replicas that fail and work again, at random moments, one after the other."""

from __future__ import annotations

import errno
from random import Random

from replication.replicas.real_replicas import NODES, RETENTION_MS, Replicas
from replication.replicas.replica_histories import happens
from storage.samples import revive


def fail_and_return(replicas: Replicas, node: int) -> None:
    """What is on the disk is read again; who follows from it is out of sync, who leads begins anew.

    Nothing in this process or any other knows what is lost by that: here it is nothing.
    """
    directory = replicas.log(node).log_directory
    if node in replicas.state.isr and node != replicas.state.leader:
        replicas.leave_isr(node)
    directory.fail(OSError(errno.EIO, "test"), "test")
    assert revive(replicas.dirs[node], directory)
    if node == replicas.state.leader:
        replicas.lead(node)


def happens_to_disks(replicas: Replicas, source: Random) -> None:
    """Mostly what else happens; else the leader forgets what it knew, or a disk fails."""
    chance, node = source.random(), source.choice(NODES)
    if chance < 0.06:
        fail_and_return(replicas, node)
    elif chance < 0.1 and node in replicas.away:
        replicas.restart(node, is_clean=False)
    elif chance < 0.16 and node in replicas.followed:
        if replicas.followed[node]._copy is not None:  # in the midst of that
            replicas.leave(node)
            replicas.restart(node, is_clean=False)
            replicas.come_back(node)
    elif chance < 0.2:
        replicas.commit()
        replicas.clean(replicas.state.leader)
        replicas.clock.advance_ms(RETENTION_MS)
    else:
        happens(replicas, source)
