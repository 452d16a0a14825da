"""Brokers for the proofs, each with a data directory of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from guarantees.brokers import make_broker
from rig.brokers.drumlin_server import DrumlinServer


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[DrumlinServer]:
    """One that a test may do anything to; it must never show a traceback."""
    made = make_broker("drumlin", tmp_path / "broker")
    assert isinstance(made, DrumlinServer)
    try:
        made.start()
        yield made
    finally:
        made.close()
    made.check_output()
