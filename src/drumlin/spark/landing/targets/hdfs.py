"""HDFS for landings: finds out soon whether it can be reached, and names it in errors."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Final
from urllib.parse import SplitResult

from pyarrow import fs

from drumlin.spark.landing.targets.target import LandingRefused, StoreUnavailable

_ANSWER_S: Final = 10.0
#: By default `hdfs-native` retries silently for minutes; the landing does its own retries.
_OPTIONS: Final = {"dfs.client.failover.max.attempts": "2"}
#: The text of an error of `hdfs-native` that has no class in Python.
_TOLD: Final = re.compile(r"(?P<kind>[A-Z]\w+)(?:\((?P<rest>.*)\))?", re.DOTALL)
#: Transient errors, while name nodes or data nodes start or fail over.
_PASSES: Final = re.compile(
    r"DataTransferError|\b(SafeMode|Standby|Retriable)Exception\b|could only be written to"
)


def hdfs_files(parts: SplitResult) -> fs.FileSystem:
    """The file system of an `hdfs://…` URL."""
    from hdfs_native.fsspec import HdfsFileSystem  # needs no Java, even in tasks

    # Kept out of fsspec's cache: a forked process clears the cache, and would wait forever for
    # this client's threads, which do not exist in the fork.
    hadoop = HdfsFileSystem(parts.hostname, parts.port, skip_instance_cache=True, **_OPTIONS)
    return fs.PyFileSystem(fs.FSSpecHandler(hadoop))


def check_answers(files: fs.FileSystem, url: str) -> None:
    """Check that the name nodes of a URL answer; do nothing for other file systems.

    `hdfs-native` waits forever for a name node that is silent.

    Raises:
        StoreUnavailable, LandingRefused: no answer in time, or the answer is an error.
    """
    if not _is_of_hdfs(url):
        return
    answers: SimpleQueue[Exception | None] = SimpleQueue()

    def ask() -> None:
        try:
            files.get_file_info("/")
            answers.put(None)
        except (OSError, RuntimeError) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        failure = answers.get(timeout=_ANSWER_S)
    except Empty:
        text = f"{url}: HDFS cannot be reached: no answer within {_ANSWER_S:g} s"
        raise StoreUnavailable(text) from None
    if failure is not None:
        with naming_hdfs(url):
            raise failure


@contextmanager
def naming_hdfs(url: str) -> Iterator[None]:
    """
    Raises:
        StoreUnavailable, LandingRefused: an error of HDFS, if the URL is one of HDFS.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        # Errors with a class of their own (FileNotFoundError, errors of brokers) pass unchanged.
        is_told = type(error) is OSError or (
            type(error) is RuntimeError and _TOLD.fullmatch(str(error))
        )
        if not is_told or not _is_of_hdfs(url):
            raise
        raise _hdfs_error(url, error) from error


def _is_of_hdfs(url: str) -> bool:
    return url.startswith("hdfs:")


def _hdfs_error(url: str, error: OSError | RuntimeError) -> LandingRefused | StoreUnavailable:
    """The landing's error for an error of HDFS."""
    text = str(error)
    told = _TOLD.fullmatch(text)
    line = (told["rest"] or told["kind"] if told else text).strip('"').partition("\\n")[0][:300]
    if isinstance(error, OSError) or _PASSES.search(text):
        return StoreUnavailable(f"{url}: HDFS cannot be reached: {line}")
    return LandingRefused(f"{url}: HDFS refuses this: {line}")
