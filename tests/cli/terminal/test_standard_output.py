"""What is printed arrives whole, whatever standard output is; nobody is written to in vain."""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

import drumlin
from rig.brokers.drumlin_server import DrumlinServer
from rig.waiting import wait_until

COMMAND = [sys.executable, "-m", "drumlin"]
#: As very many container images set it; Python then writes to the raw file.
UNBUFFERED = pytest.mark.parametrize(
    "unbuffered", ["1", pytest.param("", marks=pytest.mark.deep)], ids=["unbuffered", "buffered"]
)


@contextlib.contextmanager
def piped(
    *arguments: str, unbuffered: str, blocks: bool = True
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The command, and the end of its standard output that is read."""
    ours, theirs = os.pipe()
    os.set_blocking(theirs, blocks)
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=theirs,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()


def wait_until_full(pipe: int) -> None:
    waiting = array.array("i", [0])

    def is_full() -> bool:
        fcntl.ioctl(pipe, termios.FIONREAD, waiting)
        return waiting[0] >= fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)

    wait_until(is_full, "a full pipe", 60)


def everything(pipe: int) -> bytes:
    with os.fdopen(pipe, "rb") as file:
        return file.read()


def check_end(process: subprocess.Popen[bytes], code: int) -> None:
    assert process.stderr is not None
    said = process.stderr.read().decode()
    # An interrupt ends the line of a terminal.
    assert (process.wait(60), said) == (code, "\n" if code == 130 else "")


@pytest.fixture(scope="module")
def many(server: DrumlinServer) -> int:
    """How many lines the topic of that name has."""
    count = 20_000
    with drumlin.connect(server.address) as client:
        client.create_topic("many", partitions=1)
        client.append({"value": [str(each) for each in range(count)]}, "many")
    return count


@pytest.mark.usefixtures("cluster")
@UNBUFFERED
def test_records_go_whole_into_a_pipe_that_does_not_block(many: int, unbuffered: str) -> None:
    with piped("consume", "many", unbuffered=unbuffered, blocks=False) as (process, pipe):
        wait_until_full(pipe)
        assert everything(pipe).decode().split("\n") == [*map(str, range(many)), ""]
        check_end(process, 0)


@pytest.mark.usefixtures("cluster", "many")
@pytest.mark.parametrize(
    "blocks", [pytest.param(True, marks=pytest.mark.deep), False], ids=["blocking", "not blocking"]
)
def test_an_interrupt_does_not_wait_for_a_reader(blocks: bool) -> None:
    with piped("consume", "many", unbuffered="", blocks=blocks) as (process, pipe):
        wait_until_full(pipe)
        process.send_signal(signal.SIGINT)
        check_end(process, 130)
        os.close(pipe)


def test_lines_go_whole_into_a_pipe_that_does_not_block(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{number:020}.log") for number in range(2000)]
    for name in names:
        Path(name).touch()
    arguments = ("dump-log", "--verify", "-v", "--json", str(tmp_path))
    with piped(*arguments, unbuffered="1", blocks=False) as (process, pipe):
        wait_until_full(pipe)
        printed = everything(pipe).decode()
        assert all(f'"{name}"' in printed for name in names)
        assert printed.endswith("}\n")
        check_end(process, 0)


@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("how", [["--from", "beginning"], ["--group", "readers", "--join"]])
def test_a_follower_ends_with_its_reader(many: int, how: list[str]) -> None:
    """Though there is nothing more to print, so that no write is refused."""
    with piped("consume", "many", "-f", *how, unbuffered="1") as (process, pipe):
        with os.fdopen(pipe, "rb") as reader:
            for _ in range(many if "--join" not in how else 0):
                reader.readline()
        check_end(process, 1)


@pytest.mark.usefixtures("cluster")
def test_a_watcher_ends_with_its_reader() -> None:
    """Of a cluster of which there is no news."""
    with piped("cluster", "status", "--watch", "--json", unbuffered="") as (process, pipe):
        with os.fdopen(pipe, "rb") as reader:
            assert reader.readline().startswith(b"{")
        check_end(process, 1)


@pytest.mark.usefixtures("cluster", "many")
def test_a_reader_that_ends_early_ends_the_command() -> None:
    with piped("consume", "many", "-f", "--from", "beginning", unbuffered="1") as (process, pipe):
        assert os.read(pipe, 2) == b"0\n"
        os.close(pipe)
        check_end(process, 1)


@UNBUFFERED
def test_a_full_disk_is_told_once(unbuffered: str) -> None:
    with Path("/dev/full").open("wb") as full:
        shown = subprocess.run(
            [*COMMAND, "version"],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
            text=True,
        )
    assert (shown.returncode, shown.stderr.count("\n")) == (1, 1)
    assert "No space left on device" in shown.stderr


def test_a_closed_standard_output_is_nowhere() -> None:
    command = " ".join([*COMMAND, "version", ">&-"])
    shown = subprocess.run(["bash", "-c", command], stderr=subprocess.PIPE, text=True)
    assert (shown.returncode, shown.stderr) == (0, "")
