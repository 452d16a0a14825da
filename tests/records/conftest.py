"""Kernels for tests: present, or deliberately not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import pytest

from drumlin.records.kernels import loader


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """A process that has loaded no kernels, and cannot."""
    nothing = {"loaded": None, "has_failed": True, "_thread": mock.Mock()}
    with (
        mock.patch.multiple(loader.record_kernels, **nothing),
        mock.patch.multiple(loader.compaction_kernels, **nothing),
    ):
        yield


@pytest.fixture(scope="session")
def kernels() -> loader.Kernels:
    """The kernels; compiled now if this machine has never done that."""
    loaded = loader.record_kernels.require()
    assert loaded is not None
    return loaded


@pytest.fixture(params=["plain", "kernels"])
def either_path(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test twice: with kernels, and with plain Python instead."""
    if request.param == "plain":
        with without_kernels():
            yield request.param
    else:
        request.getfixturevalue("kernels")
        yield request.param
