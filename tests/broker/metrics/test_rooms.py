"""The room on file systems is asked for without waiting for one that is gone."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from drumlin.broker.metrics import rooms as module
from drumlin.broker.metrics.rooms import Room, Rooms
from rig.waiting import wait_until


class FileSystems:
    """Those of this machine, of which some do not answer for the time being."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.gone: set[str] = set()
        self.are_back = threading.Event()
        self._really = os.statvfs
        monkeypatch.setattr(module.os, "statvfs", self._tell)
        monkeypatch.setattr(module, "_PATIENCE_S", 0.05)

    def _tell(self, path: str) -> os.statvfs_result:
        self.asked.append(path)
        if path in self.gone:
            self.are_back.wait(30)
        return self._really(path)


def test_a_file_system_is_as_the_system_says(tmp_path: Path) -> None:
    path = str(tmp_path)
    found = os.statvfs(path)
    rooms = Rooms().of([path, str(tmp_path / "none")])
    assert rooms.keys() == {path}
    assert rooms[path].total_bytes == found.f_blocks * found.f_frsize
    assert 0 < rooms[path].free_bytes <= rooms[path].total_bytes


def test_one_that_does_not_answer_is_left_out_and_not_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systems, rooms = FileSystems(monkeypatch), Rooms()
    well, gone = str(tmp_path), str(tmp_path.parent)
    systems.gone.add(gone)
    assert rooms.of([gone, well]).keys() == {well}
    assert rooms.of([gone, well]).keys() == {well}
    assert (systems.asked.count(gone), systems.asked.count(well)) == (1, 2)
    systems.gone.clear()
    systems.are_back.set()

    def both() -> dict[str, Room]:
        return rooms.of([gone, well])

    wait_until(lambda: both().keys() == {well, gone}, "the room of the one that is back")
