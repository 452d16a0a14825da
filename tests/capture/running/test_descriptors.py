"""A capture in a process that has many files and connections open."""

from __future__ import annotations

from capture.captured import Captured
from rig.descriptors import only_high_descriptors


def test_snapshot_and_stream(captured: Captured) -> None:
    captured.run("CREATE TABLE item (id int PRIMARY KEY)", "INSERT INTO item VALUES (1)")
    with only_high_descriptors():
        captured.start_here()
        captured.await_all()
        captured.run("INSERT INTO item VALUES (2)")
        captured.await_all()
        captured.check_equal("item")
        assert captured.stop() == 0
