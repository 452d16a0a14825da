"""How kernels come into a process: cached, not cached, or not at all."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from drumlin.records.kernels import cache, loader, shipped_code
from drumlin.records.survey import survey
from rig.unlocked import turns_beside
from rig.waiting import wait_until

_SURVEY = """
import logging, sys
logging.basicConfig()
from drumlin.records.kernels import record_kernels
from drumlin.records.survey import Survey, survey
body = bytes([12, 0, 0, 0, 1, 1, 0, 12, 0, 2, 2, 1, 1, 0])  # two records, nulls all through
ready = record_kernels.require() is not None
assert survey(body, 2, 5) == Survey(5, 6, True, True)
assert "numba" not in sys.modules
print("ready" if ready else "plain")
"""


_PATIENT = "from drumlin.records.kernels import loader; loader._LOADED_WITHIN_S = 60\n"


def start(code: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> tuple[str, str]:
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    return output.strip(), errors


def objects(folder: Path) -> list[Path]:
    return list(folder.rglob("kernels-*.o"))


def test_the_brokers_modules_import_no_compiler() -> None:
    code = (
        "import sys, drumlin.records.validation\n"
        "print({'numba', 'llvmlite', 'numpy', 'pyarrow'} & set(sys.modules))"
    )
    assert finish(start(code)) == ("set()", "")


def test_several_threads_that_begin_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many threads load partitions at once: one of them begins it, and none fails."""
    kernels = loader.KernelSet("none", lambda _: None, "nothing is done")
    monkeypatch.setattr(kernels, "require", lambda: None)
    made, errors = [], []
    all_there = threading.Barrier(3)

    class Counted(threading.Thread):
        def __init__(self, **arguments: Any) -> None:
            super().__init__(**arguments)
            made.append(self)
            with contextlib.suppress(threading.BrokenBarrierError):
                all_there.wait(0.3)  # for others to come this far, if they can

    def come() -> None:
        try:
            kernels.load_in_background()
        except RuntimeError as error:
            errors.append(error)

    comers = [threading.Thread(target=come) for _ in range(3)]
    monkeypatch.setattr(threading, "Thread", Counted)
    for comer in comers:
        comer.start()
    for comer in comers:
        comer.join()
    assert (len(made), errors) == (1, [])


def test_a_system_without_room_for_a_thread_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels: loader.KernelSet[str] = loader.KernelSet("none", lambda _: "", "nothing is done")
    monkeypatch.setattr(kernels, "require", lambda: setattr(kernels, "loaded", "there"))

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="start new thread"):
                kernels.soon()
    assert kernels.soon() == "there"


def test_who_has_much_to_do_waits_for_kernels_that_are_loaded() -> None:
    code = (
        "from drumlin.records.kernels import compaction_kernels\n"
        "compaction_kernels.require()\n"  # compiled, if need be, by another process
    )
    finish(start(code))
    soon = (
        "from drumlin.records.kernels import compaction_kernels\n"
        "print(compaction_kernels.soon() is None)"
    )
    assert finish(start(soon.replace("\n", "\n" + _PATIENT, 1)))[0] == "False"


def test_nobody_waits_for_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    is_over = threading.Event()
    kernels = loader.KernelSet("none", lambda _: None, "nothing is done")
    monkeypatch.setattr(loader, "_LOADED_WITHIN_S", 0.01)
    monkeypatch.setattr(kernels, "require", is_over.wait)
    for _ in range(2):
        assert kernels.soon() is None
    is_over.set()


@pytest.mark.deep  # it compiles twice; what comes of it is what the next test shows, too
def test_two_processes_at_once_with_an_empty_cache(tmp_path: Path) -> None:
    processes = [start(_SURVEY, XDG_CACHE_HOME=str(tmp_path)) for _ in range(2)]
    assert [finish(process)[0] for process in processes] == ["ready", "ready"]
    (made,) = objects(tmp_path)
    before = made.stat().st_ino
    # The next process finds it, and one whose cache may only be read does, too.
    made.parent.chmod(0o500)
    assert finish(start(_SURVEY, XDG_CACHE_HOME=str(tmp_path)))[0] == "ready"
    assert made.stat().st_ino == before


@pytest.mark.deep
def test_no_cache_can_be_written(tmp_path: Path) -> None:
    occupied = tmp_path / "cache"
    occupied.write_text("a file where a folder should be")
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    # Compiled for correct answers, not for quick ones.
    folders = {"XDG_CACHE_HOME": str(occupied), "TMPDIR": str(temporary)}
    process = start(_SURVEY, NUMBA_OPT="0", **folders)
    assert finish(process)[0] == "ready"
    assert len(objects(temporary)) == 1


