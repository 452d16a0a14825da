"""A log dir that no broker uses: what keeps it from being removed."""

from __future__ import annotations

from pathlib import Path

from drumlin.storage.all_logs.held_files import FOLDER
from drumlin.storage.all_logs.idle_directory import IdleDirectory
from drumlin.storage.files.files import Files


def test_what_a_backup_has_left_keeps_no_directory(tmp_path: Path) -> None:
    path = tmp_path / "2"
    (path / FOLDER / "t-0").mkdir(parents=True)
    assert IdleDirectory(str(path), Files()).remove()
    assert not path.exists()


def test_foreign_files_keep_it(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("of somebody")
    assert not IdleDirectory(str(tmp_path), Files()).remove()
    assert (tmp_path / "notes").exists()
