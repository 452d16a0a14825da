"""A backup of all brokers of a machine: their files, and the metadata, as they are at one moment.

Each broker holds its own files (`broker/http/backup.py`); the moment is one at which all stand
still.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import sqlite3
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from drumlin.broker.http.message import HttpError, Request, Response
from drumlin.broker.http.standstill import FILE_NAME, at_standstill, listen_for_brokers
from drumlin.broker.machine.merging import Answer
from drumlin.config.machine_folders import FOLDER, log_dir_of
from drumlin.metadata.embedded import database
from drumlin.metadata.embedded.database import Snapshot
from drumlin.storage.all_logs.held_files import FOLDER as HELD

AskAll = Callable[[Request], Awaitable[dict[int, Answer]]]
#: Moments that are tried: brokers may be too busy to stand still at once.
_MOMENTS_MAX: Final = 10


class MachineBackup:
    """See the module."""

    def __init__(self, log_dirs: list[str], ask_all: AskAll) -> None:
        self._directory = Path(log_dirs[0]).absolute()
        self._ask_all = ask_all
        self._turn = asyncio.Lock()

    async def begin(self, _: Request) -> Response:
        """Hold the files of this moment."""
        async with self._turn:
            _unless_refused(await self._ask("/backup/check"))
            try:
                for _attempt in range(_MOMENTS_MAX):
                    held = await self._hold()
                    if held is not None:
                        return Response.of_json(held)
            except BaseException:
                await self._release()
                raise
            await self._release()
        message = "no backup: the brokers are too busy to stand still for a moment"
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, message)

    async def end(self, _: Request) -> Response:
        """Release the files."""
        async with self._turn:
            _unless_refused(await self._ask("/backup/end"))
        return Response.of_json({})

    async def _hold(self) -> dict[str, Any] | None:
        """What is held; None if there was no common moment."""
        source = self._directory / database.FILE_NAME
        try:
            brokers = len(await self._ask("/health", "GET"))
            with (
                listen_for_brokers(self._directory, brokers) as sock,
                contextlib.ExitStack() as opened,
            ):
                standing = asyncio.create_task(
                    asyncio.to_thread(at_standstill, sock, brokers, lambda: Snapshot(source))
                )
                try:
                    answers = await self._ask("/backup/begin", at=str(self._directory))
                finally:
                    # They have answered, so nobody comes any more.
                    sock.shutdown(socket.SHUT_RDWR)
                    snapshot = await _of(standing)
                    if snapshot is not None:
                        opened.callback(snapshot.close)
                _unless_refused(answers, but=HTTPStatus.SERVICE_UNAVAILABLE)
                if snapshot is None or not _have_all_held(answers):
                    return None
                held = _merged({node_id: body for node_id, (_, body) in answers.items()})
                target = Path(held["folders"][0], database.FILE_NAME)
                await asyncio.to_thread(snapshot.copy, target)
                return held
        except (OSError, sqlite3.Error) as error:
            raise HttpError(HTTPStatus.INTERNAL_SERVER_ERROR, f"no backup: {error}") from error
        finally:
            with contextlib.suppress(OSError):
                (self._directory / FILE_NAME).unlink(missing_ok=True)

    async def _release(self) -> None:
        with contextlib.suppress(HttpError):
            await self._ask("/backup/end")

    async def _ask(self, path: str, method: str = "POST", **body: str) -> dict[int, Answer]:
        return await self._ask_all(Request(method, path, {}, {}, json.dumps(body).encode()))


async def _of(standing: asyncio.Task[Snapshot | None]) -> Snapshot | None:
    try:
        return await standing
    except OSError:  # the socket was shut down, as nobody comes
        return None


def _have_all_held(answers: dict[int, Answer]) -> bool:
    return all(status == HTTPStatus.OK for status, _ in answers.values())


def _unless_refused(answers: dict[int, Answer], but: HTTPStatus = HTTPStatus.OK) -> None:
    for status, body in answers.values():
        if status not in (HTTPStatus.OK, but):
            raise HttpError(HTTPStatus(status), body.get("error", "no backup"))


def _merged(held: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """What all hold, as if it were one broker's: `below` says where folders belong in a backup."""
    first, *_ = [held[node_id] for node_id in sorted(held)]
    folders: list[str] = []
    sizes: dict[str, int] = {}
    below: dict[str, str] = {}
    for node_id, each in sorted(held.items()):
        own = each["folders"]
        folder = str(Path(own[0]).parent)
        place = "" if log_dir_of(folder) == folder else f"{FOLDER}/{node_id}"
        below |= dict.fromkeys(own, place)
        folders += own
        sizes |= {
            f"{place}/{name}" if place else name: size for name, size in each["sizes"].items()
        }
    assert all(Path(each).name == HELD for each in folders)
    said = {"taken_ms": first["taken_ms"], "cluster_id": first["cluster_id"]}
    return {"folders": folders, "sizes": sizes, "below": below, **said}