def test_two_processes_that_write_the_same_file(tmp_path: Path) -> None:
    """A reader finds a whole file, whichever process wrote it last."""
    path = tmp_path / "kernels.o"
    code = (
        "import sys, pathlib; from drumlin.records.kernels import cache\n"
        "for _ in range(200): cache.write(pathlib.Path(sys.argv[1]), bytes(100_000))"
    )
    command = [sys.executable, "-c", code, str(path)]
    processes = [subprocess.Popen(command) for _ in range(2)]
    wait_until(path.exists, "a first one to be written")
    while any(process.poll() is None for process in processes):
        assert cache.read(path) == bytes(100_000)
    assert [process.wait() for process in processes] == [0, 0]
    assert list(tmp_path.iterdir()) == [path]


def test_no_compiler(tmp_path: Path) -> None:
    (tmp_path / "numba.py").write_text("raise ImportError('there is no numba')")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    output, errors = finish(start(_SURVEY, **environment))
    assert output == "plain"
    assert errors.count("there is no numba") == 1


def test_half_a_file_is_no_file(tmp_path: Path) -> None:
    path = tmp_path / "kernels.o"
    assert cache.read(path) is None
    cache.write(path, b"machine code")
    assert cache.read(path) == b"machine code"
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.read(path) is None


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_write_to_is_avoided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = cache.locate("kernels")
    assert own.parent == tmp_path / "drumlin"
    assert own.parent.stat().st_mode & 0o777 == 0o700
    own.parent.chmod(mode)
    assert cache.locate("kernels").parent != own.parent


_BROUGHT = """
import pickle, subprocess, sys
compiled = []
sys.addaudithook(lambda event, _: compiled.append(event) if event == "subprocess.Popen" else None)
from drumlin.records.kernels import bring, record_kernels
bring(pickle.loads(bytes.fromhex(sys.stdin.read())))
print("ready" if record_kernels.require() else "plain", len(compiled))
"""


def brought(code: shipped_code.ShippedCode, folder: Path) -> tuple[str, list[Path]]:
    """What becomes of a plan's kernels on a host with no cache and no compiler."""
    (folder / "numba.py").write_text("raise ImportError('there is no numba')")
    done = subprocess.run(
        [sys.executable, "-c", _BROUGHT],
        env=os.environ | {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(folder)},
        input=pickle.dumps(code).hex(),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip(), objects(folder)


@pytest.mark.usefixtures("kernels")
def test_kernels_that_a_plan_brings_are_loaded_without_a_compiler(tmp_path: Path) -> None:
    code = shipped_code.pack()
    assert len(pickle.dumps(code)) < 200_000
    assert brought(code, tmp_path) == ("ready 0", [])


@pytest.mark.usefixtures("kernels")
def test_kernels_that_are_not_for_this_host_are_left_alone(tmp_path: Path) -> None:
    code = shipped_code.pack()
    ours = cache.processor_key()
    cut = code._replace(objects={ours: code.objects[ours][:-9]})
    elsewhere = code._replace(objects={"another processor": code.objects[ours]})
    older = code._replace(sources="another version")
    for odd in (cut, elsewhere, older, shipped_code.ShippedCode(code.sources, {})):
        assert odd.find() is None
    # Then it compiles as ever; where that can't be done, plain Python serves.
    assert brought(elsewhere, tmp_path)[0] == "plain 1"


def test_kernels_are_for_one_operating_system() -> None:
    with mock.patch.object(sys, "platform", "another"):
        elsewhere = cache.processor_key.__wrapped__()
    assert elsewhere != cache.processor_key()


def test_a_plan_is_packed_without_loading_anything() -> None:
    code = (
        "import sys; from drumlin.records.kernels import shipped_code; shipped_code.pack()\n"
        "print({'numba', 'llvmlite', 'numpy', 'pyarrow'} & set(sys.modules))"
    )
    assert finish(start(code)) == ("set()", "")


def test_a_host_that_never_compiled_has_nothing_to_send(tmp_path: Path) -> None:
    code = "from drumlin.records.kernels import shipped_code; print(shipped_code.pack().objects)"
    environment = {"XDG_CACHE_HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    assert finish(start(code, **environment)) == ("{}", "")


def test_kernels_run_without_the_gil() -> None:
    """Other threads, as the broker's loop, keep running: a cleaning is nothing but such calls."""
    count = 10_000_000
    body = bytes([12, 0, 0, 0, 1, 1, 0]) * count
    assert loader.record_kernels.require() is not None
    assert turns_beside(lambda: survey(body, count, 0), 21) > 20
