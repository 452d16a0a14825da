"""A moment without descriptors, in a whole broker: what it could not do then, it does later."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from broker.in_process import running
from drumlin.broker.start.broker import Broker
from drumlin.storage.files.files import Files
from rig.data.batches import batch
from rig.waiting import eventually

pytestmark = pytest.mark.usefixtures("frequent_probes")


@contextmanager
def shortage(what: str, path_part: str) -> Iterator[list[str]]:
    """No descriptor for one call of the door to files whose path has this in it."""
    original, refused = getattr(Files, what), []

    def refusing(self: Files, path: str, *arguments: object, **named: object) -> object:
        if path_part in path:
            refused.append(path)
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return original(self, path, *arguments, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Files, what, refusing)
        yield refused


def _append(broker: Broker, topic: str, count: int = 1) -> None:
    for _ in range(count):
        broker.partitions.get(topic, 0).append_internal(bytearray(batch(b"x")), 0)


@pytest.mark.parametrize("dirs", [1, 2])
def test_a_log_that_could_not_be_loaded_is_served_later(
    tmp_path: Path, dirs: int, caplog: pytest.LogCaptureFixture
) -> None:
    """With its records, wherever else there would have been room for an empty one."""
    paths = [tmp_path / str(number) for number in range(dirs)]

    async def run() -> None:
        async with running(*paths) as broker:
            await broker.metadata.create_topic("t", [[1]], {})
            _append(broker, "t", 3)
        with ExitStack() as ending:
            refused = ending.enter_context(shortage("read_file", "/t-0/"))
            async with running(*paths) as broker:
                await eventually(lambda: len(refused) > 3)
                assert broker.partitions.is_offline("t", 0)
                ending.close()
                await eventually(lambda: not broker.partitions.has_offline)
                assert broker.partitions.get("t", 0).log_end_offset == 3
                _append(broker, "t")

    asyncio.run(run())
    assert sum("t-0 is not loaded" in each for each in caplog.messages) == 1


def test_a_topic_that_is_created_meanwhile_is_served_later(tmp_path: Path) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            with shortage("create", "/t-0/"):
                await broker.metadata.create_topic("t", [[1]], {})
                assert broker.partitions.is_offline("t", 0)
            await eventually(lambda: not broker.partitions.has_offline)
            _append(broker, "t")

    asyncio.run(run())


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_change_that_could_not_be_followed_is_followed_later(
    tmp_path: Path, error: Exception
) -> None:
    async def run() -> None:
        async with running(tmp_path) as broker:
            with pytest.MonkeyPatch.context() as patch:

                def refuse(*_: object) -> None:
                    raise error

                patch.setattr(broker.hosting, "_find_log", refuse)
                await broker.metadata.create_topic("t", [[1]], {})
            await eventually(lambda: broker.partitions.find("t", 0))
            _append(broker, "t")

    asyncio.run(run())


@pytest.mark.parametrize("is_made_anew", [False, True])
@pytest.mark.parametrize("step", ["_stop", "delete"])
def test_a_deletion_that_could_not_be_followed_is_followed_later(
    tmp_path: Path, step: str, is_made_anew: bool
) -> None:
    """And before whatever comes after it: nobody gets the records of another topic."""

    async def run() -> None:
        async with running(tmp_path) as broker:
            metadata = broker.metadata
            topic = await metadata.create_topic("t", [[1]], {})
            _append(broker, "t", 3)
            with pytest.MonkeyPatch.context() as patch:

                def refuse(*_: object) -> None:
                    raise MemoryError

                owner = broker.hosting if step == "_stop" else broker.logs
                patch.setattr(owner, step, refuse)
                await metadata.delete_topic(topic.topic_id)
                if is_made_anew:
                    made = await metadata.create_topic("t", [[1]], {})
            await eventually(lambda: not broker.hosting.is_behind)
            assert not metadata.deleted_topics
            found = broker.partitions.find("t", 0)
            if is_made_anew:
                assert found is not None
                assert (found.topic_id, found.log.log_end_offset) == (made.topic_id, 0)
                _append(broker, "t")
            else:
                assert found is None
                assert broker.logs.get("t", 0) is None
            broker.logs.remove_doomed()
            names = [name for name in os.listdir(tmp_path) if name.startswith("t-0")]  # noqa: PTH208
            assert ("t-0" in names) == is_made_anew
            assert not [name for name in names if name.endswith("-stray")]

    asyncio.run(run())
