"""The rules of the house that no linter knows, for every source file and document.

The lists of exceptions are ratchets: an entry may shrink or go, and none may be added.
"""

from __future__ import annotations

import ast
import functools
import gc
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
FOLDER_FILES_MAX = 16

#: Larger than they should be, and how large they may be.
LARGE_FILES: dict[str, int] = {
    "tests/broker/handlers/test_group_handlers.py": 595,
}
LARGE_FUNCTIONS: dict[str, int] = {}

_NAMELESS = {"utils", "util", "common", "helpers", "helper", "misc", "stuff"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9._/-]+")
_NAMED_FILES = re.compile(r"`((?:\w+/)*\w+\.(?:py|md|toml|tsv)|(?:\w+/)+)(?:::\w+)?`")
_POSTPONED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def _tracked(suffix: str) -> list[Path]:
    """Files of the repository; of a checkout without git, all there are."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{suffix}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0:
        found = [ROOT / name for name in listed.stdout.splitlines()]
    else:
        folders = ("src", "tests", "bench", "examples", "script", "docs")
        found = [path for folder in folders for path in (ROOT / folder).rglob(f"*{suffix}")]
        found += ROOT.glob(f"*{suffix}")
    return sorted(path for path in found if path.is_file())


@functools.cache
def sources() -> dict[str, str]:
    """All Python files: not when this file is collected, which each worker does."""
    return {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in _tracked(".py")}


def _trees(folder: str = "") -> Iterator[tuple[str, ast.Module]]:
    """One after the other: all of them would keep the garbage collector busy for ten seconds."""
    for name, source in sources().items():
        if name.startswith(folder):
            yield name, ast.parse(source)


DOCUMENTS = {str(path.relative_to(ROOT)): path.read_text("utf-8") for path in _tracked(".md")}


class _Contents(NamedTuple):
    """What several rules need of a file: functions, with their numbers of lines, and imports."""

    has_docstring: bool
    functions: list[tuple[str, int]]
    imports: list[ast.Import | ast.ImportFrom]


@functools.cache
def _contents() -> dict[str, _Contents]:
    """What is in each file, by one pass through all of them."""
    found = {}
    gc.freeze()  # it would look through all nodes again and again
    for name, tree in _trees():
        nodes = list(_statements(tree))
        found[name] = _Contents(
            bool(ast.get_docstring(tree, clean=False)),
            [
                (node.name, _lines_of(node))
                for node in nodes
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            ],
            [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)],
        )
    return found


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All of them, at any depth; to look at their expressions as well takes twice as long."""
    inside: list[ast.AST] = [tree]
    while inside:
        node = inside.pop()
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            found: list[ast.AST] = getattr(node, field, [])
            inside += found
            yield from found


def _lines_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The length of a function.

    Signature and docstring do not count: a call spells all its options, and says what they mean.
    """
    with_text = ast.get_docstring(function, clean=False)
    code = function.body[1:] if with_text else function.body
    return (code[-1].end_lineno or 0) - code[0].lineno + 1 if code else 0


def _check_ratchet(sizes: dict[str, int], limit: int, exceptions: dict[str, int]) -> None:
    grown = {
        name: size for name, size in sizes.items() if size > max(limit, exceptions.get(name, 0))
    }
    assert not grown, f"more than {limit} lines, or than they had"
    settled = {name for name in exceptions if sizes.get(name, 0) <= limit}
    assert not settled, "no exceptions any more: take them off the list"


def test_files_are_short() -> None:
    sizes = {name: len(source.splitlines()) for name, source in sources().items()}
    _check_ratchet(sizes, FILE_LINES_MAX, LARGE_FILES)


def test_functions_are_short() -> None:
    sizes: dict[str, int] = {}
    for file, contents in _contents().items():
        for function, size in contents.functions:
            name = f"{file}::{function}"
            sizes[name] = max(size, sizes.get(name, 0))
    _check_ratchet(sizes, FUNCTION_LINES_MAX, LARGE_FUNCTIONS)


def test_files_open_with_what_they_are_for() -> None:
    without = [
        name
        for name, contents in _contents().items()
        if sources()[name] and not contents.has_docstring
    ]
    assert not without, "no docstring"


def test_modules_have_names() -> None:
    nameless = [name for name in sources() if _NAMELESS & set(Path(name).with_suffix("").parts)]
    assert not nameless, "what is in there has a name"


def test_files_have_plain_names() -> None:
    """A test that takes another object for its directory leaves a broker's data there."""
    odd = [
        str(path) for path in _tracked("") if not _PLAIN_NAME.fullmatch(str(path.relative_to(ROOT)))
    ]
    assert not odd, "written by accident?"


def test_nothing_is_postponed() -> None:
    found = [
        f"{name}:{token.start[0]}: {token.string}"
        for name, source in sources().items()
        if _POSTPONED.search(source)  # which is quick, and mostly the end of it
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and _POSTPONED.search(token.string)
    ]
    assert not found, "do it, or open an issue"


