"""How kernels come into a process: from the best library for its processor, or not at all."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from unittest import mock

import pytest

import drumlin
from drumlin.records.batch.batch import HEADER_SIZE
from drumlin.records.batch.corrupt_record import CorruptRecord
from drumlin.records.kernels import processor, record_kernels
from drumlin.records.kernels.library_files import LIBRARIES, MADE_OF, library_path
from drumlin.records.kernels.machine_code import load_library
from drumlin.records.plain.record import Record, encode_batch
from drumlin.records.validation.survey import Survey, survey
from records.decoding import decode_to_arrow
from rig.time.unlocked import turns_beside

_SURVEY = """
import logging, sys
logging.basicConfig()
started = []
sys.addaudithook(lambda event, _: started.append(event) if event == "subprocess.Popen" else None)
from drumlin.records.kernels import compaction_kernels, record_kernels, value_kernels
from drumlin.records.validation.survey import Survey, survey
sets = (record_kernels, compaction_kernels, value_kernels)
ready = {each.loaded is not None for each in sets}
body = bytes([12, 0, 0, 0, 1, 1, 0, 12, 0, 2, 2, 1, 1, 0])  # two records, nulls all through
assert survey(body, 2, 5) == Survey(5, 6, True, True)
assert not {"numba", "llvmlite", "numpy", "pyarrow"} & set(sys.modules)
print(ready, started)
"""


def run(code: str, path: Path | None = None) -> tuple[str, str]:
    """What a process prints, and what it says; the package may be another one than ours."""
    environment = os.environ | ({} if path is None else {"PYTHONPATH": str(path)})
    finished = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip(), finished.stderr


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A folder with a package of our modules, and no libraries."""
    ours = Path(drumlin.__file__).parent
    without = shutil.ignore_patterns("__pycache__", LIBRARIES.name, "code", "toolchain")
    shutil.copytree(ours, tmp_path / "drumlin", ignore=without)
    return tmp_path


def test_a_process_has_kernels_at_once() -> None:
    assert run(_SURVEY) == ("{True} []", "")


def test_the_brokers_modules_open_no_library_before_they_need_it() -> None:
    code = (
        "import sys, drumlin.broker.start.broker\n"
        "from drumlin.records.kernels import record_kernels\n"
        "print({'numba', 'llvmlite', 'numpy', 'pyarrow'} & set(sys.modules))\n"
        "print('loaded' in vars(record_kernels))"
    )
    assert run(code) == ("set()\nFalse", "")


def test_a_package_without_libraries_serves_in_plain_python(package: Path) -> None:
    output, errors = run(_SURVEY, package)
    assert output == "{False} []"
    assert errors.count("plain Python handles records slowly") == 1


def test_a_library_that_cannot_be_opened_is_none(package: Path) -> None:
    folder = package / LIBRARIES.relative_to(Path(drumlin.__file__).parents[1])
    folder.mkdir()
    for variant in processor.VARIANTS:
        (folder / library_path(variant.name).name).write_text("not a library")
    output, errors = run(_SURVEY, package)
    assert output == "{False} []"
    assert errors.count("plain Python handles records slowly") == 1


def test_libraries_of_other_sources_than_a_checkouts_are_not_opened(package: Path) -> None:
    folder = package / LIBRARIES.relative_to(Path(drumlin.__file__).parents[1])
    shutil.copytree(LIBRARIES, folder, ignore=shutil.ignore_patterns(MADE_OF.name))
    assert run(_SURVEY, package) == ("{True} []", "")
    (folder / MADE_OF.name).write_text("others")
    output, errors = run(_SURVEY, package)
    assert output == "{False} []"
    assert "sources have changed" in errors


def test_a_package_in_an_archive_has_kernels_too(package: Path, tmp_path: Path) -> None:
    """As Spark hands it to workers. What is opened leaves no copy behind."""
    archive = tmp_path / "drumlin.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for source in (package, Path(drumlin.__file__).parents[1]):
            for path in (source / "drumlin").rglob("*.so" if source != package else "*.py"):
                file.write(path, path.relative_to(source))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    code = f"import tempfile; tempfile.tempdir = {str(temporary)!r}\n{_SURVEY}"
    assert run(code, archive) == ("{True} []", "")
    assert list(temporary.iterdir()) == []


def test_every_library_that_this_processor_runs_does_the_same() -> None:
    usable = [each for each in processor.usable_variants() if library_path(each.name).exists()]
    assert usable
    # Some kind of word after word, some bytes left over, and a second batch that is damaged.
    records = [Record(index, 9 + index, b"key %d" % index, bytes(index)) for index in range(50)]
    sound = bytes(encode_batch(records))
    damaged = bytearray(sound)
    damaged[-1] ^= 1
    for variant in usable:
        kernels = load_library(library_path(variant.name)).records
        with mock.patch.object(record_kernels, "loaded", kernels):
            assert survey(sound[HEADER_SIZE:], 50, 9) == Survey(9, 58, False, True)
            assert decode_to_arrow([sound]).column("value").to_pylist() == [
                each.value for each in records
            ]
            with pytest.raises(CorruptRecord):
                decode_to_arrow([bytes(damaged)])


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ("ssse3 pni cx16 lahf_lm", "x86_64 without popcnt, sse4_1, sse4_2, linux"),
        (processor.VARIANTS[2].flags, "x86_64, linux"),
    ],
)
def test_a_machine_without_kernels_is_told_by_what_it_lacks(
    flags: str | frozenset[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: processor.X86_64)
    cpuinfo = tmp_path / "cpuinfo"
    flags = flags if isinstance(flags, str) else " ".join(flags)
    cpuinfo.write_text(f"processor\t: 0\nflags\t\t: {flags}\n")
    assert processor.machine_as_told(cpuinfo) == told


_CPUINFO = """processor\t: 0
model name\t: some processor
{name}\t\t: {flags}

processor\t: 1
"""
_V2, _V3, _V4 = (sorted(each.flags) for each in reversed(processor.VARIANTS[:3]))


@pytest.mark.parametrize(
    ("machine", "name", "flags", "variants"),
    [
        ("x86_64", "flags", _V4, ["x86-64-v4", "x86-64-v3", "x86-64-v2"]),
        ("x86_64", "flags", [*_V3, "avx512f"], ["x86-64-v3", "x86-64-v2"]),
        ("x86_64", "flags", _V2, ["x86-64-v2"]),
        ("x86_64", "flags", ["sse2"], []),
        ("aarch64", "Features", ["fp", "asimd", "crc32"], ["aarch64"]),
        ("aarch64", "Features", ["fp", "asimd"], []),
        ("riscv64", "isa", ["rv64imafdc"], []),
    ],
)
def test_the_best_libraries_come_first(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    machine: str,
    name: str,
    flags: list[str],
    variants: list[str],
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(_CPUINFO.format(name=name, flags=" ".join(flags)))
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert [each.name for each in processor.usable_variants(path)] == variants
    assert processor.usable_variants(tmp_path / "nothing") == []


def test_another_operating_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "another")
    assert processor.usable_variants() == []


def test_kernels_run_without_the_gil() -> None:
    """Other threads, as the broker's loop, keep running: a cleaning is nothing but such calls."""
    count = 10_000_000
    body = bytes([12, 0, 0, 0, 1, 1, 0]) * count
    assert record_kernels.loaded is not None
    assert turns_beside(lambda: survey(body, count, 0), 21) > 20
