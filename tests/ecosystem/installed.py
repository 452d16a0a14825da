"""What the programs are run with: fetched once into .cache/ecosystem, by version.

Nothing happens on import. `Unavailable` says why a machine cannot have it; tests skip with it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rig.jvm.jars import Unavailable, java

_FOLDER = Path(__file__).parents[2] / ".cache" / "ecosystem"
_TIMEOUT_S = 1200.0
_LIBRDKAFKA = "https://github.com/confluentinc/librdkafka"


def python_with(*requirements: str) -> Path:
    """A Python of its own with some packages, and what these need.

    Raises:
        Unavailable: it cannot be installed.
    """
    folder = _FOLDER / re.sub(r"[^\w.-]+", "-", requirements[0])
    python, is_ready = folder / "bin" / "python", folder / "ready"
    if not is_ready.exists():  # else what was broken off would stay so
        folder.mkdir(parents=True, exist_ok=True)
        _in(folder, [sys.executable, "-m", "venv", "--clear", "."])
        quietly = ["--quiet", "--disable-pip-version-check", "--no-compile"]
        _in(folder, [str(python), "-m", "pip", "install", *quietly, *requirements])
        is_ready.touch()
    return python


def javascript_with(*packages: str) -> tuple[str, Path]:
    """Node, and a folder with packages of npm in `node_modules`.

    Raises:
        Unavailable: there is no Node, or they cannot be installed.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("Node.js is not installed")
    folder = _FOLDER / re.sub(r"[^\w.-]+", "-", "-".join(packages)).strip("-")
    is_ready = folder / "ready"
    if not is_ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        _in(folder, [npm, "install", "--no-audit", "--no-fund", "--silent", *packages])
        is_ready.touch()
    return node, folder


def javascript_of_librdkafka(package: str, librdkafka: str) -> tuple[str, Path, dict[str, str]]:
    """Node, a folder with a package of npm, and the environment in which it finds a librdkafka.

    It is compiled with that where what it would download, compiled already, cannot be had.

    Raises:
        Unavailable: there is no Node or compiler, or they cannot be installed.
    """
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise Unavailable("Node.js is not installed")
    tests = librdkafka_tests(librdkafka)
    sources = ":".join(str(tests.with_name(each)) for each in ("src", "src-cpp"))
    folder = _FOLDER / re.sub(r"[^\w.-]+", "-", package).strip("-")
    is_ready, found = folder / "ready", {"LD_LIBRARY_PATH": sources}
    if not is_ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        told = {"BUILD_LIBRDKAFKA": "0", "CPATH": sources, "LIBRARY_PATH": sources}
        if Path("/usr/include/node/node.h").exists():
            told["npm_config_nodedir"] = "/usr"
        _in(folder, [npm, "install", "--no-audit", "--no-fund", package], {**found, **told})
        is_ready.touch()
    return node, folder, found


def compiled(program: str, classpath: str) -> Path:
    """A folder with the classes of one of the programs in Java here.

    Raises:
        Unavailable: there is no compiler.
    """
    compiler = Path(java()).with_name("javac")
    if not compiler.exists():
        raise Unavailable("Java is without its compiler")
    source = Path(__file__).with_name("programs") / f"{program}.java"
    folder = _FOLDER / "java" / program
    classes = folder / f"{program}.class"
    if not classes.exists() or classes.stat().st_mtime < source.stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        _in(folder, [str(compiler), "-nowarn", "-cp", classpath, "-d", ".", str(source)])
    return folder


def go_tests(module: str, version: str, package: str = ".", tags: str = "") -> tuple[Path, Path]:
    """The tests of a package of a Go module, compiled; and its folder, in which they are run.

    Raises:
        Unavailable: there is no Go, or the module cannot be had.
    """
    told = _in(_go_folder(), [_go(), "mod", "download", "-json", f"{module}@{version}"])
    source = Path(json.loads(told)["Dir"], package)
    name = "-".join((*module.split("/")[1:], version, package)).replace("/", "-").strip("-.")
    program = _FOLDER / "go" / f"{name}.test"
    if not program.exists():
        _in(source, [_go(), "test", "-c", "-tags", tags, "-o", str(program), "."])
    return program, source


def go_program(package: str, version: str) -> Path:
    """A command of a Go module, compiled.

    Raises:
        Unavailable: there is no Go, or the module cannot be had.
    """
    folder = _go_folder() / f"{package.replace('/', '-')}-{version}"
    program = folder / package.rpartition("/")[2]
    if not program.exists():
        _in(_go_folder(), [_go(), "install", f"{package}@{version}"], {"GOBIN": str(folder)})
    return program


def go_compiled(program: str, *modules: str) -> Path:
    """One of the programs in Go here, compiled with modules (`github.com/IBM/sarama@v1.61.1`).

    Raises:
        Unavailable: there is no Go, or the modules cannot be had.
    """
    source = Path(__file__).with_name("programs") / f"{program}.go"
    folder = _go_folder() / program
    made = folder / program
    if not made.exists() or made.stat().st_mtime < source.stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        shutil.copy(source, folder / "main.go")
        for command in (["mod", "init", program], ["get", *modules], ["build", "-o", program, "."]):
            _in(folder, [_go(), *command])
    return made


def go_cloned(repository: str, version: str, package: str = ".") -> Path:
    """A command in Go of a repository that is served as no module, compiled in a clone.

    KMINION_REPOSITORY names another clone of `redpanda-data/kminion`, in place of its own.

    Raises:
        Unavailable: there is no Go or git, or its source or what it needs cannot be had.
    """
    if shutil.which("git") is None:
        raise Unavailable("git is not installed")
    name = repository.rpartition("/")[2]
    clone = _go_folder() / f"{name}-{version}"
    program = clone / "made" / name
    if not program.exists():
        shutil.rmtree(clone, ignore_errors=True)
        source = os.environ.get(f"{name.upper()}_REPOSITORY", f"https://github.com/{repository}")
        wanted = ["--quiet", "--depth", "1", "--branch", version]
        _in(_go_folder(), ["git", "clone", *wanted, source, str(clone)])
        _in(clone, [_go(), "build", "-o", str(program), package])
    return program


def librdkafka_tests(version: str) -> Path:
    """The folder of librdkafka's own tests, with its `test-runner` compiled.

    They are in no package: LIBRDKAFKA_REPOSITORY names a clone, in place of its own repository.

    Raises:
        Unavailable: there is no compiler, or its source cannot be had.
    """
    missing = [each for each in ("git", "make", "gcc", "g++") if shutil.which(each) is None]
    if missing:
        raise Unavailable(f"not installed: {', '.join(missing)}")
    folder = _FOLDER / f"librdkafka-{version}"
    is_ready = folder / "ready"
    if not is_ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        source = os.environ.get("LIBRDKAFKA_REPOSITORY", _LIBRDKAFKA)
        wanted = ["--quiet", "--depth", "1", "--branch", f"v{version}"]
        _in(folder.parent, ["git", "clone", *wanted, source, str(folder)])
        _in(folder, ["./configure", "--disable-gssapi"])
        for what in (["libs"], ["-C", "tests", "build"]):
            _in(folder, ["make", f"-j{os.cpu_count()}", *what])
        is_ready.touch()
    return folder / "tests"


def _go() -> str:
    found = shutil.which("go")
    if found is None:
        raise Unavailable("Go is not installed")
    return found


def _go_folder() -> Path:
    folder = _FOLDER / "go"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _in(folder: Path, command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    """What the command prints, run in that folder."""
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{command[0]} took more than {_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise Unavailable(f"{' '.join(command)}: {done.stderr.strip()[-500:]}")
    return done.stdout
