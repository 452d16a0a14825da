"""`drumlin backup`: create, check and restore, and what is refused."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.conftest import Result, Run
from drumlin.cli.backups.copying import new_folder
from drumlin.cli.terminal.output import Failure
from drumlin.storage.directory.directory_lock import DirectoryLock
from rig.brokers.drumlin_server import DrumlinServer, running_server
from rig.brokers.machine_server import MachineServer

pytestmark = pytest.mark.clients

#: A file that --secure leaves in a data directory.
KEY = "authority.pem"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    folder = tmp_path_factory.mktemp("backed-up")
    (folder / "data").mkdir()
    key = folder / "data" / KEY
    key.write_text("a secret")
    key.chmod(0o600)
    with running_server(folder) as server:
        yield server


@pytest.fixture(scope="module")
def backup(server: DrumlinServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a topic with ten records, the last of which came later."""
    from drumlin.cli import app

    path = tmp_path_factory.mktemp("backups") / "monday"
    lines = tmp_path_factory.mktemp("lines") / "lines"
    to = ["--bootstrap", server.address]
    lines.write_text("".join(f"line {each}\n" for each in range(9)))
    assert app.main(["produce", "lines", str(lines), *to]) == 0
    assert app.main(["backup", "create", str(path), "--data", str(server.data)]) == 0
    lines.write_text("a later line\n")
    assert app.main(["produce", "lines", str(lines), *to]) == 0
    return path


def refusal(result: Result) -> str:
    assert result.code == 1
    return result.err


def test_what_is_restored_is_what_was_there(
    backup: Path, server: DrumlinServer, run: Run, tmp_path: Path
) -> None:
    restored = DrumlinServer(tmp_path)
    done = run("backup", "restore", str(backup), "--data", str(restored.data), "--json")
    assert done.code == 0, done.err
    assert done.json["logs"] == 1
    assert stat.S_IMODE(restored.data.stat().st_mode) == 0o700
    key = restored.data / KEY
    assert (key.read_text(), stat.S_IMODE(key.stat().st_mode)) == ("a secret", 0o600)
    try:
        restored.start()
        assert "WARNING drumlin.storage" not in restored.said()
        read = run("consume", "lines", "-n", "9", "--bootstrap", restored.address)
        assert read.out.splitlines() == [f"line {each}" for each in range(9)]
        ends = run("topics", "describe", "lines", "--json", "--bootstrap", restored.address)
        assert ends.json[0]["partitions"][0]["end_offset"] == 9
        restored.stop()
    finally:
        restored.close()
    assert not (server.data / ".backup").exists()


def test_a_whole_backup(backup: Path, run: Run) -> None:
    assert "1 log" in run("backup", "check", str(backup)).out


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "of another format", "not json"])
def test_damage(backup: Path, run: Run, tmp_path: Path, damage: str) -> None:
    """Neither `check` nor `restore` takes it; both name the file, and nothing is left behind."""
    copy = tmp_path / "copy"
    run("backup", "restore", str(backup), "--data", str(copy))
    contents = copy / "drumlin-backup.json"
    contents.write_bytes((backup / contents.name).read_bytes())
    (log,) = copy.glob("lines-0/*.log")
    culprit = log
    if damage == "changed":
        log.write_bytes(log.read_bytes()[:-1] + b"?")
    elif damage == "cut":
        log.write_bytes(log.read_bytes()[:-1])
    elif damage == "missing":
        log.unlink()
    else:
        culprit = contents
        said = json.loads(contents.read_text()) | {"format": 2}
        contents.write_text(json.dumps(said) if damage == "of another format" else "{")
    target = tmp_path / "target"
    assert str(culprit) in refusal(run("backup", "check", str(copy)))
    assert str(culprit) in refusal(run("backup", "restore", str(copy), "--data", str(target)))
    assert not target.exists()


def test_paths_that_lead_elsewhere(backup: Path, run: Run, tmp_path: Path) -> None:
    said = json.loads((backup / "drumlin-backup.json").read_text())
    said["files"]["../out"] = {"bytes": 0, "sha256": ""}
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "drumlin-backup.json").write_text(json.dumps(said))
    result = run("backup", "restore", str(tmp_path / "copy"), "--data", str(tmp_path / "target"))
    assert "../out" in refusal(result)


def test_a_folder_that_is_in_use(
    backup: Path, server: DrumlinServer, run: Run, tmp_path: Path
) -> None:
    (tmp_path / "something").write_text("else")
    data = str(server.data)
    assert "not empty" in refusal(run("backup", "create", str(tmp_path), "--data", data))
    assert "not empty" in refusal(run("backup", "restore", str(backup), "--data", str(tmp_path)))
    assert (tmp_path / "something").read_text() == "else"


def test_a_backup_that_was_cut_off_keeps_no_other_out(
    server: DrumlinServer, run: Run, tmp_path: Path
) -> None:
    """What it held stays for as long as its process is there, and not longer."""
    from drumlin.cli.reach.broker_http import broker_on

    broker = broker_on(server.data)
    assert broker is not None
    held = broker.post("/backup/begin", {})["folders"][0]
    lock = DirectoryLock(held)
    assert lock.acquire()
    command = ("backup", "create", str(tmp_path / "b"), "--data", str(server.data))
    assert "another backup" in refusal(run(*command))
    assert Path(held, "drumlin-metadata.sqlite").exists()  # the refused one leaves it alone
    lock.release()
    assert run(*command).code == 0
    assert not Path(held).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing(number: int, tmp_path: Path) -> None:
    name = signal.Signals(number).name
    with pytest.raises(Failure, match=name) as raised, new_folder(tmp_path / "new"):
        (tmp_path / "new" / "file").write_text("")
        os.kill(os.getpid(), number)
    assert raised.value.exit_code == 128 + number
    assert not (tmp_path / "new").exists()
    assert signal.getsignal(number) is signal.SIG_DFL


def test_a_backup_in_the_data_directory(server: DrumlinServer, run: Run) -> None:
    """Its folder would be a partition's for the next start."""
    to = server.data / "monday-1"
    assert "log dir" in refusal(run("backup", "create", str(to), "--data", str(server.data)))
    assert not to.exists()
    assert not (server.data / ".backup").exists()


def test_no_server(run: Run, tmp_path: Path) -> None:
    result = run("backup", "create", str(tmp_path / "b"), "--data", str(tmp_path))
    assert "no server runs" in refusal(result)
    assert not (tmp_path / "b").exists()


def test_a_server_of_several_brokers(run: Run, tmp_path: Path) -> None:
    server = MachineServer(tmp_path)
    try:
        server.start_brokers(2)
        assert run("topics", "create", "t", "-p", "2", "-b", server.addresses).code == 0
        command = ("backup", "create", str(tmp_path / "b"), "--data", str(server.data), "--json")
        assert run(*command).json["logs"] == 2
        assert "stand still" not in server.said()
    finally:
        server.close()
    files = {str(each.relative_to(tmp_path / "b")) for each in (tmp_path / "b").rglob("*.log")}
    assert len([each for each in files if each.startswith(".brokers/2/t-")]) == 1
    assert not list(server.data.rglob(".backup"))
