"""What a broker holds for a backup, and for how long."""

from __future__ import annotations

import asyncio
from pathlib import Path

from broker.in_process import running
from drumlin.broker.http.message import Request
from drumlin.storage.directory.directory_lock import DirectoryLock


def test_files_that_a_killed_command_has_left(tmp_path: Path) -> None:
    """They are released when nobody has copied them for a while, and not before."""

    async def test() -> None:
        async with running(tmp_path) as broker:
            backup, held = broker.endpoints.backup, tmp_path / ".backup"
            await backup.begin(Request("POST", "/backup/begin", body=b"{}"))
            await backup.release_left()
            lock = DirectoryLock(str(held))
            assert lock.acquire()
            await backup.release_left()
            lock.release()
            await backup.release_left()
            assert (held / "drumlin-metadata.sqlite").exists()
            await backup.release_left()
            assert not held.exists()

    asyncio.run(test())
