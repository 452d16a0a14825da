"""Kernels for tests: present, or deliberately not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

import pytest

from drumlin.records.kernels import loader


@contextlib.contextmanager
def without_kernels() -> Iterator[None]:
    """A process for which there are no kernels."""
    with (
        mock.patch.object(loader.record_kernels, "loaded", None),
        mock.patch.object(loader.compaction_kernels, "loaded", None),
    ):
        yield


@pytest.fixture(scope="session")
def kernels() -> loader.Kernels:
    """The kernels."""
    loaded = loader.record_kernels.loaded
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
