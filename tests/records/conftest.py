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
    nothing = {"_kernels": None, "_failed": True, "_background": object()}
    nothing |= {"_compaction_kernels": None, "_compaction_failed": True}
    with mock.patch.multiple(loader, **nothing):
        yield


@pytest.fixture(scope="session")
def kernels() -> loader.Kernels:
    """The kernels; compiled now if this machine has never done that."""
    loaded = loader.require()
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