def test_files_and_folders_that_are_named_exist() -> None:
    """By the end of their path, in docstrings and comments; `test_docs.py` looks into documents."""
    files = [
        Path("/", name) for name in map(str, (path.relative_to(ROOT) for path in _tracked("")))
    ]
    ends = {str(file) for file in files} | {f"{each}/" for file in files for each in file.parents}
    missing = {
        f"{name}: {named}"
        for name, source in sources().items()
        for named in _NAMED_FILES.findall(source)
        if not any(each.endswith(f"/{named}") for each in ends)
    }
    assert not missing, "renamed, or gone"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    folder = (ROOT / document).parent
    broken = []
    for link in _LINK.findall(DOCUMENTS[document]):
        if link.startswith(("http:", "https:")):
            continue
        target, _, anchor = link.partition("#")
        path = folder / target if target else ROOT / document
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            broken.append(link)
    assert not broken


def _anchors(path: Path) -> set[str]:
    """The headings of a document, as GitHub makes them anchors."""
    headings = re.findall(r"^#+ +(.*)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", each.lower()).strip().replace(" ", "-") for each in headings}


# -- imports -----------------------------------------------------------------------------------


def _modules() -> dict[str, str]:
    """Our own modules, with their files; a package goes by its name."""
    named = {}
    for name in sources():
        if name.startswith("src/"):
            parts = Path(name).relative_to("src").with_suffix("").parts
            named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = name
    return named


def _imported(file: str, modules: Collection[str]) -> Iterator[str]:
    """What a module imports, wherever it says so: for types alone and in functions as well."""
    for node in _contents()[file].imports:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in modules else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def _circling(graph: dict[str, set[str]]) -> set[str]:
    """The modules from which a chain of imports leads back to themselves."""
    found = set()
    for start in graph:
        reached, to_do = set(graph[start]), list(graph[start])
        while to_do and start not in reached:
            new = graph[to_do.pop()] - reached
            reached |= new
            to_do += new
        if start in reached:
            found.add(start)
    return found


@functools.cache
def _graph() -> dict[str, set[str]]:
    """Which of our own modules each of them imports."""
    modules = _modules()
    assert len(modules) > 500, "they are still found"
    return {
        name: {each for each in _imported(file, modules) if each in modules}
        for name, file in modules.items()
    }


def test_no_file_imports_one_that_imports_it() -> None:
    assert not _circling(_graph()), "they import each other in a circle"


def _rooms(package: str) -> dict[str, set[str]]:
    """What is in a package, folders and files, and which of its neighbours each imports."""
    start = f"{package}."
    inside = {
        name: name.removeprefix(start).split(".")[0] for name in _graph() if name.startswith(start)
    }
    rooms: dict[str, set[str]] = {room: set() for room in inside.values()}
    for name, room in inside.items():
        rooms[room] |= {inside[each] for each in _graph()[name] if each in inside} - {room}
    return rooms


def test_no_folder_imports_one_that_imports_it() -> None:
    packages = {name.rpartition(".")[0] for name in _graph() if "." in name}
    circling = {f"{package}.{room}" for package in packages for room in _circling(_rooms(package))}
    assert not circling, "they import each other in a circle"


def test_folders_are_small() -> None:
    """What is in one is seen at a glance. There is a file for each kernel, and for each API."""
    sizes = Counter(
        str(Path(name).parent)
        for name in sources()
        if name.startswith(("src/", "tests/")) and not name.endswith("/__init__.py")
    )
    for of_a_kind in ("broker/handlers", "records/kernels/code", "wire/protocol"):
        del sizes[f"src/drumlin/{of_a_kind}"]
    del sizes["tests/broker/handlers"]
    _check_ratchet(sizes, FOLDER_FILES_MAX, {})


def test_folders_of_tests_are_packages() -> None:
    """Else two of their files could not have one name."""
    files = {Path(name) for name in sources() if name.startswith("tests/")}
    folders = {each.parent for each in files if each.name.startswith("test_")} - {Path("tests")}
    assert not {str(each) for each in folders if each / "__init__.py" not in files}


def test_folders_of_tests_follow_those_of_the_source() -> None:
    """`tests/README.md`: what a room promises is tested in a folder of its name."""
    rooms = {str(Path(name).parent) for name in sources()}
    areas = {name for name in rooms if Path(name).parent == Path("src/drumlin")}
    apart = (
        "capture/capture_twin",
        "replication/replicas",
        "replication/simulation",
        "spark/sink_proof",
        "spark/sink_twin",
    )
    astray = {
        name
        for name in rooms
        if name.startswith("tests/")
        and f"src/drumlin/{name.split('/')[1]}" in areas
        and name.replace("tests/", "src/drumlin/", 1) not in rooms
        and not name.removeprefix("tests/").startswith(apart)
    }
    assert not astray, "the room has another name, or none"


def test_circles_are_found() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"a"}}
    assert _circling(graph) == {"b", "c"}


def test_the_broker_asks_partitions_and_not_their_logs() -> None:
    """`.log` on any name: handlers have no reason, and of the rest those that look after logs."""
    after_logs = {
        "src/drumlin/broker/hosting/adoption.py",
        "src/drumlin/broker/parts/change_overs.py",
        "src/drumlin/broker/start/chores.py",
        "src/drumlin/broker/parts/flushes.py",
        "src/drumlin/broker/hosting/hosted_partitions.py",
        "src/drumlin/broker/hosting/log_moves.py",
    }
    found = [
        f"{name}:{node.lineno}: {ast.unparse(node)}"
        for name, tree in _trees("src/drumlin/broker/")
        if name not in after_logs
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("log", "producer_state")
        if not (isinstance(node.value, ast.Name) and node.value.id == "_log")  # a logger's
    ]
    assert not found, "Partition offers what is needed of its log"
