"""Moves of logs to other log dirs of this broker (KIP-113): a few at a time, while the rest wait.

`storage/replacement/log_move.py` changes the files; this module decides when. A move copies as fast
as the throttle allows, and changes over once little is left (`change_overs.py`). A
failure ends the move and nothing else: the log stays where it is.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

from drumlin.broker.parts.parts import BrokerData
from drumlin.replication.throttle import Quota
from drumlin.storage.directory.log_directory import LogDirectory
from drumlin.storage.log.partition_log import PartitionLog
from drumlin.storage.replacement.log_move import LogMove
from drumlin.wire.error_codes import KafkaError

_log = logging.getLogger(__name__)

#: Bytes that are copied in one call in a thread.
_STEP_BYTES: Final = 8 << 20
#: The maximum of bytes left to copy while the log takes no batches.
_REST_BYTES: Final = 1 << 20
#: Longest wait for the throttle, whose rate may change.
_WAIT_MAX_S: Final = 1.0
#: Pause before another attempt to change over, while the log is being truncated.
_BUSY_S: Final = 0.05


class _GivenUp(Exception):
    """The move was cancelled: the log stays, or moves to another log dir."""


class _UnderWay(NamedTuple):
    move: LogMove
    is_given_up: asyncio.Event
    task: asyncio.Task[None]


class LogMoves:
    """The moves of one broker."""

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._blocking = broker.threads.administering
        self._moves: dict[tuple[str, int], _UnderWay] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(len(broker.logs.directories))
        config = broker.config
        self._quota = Quota(
            lambda: config.replica_alter_log_dirs_io_max_bytes_per_second, broker.clock.monotonic
        )

    def __iter__(self) -> Iterator[LogMove]:
        """The moves in progress."""
        return iter([each.move for each in self._moves.values()])

    def begin(self, log: PartitionLog, directory: LogDirectory) -> None:
        """Move a log to `directory`; if it is there already, only cancel its move to another
        one."""
        key = log.topic, log.partition
        known = self._moves.get(key)
        if known is not None:
            if known.move.directory is directory and known.move.log is log:
                return
            self._give_up(key)
        if log.log_directory is directory:
            return
        move, is_given_up = LogMove(log, directory), asyncio.Event()
        task = asyncio.get_running_loop().create_task(self._run(move, is_given_up))
        self._moves[key] = _UnderWay(move, is_given_up, task)

    def _give_up(self, key: tuple[str, int]) -> None:
        known = self._moves.pop(key)
        known.is_given_up.set()
        self._ending.add(known.task)
        known.task.add_done_callback(self._ending.discard)

    async def close(self) -> None:
        """Cancel all moves."""
        for key in list(self._moves):
            self._give_up(key)
        if self._ending:
            await asyncio.wait(self._ending)

    async def _run(self, move: LogMove, is_given_up: asyncio.Event) -> None:
        log = move.log
        try:
            async with self._places:
                await self._blocking(move.begin)
                has_moved = False
                while not has_moved:
                    await self._copy(move, is_given_up)
                    await self._blocking(log.flush)
                    has_moved = await self._change_over(move)
        except _GivenUp:
            _log.info("%s is not moved to %s any more", log.name, move.directory.path)
        except (OSError, KafkaError) as error:
            _log.warning("%s is not moved to %s: %s", log.name, move.directory.path, error)
        except Exception:  # noqa: BLE001  no one else awaits a move
            _log.exception("%s is not moved to %s", log.name, move.directory.path)
        await self._end(move)
        known = self._moves.get((log.topic, log.partition))
        if known is not None and known.move is move:
            del self._moves[log.topic, log.partition]

    async def _copy(self, move: LogMove, is_given_up: asyncio.Event) -> None:
        """Copy until little is left."""
        while True:
            wait_s = min(self._quota.wait_s(), _WAIT_MAX_S)
            if wait_s <= 0:
                copied = await self._blocking(move.copy, _STEP_BYTES)
                self._quota.use(copied)
                if copied > _REST_BYTES:
                    wait_s = 0
                elif not move.log.is_being_cut:
                    return
                else:
                    wait_s = _BUSY_S
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await is_given_up.wait()
            if is_given_up.is_set() or move.log.is_deleted:
                raise _GivenUp

    async def _change_over(self, move: LogMove) -> bool:
        """Change over, which cannot be cancelled; returns False if the log is being truncated."""
        log = move.log
        if log.is_being_cut:
            return False
        with self._broker.change_overs.pausing(log):
            await self._blocking(move.complete)
            move.adopt()
        _log.info("%s is in %s now", log.name, log.log_directory.path)
        return True

    async def _end(self, move: LogMove) -> None:
        """End a move: one folder of the log is left."""
        try:
            if move.left_path is None:
                await self._blocking(move.abandon)
                return
            await self._blocking(move.conclude)
        except OSError as error:  # the next start deletes the folder
            _log.warning("a folder of %s is left: %s", move.log.name, error)
            return
        self._broker.logs.remove_later(move.left_path, move.log.config.file_delete_delay_ms)
        await self._blocking(self._broker.logs.write_checkpoints)
