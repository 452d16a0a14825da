"""What cannot be undone: a person is asked, a script has to say `--yes`."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer

OFFSETS = "group,topic,partition,offset\nreaders,asked,0,1\n"


@pytest.fixture
def place(run: Run, cluster: DrumlinServer, tmp_path: Path) -> Path:
    """A topic of three records with a group that has read two, and a file of offsets."""
    run("topics", "delete", "asked", "--yes")
    run("groups", "delete", "readers", "--yes")
    lines = tmp_path / "lines"
    lines.write_text("1\n2\n3\n")
    assert run("topics", "create", "asked", "-p", "1").code == 0
    assert run("produce", "asked", str(lines)).code == 0
    assert run("groups", "reset", "readers", "asked", "--to", "2", "--yes").code == 0
    offsets = tmp_path / "offsets.csv"
    offsets.write_text(OFFSETS)
    return offsets


NAMES = (("topics", "asked"), ("groups", "readers"))
COMMANDS = [
    ("topics", "delete", "asked"),
    ("topics", "delete-records", "asked", "--before", "2"),
    ("topics", "add-partitions", "asked", "3"),
    ("groups", "delete", "readers"),
    ("groups", "delete-offsets", "readers", "asked"),
    ("groups", "reset", "readers", "--to", "earliest"),
    ("groups", "import", "readers", "--overwrite", "--file", "OFFSETS"),
]


def state(run: Run) -> str:
    shown = (run(kind, "describe", name, "--json") for kind, name in NAMES)
    return "".join(each.out for each in shown)


@pytest.mark.parametrize(
    "stdin",
    ["y\n", *(pytest.param(other, marks=pytest.mark.deep) for other in ("n\n", ""))],
    ids=["yes", "no", "nothing"],
)
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command[:2]))
def test_without_a_terminal_nothing_is_done(
    run: Run, place: Path, command: tuple[str, ...], stdin: str
) -> None:
    arguments = [str(place) if word == "OFFSETS" else word for word in command]
    before = state(run)
    done = subprocess.run(
        [sys.executable, "-m", "drumlin", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "--yes" in done.stderr
    assert done.stderr.count("\n") == 1
    assert state(run) == before
    assert run(*arguments, "--yes").code == 0
    assert state(run) != before


def test_nobody_is_asked_for_what_does_nothing(run: Run, place: Path) -> None:
    assert run("groups", "reset", "readers", "--to", "earliest", "--dry-run").code == 0
    place.write_text(OFFSETS.replace(",1\n", ",2\n"))
    done = run("groups", "import", "readers", "--file", str(place))
    assert (done.code, done.rows[0][-2]) == (0, "same")


@pytest.mark.usefixtures("place")
@pytest.mark.parametrize(
    "command",
    [
        ("topics", "delete", "nowhere"),
        ("groups", "delete-offsets", "readers", "nowhere"),
        ("sinks", "abort", "nowhere"),
    ],
    ids=" ".join,
)
def test_nobody_is_asked_about_what_is_not_there(run: Run, command: tuple[str, ...]) -> None:
    done = run(*command)
    assert (done.code, "--yes" in done.err) == (1, False)
    assert "'nowhere'" in done.err


@pytest.mark.parametrize(("answer", "code"), [("n", 130), ("y", 0)])
def test_on_a_terminal_a_person_is_asked(run: Run, place: Path, answer: str, code: int) -> None:
    ours, theirs = pty.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "drumlin", "topics", "delete", "asked"],
            stdin=theirs,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code
    assert "Delete asked with all records?" in done.stderr
    assert (run("topics", "describe", "asked").code == 0) == (answer == "n")


def test_no_standard_input_is_no_terminal(run: Run, place: Path) -> None:
    command = f"{sys.executable} -m drumlin topics delete asked <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, "--yes" in done.stderr) == (2, True)
    assert run("topics", "describe", "asked").code == 0
