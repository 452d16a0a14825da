"""The documents are true: tables say what the code says, commands parse, snippets run."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import drumlin
import test_tidy
from differential.allowed import ALLOWED
from drumlin import turns
from drumlin.broker import router
from drumlin.broker.apis.served import SERVED
from drumlin.broker.loop import loop_watch, threads
from drumlin.broker.net import request_sizes
from drumlin.cli.app import app
from drumlin.compaction.round import rewriter, segment_reader
from drumlin.compaction.settings import CleanerSettings
from drumlin.records.kernels.compaction_layout import OFFSET_MAP_SLOT_SIZE
from drumlin.spark.java import MINIMUM_JAVA
from drumlin.storage.segment import segment
from drumlin.version import __version__
from drumlin.wire import messages
from drumlin.wire.exact_from import EXACT_FROM
from drumlin.wire.messages import API_KEYS
from rig.brokers.drumlin_server import DrumlinServer
from rig.documents.doc_tables import doc_tables

ROOT = Path(__file__).parents[1]
DOCUMENTS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "tests/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PYTHON_MINIMUM = PROJECT["project"]["requires-python"].removeprefix(">=")
(PYSPARK_MINIMUM,) = re.findall(r"pyspark>=([\d.]+)", (ROOT / "pyproject.toml").read_text("utf-8"))
BYTES_PER_KEY = round(OFFSET_MAP_SLOT_SIZE / CleanerSettings().io_buffer_load_factor, 1)


def default_of(option: str) -> int:
    """The text about an option of `drumlin.connect`."""
    default: int = inspect.signature(drumlin.connect).parameters[option].default
    return default


# -- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tables_are_true(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == doc_tables.with_tables(text), "run python script/doc_tables.py"


def test_every_table_is_shown() -> None:
    shown = [
        name
        for path in DOCUMENTS
        for name in re.findall(r"<!-- table: ([a-z-]+) -->", path.read_text("utf-8"))
    ]
    assert sorted(shown) == sorted(doc_tables.TABLES)


def test_an_api_is_served_or_not() -> None:
    not_served = [name for names in doc_tables.NOT_SERVED.values() for name in names]
    assert len(set(not_served)) == len(not_served)
    assert not SERVED.keys() & set(not_served)
    assert set(not_served) <= API_KEYS.keys()


def test_every_difference_is_told() -> None:
    """Each in a point of its own, and no other is told."""
    text = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    section = text.split("## What differs, and why")[1].split("More differences")[0]
    points = [" ".join(each.split()) for each in re.split(r"^- ", section, flags=re.MULTILINE)[1:]]
    places = [
        [number for number, point in enumerate(points) if each.told in point] for each in ALLOWED
    ]
    untold = [each.told for each, found in zip(ALLOWED, places, strict=True) if len(found) != 1]
    assert not untold
    assert sorted(number for (number,) in places) == list(range(len(points)))


def test_sizes_of_requests_are_told() -> None:
    """Each API with a limit of its own by its name, or by what several are called together."""
    text = " ".join((ROOT / "docs" / "compatibility.md").read_text("utf-8").split())
    (listed,) = re.findall(r"`broker/net/request_sizes.py`: (.*?) all others 4\)", text)
    told = {int(size): names for names, size in re.findall(r"([A-Za-z, ]+?) (\d+)(?=;)", listed)}
    together = {
        "offset_commit": "commits of offsets",
        "txn_offset_commit": "commits of offsets",
        "alter_configs": "the altering of configurations",
        "incremental_alter_configs": "the altering of configurations",
    }
    for name, size in request_sizes._LARGER.items():
        shown = together.get(name, name.title().replace("_", ""))
        assert shown in told[size >> 20], name


#: What documents quote: where, the words around it, and what it must be.
QUOTED: list[tuple[str, str, object]] = [
    ("docs/compatibility.md", "(4 and later) for the timestamp -{},", -EXACT_FROM),
    ("docs/compaction.md", "GIL, in chunks of {} MiB", segment_reader._CHUNK_BYTES >> 20),
    ("docs/compaction.md", "\ncleaner reads chunks of {} MiB", segment_reader._CHUNK_BYTES >> 20),
    ("docs/compaction.md", "and writes chunks of {} MiB", rewriter._OUTPUT_BYTES >> 20),
    ("docs/compaction.md", "one slot of {} bytes for each key", OFFSET_MAP_SLOT_SIZE),
    ("docs/compaction.md", "slot of the offset map | {} bytes", OFFSET_MAP_SLOT_SIZE),
    ("docs/compaction.md", "so a key costs 14 / 0.9 = {} bytes", BYTES_PER_KEY),
    ("docs/operations.md", "{} bytes for each key of the head", BYTES_PER_KEY),
    ("README.md", "The offset map takes {} bytes a key", BYTES_PER_KEY),
    ("CHANGELOG.md", "of {} bytes a slot (15.6 a key", OFFSET_MAP_SLOT_SIZE),
    ("docs/client.md", "`request_timeout_ms` ({} s", default_of("request_timeout_ms") // 1000),
    ("docs/spark.md", "It needs PySpark {} or later", PYSPARK_MINIMUM),
    ("docs/operations.md", "at most {} MiB, and released", segment._SET_ASIDE_STEP_BYTES_MAX >> 20),
    ("README.md", "Linux and Python {} or later", PYTHON_MINIMUM),
    ("CONTRIBUTING.md", "Linux and Python {} or later", PYTHON_MINIMUM),
    ("docs/tutorials/python.md", "Linux and Python {} or later", PYTHON_MINIMUM),
    ("CONTRIBUTING.md", "**Functions up to {} lines", test_tidy.FUNCTION_LINES_MAX),
    ("CONTRIBUTING.md", "lines, files up to {}.**", test_tidy.FILE_LINES_MAX),
    ("docs/troubleshooting.md", "one before {}. `ensure_java()`", MINIMUM_JAVA),
    ("docs/architecture.md", "after each step: it runs for {} ms", round(turns.TURN_S * 1000)),
    ("docs/architecture.md", "  for {} ms at a time", round(turns.TURN_S * 1000 / 2)),
    ("docs/architecture.md", "has more than {} elements is encoded", messages._LONG),
    ("docs/architecture.md", "request above {} KiB is read", router._PARSED_APART_BYTES >> 10),
    ("docs/architecture.md", "data, {} at a time, and not the broker", threads._READING),
    ("CHANGELOG.md", "turns of the event loop above {} ms", round(loop_watch.SLOW_S * 1000)),
    ("docs/operations.md", "A turn above {} ms is also logged", round(loop_watch.SLOW_S * 1000)),
]


@pytest.mark.parametrize(("document", "words", "value"), QUOTED)
def test_quoted_constants_are_those_of_the_code(document: str, words: str, value: object) -> None:
    text = (ROOT / document).read_text("utf-8")
    before, after = words.split("{}")
    found = re.findall(re.escape(before) + r"([\d.]+)" + re.escape(after), text)
    assert found == [str(value)]


def test_nobody_is_told_to_install_a_name_of_an_index() -> None:
    """There is no package of that name: whoever takes it would be installed by such a line."""
    told = re.compile(r"pip install (?:-\S+ )*['\"]?drumlin\b|(?<![/.])\bdrumlin\[[a-z]")
    paths = [*DOCUMENTS, ROOT / "CHANGELOG.md", *(ROOT / "src").rglob("*.py")]
    assert [path for path in paths if told.search(path.read_text("utf-8"))] == []


def test_examples_import_what_is_public() -> None:
    """What docs/reference/README.md says: names of one part more."""
    public = re.compile(r"drumlin(\.\w+)?|drumlin\.spark\.java")
    for path in sorted((ROOT / "examples" / "pipelines").rglob("*.py")):
        for imported in re.findall(
            r"^\s*(?:from|import) (drumlin[\w.]*)", path.read_text(), re.MULTILINE
        ):
            assert public.fullmatch(imported), f"{path}: {imported}"


def test_the_version_is_one() -> None:
    """Where documents name it, they name the one of the package; the build reads it from there."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[(.*?)\]", changes, re.MULTILINE)[0] == __version__
    for path in DOCUMENTS:
        wheels = re.findall(r"drumlin-(\d[\d.]*)-py3", path.read_text("utf-8"))
        assert set(wheels) <= {__version__}
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/drumlin/version.py"


