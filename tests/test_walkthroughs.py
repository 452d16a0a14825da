"""README.md and the tutorials, followed as a newcomer would; with Spark, tests/spark does it."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import click
import pytest

from drumlin.cli.app import app
from drumlin.config.sources import read_environment
from rig.documents.fresh_environment import FreshEnvironment
from rig.documents.walkthrough import Walkthrough, blocks, check_shown, commands
from rig.ports import free_ports

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"

#: Commands that set a machine up, or need another one, by how they begin.
_SET_UP = (
    "git clone",
    "./script/",
    "mkdir ../trial",
    "python3 -m venv",
    "source ",
    "pip install '../drumlin[spark",
    "pip wheel ",
    "sudo ",
    "journalctl ",
    "docker ",
)
#: Commands that need what a reader brings: a Kafka to move.
_OF_THE_READERS = ("kafka:9092", "./kafka-data")
_WITH_SPARK = ("spark",)  # which tests/spark walks


def is_skipped(command: str) -> bool:
    return command.startswith(_SET_UP) or any(each in command for each in _OF_THE_READERS)


@pytest.fixture
def environment(tmp_path_factory: pytest.TempPathFactory) -> FreshEnvironment:
    """With nothing that the document has not installed."""
    return FreshEnvironment(tmp_path_factory.mktemp("environment") / "venv")


def test_the_readme(tmp_path: Path, environment: FreshEnvironment) -> None:
    """Its Python runs a second time as well, when everything is there already."""
    with Walkthrough(tmp_path, is_skipped, environment) as walk:
        # The server with a file of settings, which a reader brings, runs beside the first one.
        (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path / 'of-the-file'}\n")
        beside = f"127.0.0.1:{free_ports(1)[0]}"
        with_file = "drumlin server server.properties --listen "
        walk.replaced[with_file + walk.address] = with_file + beside
        walk.follow(ROOT / "README.md", without=_WITH_SPARK)
        assert (tmp_path / "of-the-file" / "meta.properties").is_file()
        assert walk.printed.startswith("pyarrow.Table\n")
        assert {'"ACME"', '"42.17"'} <= set(re.findall(r'"[^"]*"', walk.printed))
        for block in blocks(ROOT / "README.md"):
            if block.language == "python" and "spark" not in block.text and not block.file:
                walk.run_python(block.text, "README.md")


@pytest.mark.deep
def test_the_tutorial_for_python(tmp_path: Path, environment: FreshEnvironment) -> None:
    with Walkthrough(tmp_path, is_skipped, environment) as walk:
        walk.follow(TUTORIALS / "python.md")
    printed = walk.printed.splitlines()
    assert printed[0] == "3"
    assert ast.literal_eval(printed[1])[-2:] == ["key", "value"]
    assert ast.literal_eval(printed[2]) == {"ann": 15.75, "bob": 7.0}
    assert "['hello']" in printed


@pytest.mark.deep
def test_the_tutorial_for_operators(tmp_path: Path, environment: FreshEnvironment) -> None:
    text = (TUTORIALS / "operator.md").read_text("utf-8")
    (properties,) = re.findall(r"^```properties\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    environment.install("../drumlin")
    with Walkthrough(tmp_path, is_skipped, environment) as walk:
        here = properties.replace("127.0.0.1:9092", walk.address)
        (tmp_path / "server.properties").write_text(here)
        walk.follow(TUTORIALS / "operator.md")


@pytest.mark.deep
def test_the_document_about_tests(tmp_path: Path, environment: FreshEnvironment) -> None:
    document = ROOT / "docs" / "testing.md"
    environment.install("../drumlin")
    shown = [block for block in blocks(document) if "def test_" in block.text]
    for number, block in enumerate(each for each in shown if "spark" not in each.text):
        (tmp_path / f"test_{number}.py").write_text(block.text)
    with Walkthrough(tmp_path, is_skipped, environment) as walk:
        walk.follow(document, without=("def test_", "spark"))
        walk.run("pytest")


def test_an_environment_has_what_is_installed_and_nothing_else(
    environment: FreshEnvironment,
) -> None:
    def finds(module: str) -> bool:
        found = subprocess.run([environment.python, "-c", f"import {module}"], capture_output=True)
        return found.returncode == 0

    assert not finds("drumlin")
    environment.install("../drumlin")
    assert [finds(each) for each in ("drumlin.client", "pytest", "mkdocs")] == [True, False, False]
    environment.install("pytest")
    assert finds("pytest") and not finds("pytest_timeout")


def test_what_starts_a_service_parses() -> None:
    unit = configparser.ConfigParser(strict=True, interpolation=None)
    unit.read_string((ROOT / "deploy" / "drumlin.service").read_text("utf-8"))
    started = shlex.split(unit["Service"]["ExecStart"])
    assert started[0].endswith("/bin/drumlin")
    assert options_of(started[1:])["arguments"] == ("/etc/drumlin/server.properties",)


def test_what_a_container_runs_parses() -> None:
    """The command of the image, its check, and the variables that the tutorial gives it."""
    text = (ROOT / "deploy" / "Containerfile").read_text("utf-8")
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    (command,) = re.findall(r"^CMD (\[.*\])$", text, re.MULTILINE)
    (check,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", text, re.MULTILINE)
    assert json.loads(entry) == ["drumlin"]
    served, checked = options_of(json.loads(command)), options_of(json.loads(check)[1:])
    assert (served["data"], str(checked["data"])) == ("/data", "/data")
    tutorial = (TUTORIALS / "operator.md").read_text("utf-8")
    given = dict.fromkeys(re.findall(r"\bDRUMLIN_[A-Z_]+", tutorial), "1")
    assert len(given) > 2
    assert read_environment(given)[1] == []


def options_of(words: list[str]) -> dict[str, Any]:
    """Like `drumlin` reads its command line, from the name of the command on."""
    name, *arguments = words
    root = click.Context(app, info_name="drumlin")
    command = app.get_command(root, name)
    assert command is not None
    # With its parent: a command keeps the help option that its first context gives it.
    return command.make_context(name, arguments, parent=root).params


def test_a_block_is_read_as_a_shell_shows_it() -> None:
    first, second = commands("$ one \\\n> two\nout ...\n$ three\n")
    assert first.text == "one \\\ntwo"
    assert first.shown == ["out ..."]
    assert second == ("three", [])
    check_shown(["a  ... c", "d"], ["x", "a b c", "y", "d"])
    with pytest.raises(AssertionError, match="'d' is not among"):
        check_shown(["a", "d"], ["d", "a"])
