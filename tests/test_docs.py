"""The documents are true: tables say what the code says, commands parse, snippets run."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest

from differential.allowed import ALLOWED
from drumlin.broker.served import SERVED
from drumlin.cli.app import app
from drumlin.version import __version__
from drumlin.wire.messages import API_KEYS
from rig.drumlin_server import DrumlinServer

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _doc_tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("doc_tables", ROOT / "script" / "doc_tables.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


doc_tables = _doc_tables()


# -- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_tables_are_true(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text == doc_tables.with_tables(text), "write them anew: python script/doc_tables.py"


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
    text = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    section = text.split("## What differs, and why")[1].split("Two more")[0]
    assert len(re.findall(r"^- ", section, re.MULTILINE)) == len(ALLOWED)


def test_the_version_is_one() -> None:
    """Where documents name it, they name the one of the package; the build reads it from there."""
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.findall(r"^## \[(.*?)\]", changes, re.MULTILINE)[0] == __version__
    for path in DOCUMENTS:
        wheels = re.findall(r"drumlin-(\d[\d.]*)-py3", path.read_text("utf-8"))
        assert set(wheels) <= {__version__}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["tool"]["hatch"]["version"]["path"] == "src/drumlin/version.py"


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


@pytest.mark.parametrize("name", ["docs/client.md", "docs/compaction.md"])
def test_snippets_run(broker: DrumlinServer, name: str) -> None:
    """Those without Spark, one after the other, as a reader would type them."""
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