#: Files of the reader's own, which a tutorial has them write.
_READERS_OWN = {"test_orders.py", "test_prices.py"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_files_that_are_named_exist(path: Path) -> None:
    """By their name alone, or by the end of their path."""
    there = [f"/{name}" for name in test_tidy.sources()]
    named = set(re.findall(r"`([\w/]+\.py)(?:::\w+)?`", path.read_text("utf-8"))) - _READERS_OWN
    missing = {name for name in named if not any(each.endswith(f"/{name}") for each in there)}
    assert not missing, "renamed, or gone"


# -- commands ----------------------------------------------------------------------------------


def _blocks(path: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )


def _commands() -> Iterator[Any]:
    """What is typed after `drumlin` somewhere in the documents."""
    for path in DOCUMENTS:
        inline = re.findall(r"`drumlin ([^`…]+)`", path.read_text("utf-8").replace("\n", " "))
        typed = [line for block in _blocks(path, "console") for line in block.splitlines()]
        entered = [line[2:] for line in typed if line.startswith(("$ ", "> "))]
        parts = [part for line in entered for part in re.split(r" (?:\||>|&&) ", line)]
        shown = [part.removeprefix("drumlin ") for part in parts if part.startswith("drumlin ")]
        for command in inline + shown:
            arguments = shlex.split(command, comments=True)
            yield pytest.param(arguments, id=f"{path.name}: {' '.join(arguments)}")


@pytest.mark.parametrize("arguments", list(_commands()))
def test_commands_parse(arguments: list[str]) -> None:
    """With every option that they are given, but without being run."""
    command: click.Command | None = app
    while isinstance(command, click.Group) and arguments:
        name, *arguments = arguments
        command = command.get_command(click.Context(command), name)
    assert command is not None, "there is no such command"
    if arguments:
        command.make_context("drumlin", arguments)


# -- snippets ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrumlinServer]:
    # Each group of the documents would wait for three seconds for further members.
    settings = {"group.initial.rebalance.delay.ms": "0"}
    started = DrumlinServer(tmp_path_factory.mktemp("docs"), settings)
    try:
        started.start()
        yield started
        started.stop()
        started.check_output()
    finally:
        started.close()


@pytest.mark.parametrize(
    "name",
    [
        "docs/aio.md",
        "docs/client.md",
        "docs/compaction.md",
        "docs/keyed-state.md",
        "docs/tables.md",
    ],
)
def test_snippets_run(broker: DrumlinServer, name: str) -> None:
    """The programs without Spark, one after the other, as a reader would type them."""
    names: dict[str, Any] = {}
    for source in _blocks(ROOT / name, "python"):
        if "spark" not in source:
            here = source.replace("127.0.0.1:9092", broker.address)
            here = re.sub(r"(idle_timeout_ms=)\d_000", r"\g<1>500", here)  # nothing more comes
            exec(compile(here, name, "exec"), names)


def test_snippets_are_python() -> None:
    for path in DOCUMENTS:
        for source in _blocks(path, "python"):
            ast.parse(source)
