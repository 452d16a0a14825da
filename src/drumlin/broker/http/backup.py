"""The broker's part of a backup: the files of one moment, held while another process copies them.

The process that copies them locks their folder. Once it has ended, the next backup may begin. If it
was killed, `release_left` releases what is still held, or the next start of the broker.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from drumlin.broker.http.message import HttpError, Request, Response
from drumlin.broker.http.standstill import stand_still
from drumlin.broker.parts.parts import BrokerData
from drumlin.metadata.embedded import database
from drumlin.storage.all_logs import held_files
from drumlin.storage.all_logs.held_files import Held, Unheld
from drumlin.storage.files.files import Files

_log = logging.getLogger(__name__)

T = TypeVar("T")
#: Moments that are tried: a segment may be deleted before it is held.
_MOMENTS_MAX: Final = 10
_NAMED_MAX: Final = 5


class Backup:
    """See the module."""

    def __init__(self, broker: BrokerData) -> None:
        self._broker = broker
        self._files = Files()
        self._turn = asyncio.Lock()
        self._is_left = False

    async def check(self, _: Request) -> Response:
        """Refuse what could not be held."""
        await self._check()
        return Response.of_json({})

    async def begin(self, request: Request) -> Response:
        """Hold the files of this moment, or of one at which all brokers of the machine stand still.

        The latter do so `at` a directory; their server adds the metadata.
        """
        at = request.json().get("at")
        async with self._turn:
            await self._check()
            self._is_left = False
            try:
                held = await (self._hold() if at is None else self._hold_with_others(Path(at)))
            except BaseException:
                with contextlib.suppress(HttpError):
                    await self._administering(self._release)
                raise
        taken_ms = self._broker.clock.wall_ms()
        answer = {"folders": held.folders, "sizes": held.sizes, "taken_ms": taken_ms}
        return Response.of_json({**answer, "cluster_id": self._broker.metadata.image.cluster_id})

    async def end(self, _: Request) -> Response:
        """Release the files."""
        async with self._turn:
            await self._administering(self._release)
        return Response.of_json({})

    async def release_left(self) -> None:
        """Release files that nobody copies, and that nobody copied at the previous call either.

        A command that has just begun has not locked them yet.
        """
        async with self._turn:
            was_left = self._is_left
            self._is_left = await self._administering(self._is_held_in_vain)
            if was_left and self._is_left:
                await self._administering(self._release)
                _log.warning("files held for a backup are released: its command was killed")

    async def _check(self) -> None:
        broker, directories = self._broker, self._broker.logs.directories
        if broker.config.zookeeper_connect:
            raise _refused("this broker is one of a cluster, whose other replicas are its backup")
        offline = [each.path for each in directories if not each.is_online]
        if offline:
            raise _refused(f"its logs cannot be read: log dir {offline[0]} is offline")
        missing = sorted(
            f"{topic}-{index}" for each in directories for topic, index in each.not_loaded
        )
        if missing:
            more = f" and {len(missing) - _NAMED_MAX} more" if len(missing) > _NAMED_MAX else ""
            names = ", ".join(missing[:_NAMED_MAX])
            raise _refused(f"logs that could not be loaded would not be in it: {names}{more}")
        await self._administering(self._check_nobody_copies)

    async def _hold(self) -> Held:
        why: Unheld | None = None
        for _ in range(_MOMENTS_MAX):
            try:
                held = await self._hold_files(lambda: True)
            except Unheld as error:
                why = error
                continue
            # After the moment: a topic that is made meanwhile is empty in the backup, but the
            # records of a topic that the metadata does not know would not be served.
            await self._administering(self._copy_metadata, Path(held.folders[0]))
            return held
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, f"segments are deleted too fast: {why}")

    async def _hold_with_others(self, at: Path) -> Held:
        try:
            return await self._hold_files(lambda: stand_still(at))
        except Unheld as error:
            raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    async def _hold_files(self, is_moment: Callable[[], bool]) -> Held:
        """
        Raises:
            Unheld: there was no moment, or files of it are gone already.
        """
        logs = self._broker.logs
        await self._administering(self._release)
        clean = await self._administering(held_files.read_clean_parts, logs.directories)
        # In one turn of the loop: while all stand still, and before anything else happens.
        if not is_moment():
            raise Unheld("another broker did not stand still")
        moment = held_files.take_moment(logs)
        left_out = database.names_of_files()
        hold = partial(held_files.hold, moment, clean, self._files, left_out=left_out)
        return await self._administering(hold)

    def _copy_metadata(self, folder: Path) -> None:
        source = Path(self._broker.logs.directories[0].path, database.FILE_NAME)
        with contextlib.closing(database.Snapshot(source)) as snapshot:
            snapshot.copy(folder / database.FILE_NAME)

    def _check_nobody_copies(self) -> None:
        if held_files.are_being_copied(self._broker.logs.directories):
            raise _refused("another backup is being made")

    def _is_held_in_vain(self) -> bool:
        directories = self._broker.logs.directories
        return held_files.are_held(directories) and not held_files.are_being_copied(directories)

    def _release(self) -> None:
        held_files.release(self._broker.logs.directories)

    async def _administering(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in a thread.

        Raises:
            HttpError: files cannot be read or written.
        """
        try:
            return await self._broker.threads.administering(function, *args)
        except (OSError, sqlite3.Error) as error:
            raise HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"no backup: {error}") from error


def _refused(why: str) -> HttpError:
    return HttpError(HTTPStatus.CONFLICT, f"no backup: {why}")
