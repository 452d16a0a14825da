"""Each check that stands before a commit fails where it should: faults are made in a copy."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
COPIED = ("src", "tests", "bench", "examples", "script", "docs")
pytestmark = [pytest.mark.deep, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with the environment of this one."""
    there = tmp_path_factory.mktemp("checks") / "checkout"
    there.mkdir()
    for name in COPIED:
        shutil.copytree(ROOT / name, there / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, there)
    # What script/setup.sh looks for: without it the copy would be installed in its place.
    kernels = ROOT / "src/drumlin/records/kernels"
    sources = [
        each for part in ("", "code", "toolchain") for each in sorted((kernels / part).glob("*.py"))
    ]
    stamped = b"".join(each.read_bytes() for each in (ROOT / "pyproject.toml", *sources))
    state = hashlib.sha256(stamped).hexdigest()[:16]
    if not (Path(sys.prefix) / f".installed-dev-{state}").exists():
        pytest.skip("the environment is not that of ./script/test")
    (there / ".venv").symlink_to(sys.prefix)
    return there


def run(checkout: Path, *command: str) -> tuple[int, str]:
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src")}
    done = subprocess.run(
        command,
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout


@pytest.fixture
def changed(copy: Path) -> Iterator[dict[str, str]]:
    """Files of the copy by name, with what is added to them for one test."""
    additions: dict[str, str] = {}
    yield additions
    for name in additions:
        shutil.copy(ROOT / name, copy / name)


@pytest.mark.parametrize(
    ("check", "file", "fault", "complaint"),
    [
        ("format", "src/drumlin/clock.py", "x  =  1", "1 file would be reformatted"),
        ("lint", "tests/test_clock.py", "import json", "F401"),
        ("layers", "src/drumlin/wire/error_codes.py", "import drumlin.broker", "BROKEN"),
        ("dead-code", "src/drumlin/clock.py", "def nobodys() -> None: ...", "'nobodys'"),
        ("types", "src/drumlin/clock.py", 'x: int = "text"', "Incompatible types"),
        ("documents", "docs/README.md", "[there](is-no-such-page.md)", "'is-no-such-page.md'"),
        (
            "documents",
            "docs/README.md",
            "[there](client.md#is-no-such-place)",
            "does not contain an anchor",
        ),
        ("documents", "docs/README.md", "[there](/is-no-such-page)", "absolute link"),
    ],
)
def test_a_check_fails_where_it_should(
    copy: Path, changed: dict[str, str], check: str, file: str, fault: str, complaint: str
) -> None:
    changed[file] = fault
    with (copy / file).open("a") as there:
        there.write(f"\n\n{fault}\n")
    code, said = run(copy, "script/checks", check)
    assert code != 0, said
    assert complaint in said


def test_the_site_takes_no_docstring_that_it_cannot_read(
    copy: Path, changed: dict[str, str]
) -> None:
    file = "src/drumlin/client/state_calls.py"
    changed[file] = "prose"
    text = (copy / file).read_text("utf-8")
    (copy / file).write_text(text.replace("Raises:\n", "Raises:\n            Whatever fits.\n"))
    code, said = run(copy, "script/checks", "documents")
    assert (code, "griffe" in said) == (1, True), said


@pytest.mark.parametrize(
    ("test", "checks", "code"),
    [
        ("def test(): pass", 0, 0),
        ("def test(): assert False", 0, 1),
        ("import nothing_of_this_name", 0, 1),
        ("", 0, 1),
        ("def test(): import warnings; warnings.warn('one')", 0, 1),
        ("def test(): pass", 1, 1),
    ],
    ids=["whole", "a failure", "not collected", "no tests", "a warning", "a check"],
)
def test_the_script_tells_of_a_failure(
    copy: Path, changed: dict[str, str], test: str, checks: int, code: int
) -> None:
    changed["script/checks"] = changed["tests/test_clock.py"] = ""
    (copy / "script/checks").write_text(f"#!/bin/sh\nexit {checks}\n")
    (copy / "tests/test_clock.py").write_text(f"{test}\n")
    ended, said = run(copy, "script/test", "tests/test_clock.py")
    assert (ended != 0) == code, said
