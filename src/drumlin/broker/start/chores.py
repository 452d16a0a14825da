"""A broker's periodic chores, with their intervals and threads.

Chores that change a log run on the event loop; those that wait for a disk run in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final, Protocol

from drumlin.broker.hosting.hosted_partitions import HostedPartitions
from drumlin.broker.hosting.replicas import Replicas
from drumlin.broker.http.endpoints import Endpoints
from drumlin.broker.log_lines.repeats import LINES
from drumlin.broker.login.delegation_tokens import DelegationTokens, remove_over
from drumlin.broker.login.renewal import Renewal
from drumlin.broker.loop.cycles import Cycles
from drumlin.broker.parts.parts import BrokerData
from drumlin.broker.rights.audit import AUDIT
from drumlin.broker.start.server import Server
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

_SECOND_MS: Final = 1000
_PROBE_MS: Final = 5000
_IDLE_MS: Final = 60_000


class Kept(BrokerData, Protocol):
    """The parts of a broker that the chores need."""

    hosting: HostedPartitions
    endpoints: Endpoints
    replicas: Replicas
    server: Server
    delegation_tokens: DelegationTokens

    @property
    def renewal(self) -> Renewal: ...


def start_upkeep(broker: Kept, cycles: Cycles) -> None:
    """Start all chores of a broker."""
    config, logs = broker.config, broker.logs
    cycles.every(
        config.log_retention_check_interval_ms,
        "retention",
        lambda: _retain(broker),
        first_after_ms=config.log_initial_task_delay_ms,
    )
    cycles.every(_SECOND_MS, "retention that waited", lambda: _retain_held(broker))
    cycles.every(_SECOND_MS, "removal", lambda: broker.threads.administering(logs.remove_doomed))
    cycles.every(_SECOND_MS, "flush", lambda: _flush(broker))
    cycles.every(
        config.delegation_token_expiry_check_interval_ms,
        "delegation tokens",
        lambda: remove_over(broker.delegation_tokens, broker.metadata, broker.clock.wall_ms()),
    )
    cycles.every(
        config.log_flush_offset_checkpoint_interval_ms,
        "checkpoints",
        lambda: _write_checkpoints(broker),
    )
    cycles.every(
        max(config.replica_lag_time_max_ms // 2, 1),
        "in-sync replicas",
        broker.replicas.review_in_sync,
    )
    cycles.every(
        1000 * config.leader_imbalance_check_interval_seconds,
        "preferred leaders",
        broker.replicas.balance_leaders,
    )
    cycles.every(_IDLE_MS, "idle logs", logs.release_idle)
    cycles.every(_IDLE_MS, "held files", broker.endpoints.backup.release_left)
    cycles.every(_SECOND_MS, "rolling for compaction", lambda: _roll_overdue(broker))
    cycles.every(_PROBE_MS, "probe", lambda: _probe(broker))
    cycles.every(_SECOND_MS, "failed log dirs", lambda: _give_up_failed(broker))
    cycles.every(
        config.producer_id_expiration_check_interval_ms,
        "producer expiry",
        lambda: logs.expire_producers(config.producer_id_expiration_ms),
    )
    cycles.every(_SECOND_MS, "clock", lambda: _look_at_clock(broker))
    cycles.every(_SECOND_MS, "audit level", AUDIT.look_at_level, first_after_ms=0)
    cycles.every(_SECOND_MS, "lines left out", LINES.tell_left_out)
    cycles.every(_SECOND_MS, "certificates", broker.renewal.look)
    cycles.every(_SECOND_MS, "idle connections", lambda: broker.server.close_idle(_loop_time()))


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


async def _look_at_clock(broker: Kept) -> None:
    """Log a jump of the wall clock when it happens."""
    _ = broker.clock.expiry.doubt


async def _write_checkpoints(broker: Kept) -> None:
    await broker.threads.administering(broker.logs.write_checkpoints)


async def _retain(broker: Kept) -> None:
    await broker.threads.administering(broker.logs.prepare_retention)
    await broker.logs.delete_old_segments(partial(_note_start, broker))


async def _retain_held(broker: Kept) -> None:
    await broker.logs.delete_held_segments(partial(_note_start, broker))


def _note_start(broker: Kept, log: PartitionLog) -> None:
    """Notify a partition's watchers of its new log start offset, for which no fetch waits."""
    partition = broker.partitions.find(log.topic, log.partition)
    if partition is not None and partition.log is log:
        partition.waiting.note()


async def _roll_overdue(broker: Kept) -> None:
    """Roll active segments in time for `max.compaction.lag.ms`."""
    await broker.threads.administering(broker.logs.prepare_rolls)
    await broker.logs.roll_overdue()


async def _flush(broker: Kept) -> None:
    """Flush closed segments, and logs for which a flush is due by `flush.ms`."""
    for log in await broker.logs.logs_to_flush():
        try:
            await broker.threads.syncing(log.flush)
        except KafkaError:
            continue  # deleted meanwhile, or its log dir has failed, which is logged already
        except Exception:  # noqa: BLE001  one failure must not stop the others
            _log.exception("%s could not be flushed", log.name)


async def _give_up_failed(broker: Kept) -> None:
    """Have other brokers lead partitions whose logs fail on this broker."""
    for directory in broker.logs.directories:
        if not directory.is_online:
            try:
                await broker.hosting.give_up(directory)
            except KafkaError:
                continue  # the metadata store has logged it; the next round tries again
            except Exception:  # noqa: BLE001  the others must be given up all the same
                _log.exception("%s could not be given up", directory.path)


async def _probe(broker: Kept) -> None:
    """Bring back failed log dirs that work again, and create logs that are still missing."""
    is_back = False
    for directory in broker.logs.directories:
        try:
            if not directory.is_online:
                is_back |= await broker.hosting.take_back(directory)
            elif directory.not_loaded:
                is_back |= await broker.threads.administering(broker.logs.load_again, directory)
        except Exception:  # noqa: BLE001  the other dirs must be tried all the same
            _log.exception("Log dir %s could not be looked at", directory.path)
    if is_back or broker.hosting.is_behind or broker.partitions.has_offline:
        await broker.hosting.host_all()
