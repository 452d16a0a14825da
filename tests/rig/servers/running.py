"""Servers of others while a test runs; where there can be none, the test is skipped."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol, TypeVar

import pytest

from rig.jvm.jars import Unavailable


class Server(Protocol):
    """What can be started, or says by `Unavailable` that this machine lacks something for it."""

    def start(self) -> object: ...
    def close(self) -> object: ...


S = TypeVar("S", bound=Server)


@contextlib.contextmanager
def skipped_where_unavailable() -> Iterator[None]:
    """Who asks for what this machine cannot have is skipped, with the reason."""
    try:
        yield
    except Unavailable as reason:
        pytest.skip(str(reason))


@contextlib.contextmanager
def running(server: S) -> Iterator[S]:
    """It runs meanwhile; who asks for it is skipped where there can be none."""
    with skipped_where_unavailable(), contextlib.closing(server):
        server.start()
        yield server
