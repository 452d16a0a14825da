"""README.md and the tutorials, followed as a newcomer would; with Spark, tests/spark does it."""

from __future__ import annotations

import configparser
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from drumlin.cli.app import app
from rig.ports import free_ports
from rig.walkthrough import Walkthrough, blocks, check_shown, commands

ROOT = Path(__file__).parents[1]
TUTORIALS = ROOT / "docs" / "tutorials"

#: Commands that set a machine up, or need another one, by how they begin.
_SET_UP = (
    "git clone",
    "./script/",
    "python3 -m venv",
    "source ",
    "pip ",
    "sudo ",
    "journalctl ",
    "docker ",
)
#: Commands that need what a reader brings: a Kafka to move.
_OF_THE_READERS = ("kafka:9092", "./kafka-data")


def is_skipped(command: str) -> bool:
    return command.startswith(_SET_UP) or any(each in command for each in _OF_THE_READERS)


def test_the_readme(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its Python runs a second time as well, when everything is there already."""
    with Walkthrough(tmp_path, is_skipped) as walk:
        # The server with a file of settings, which a reader brings, runs beside the first one.
        (tmp_path / "server.properties").write_text(f"log.dirs={tmp_path / 'of-the-file'}\n")
        beside = f"127.0.0.1:{free_ports(1)[0]}"
        with_file = "drumlin server server.properties --listen "
        walk.replaced[with_file + walk.address] = with_file + beside
        walk.follow(ROOT / "README.md", without=("spark", "def test_"))
        assert (tmp_path / "of-the-file" / "meta.properties").is_file()
        printed = capsys.readouterr().out
        assert printed.startswith("pyarrow.Table\n")
        assert {'"ACME"', '"42.17"'} <= set(re.findall(r'"[^"]*"', printed))
        for language, block in blocks(ROOT / "README.md"):
            if language == "python" and "spark" not in block and "def test_" not in block:
                exec(block.replace("127.0.0.1:9092", walk.address), walk.names)


@pytest.mark.parametrize("document", [ROOT / "README.md", TUTORIALS / "python.md"])
def test_tests_that_are_shown_pass(tmp_path: Path, document: Path) -> None:
    shown = [block for _, block in blocks(document) if "def test_" in block]
    (tmp_path / "test_shown.py").write_text("\n".join(shown))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    assert f"{len(shown)} passed" in done.stdout


def test_the_tutorial_for_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Walkthrough(tmp_path, is_skipped) as walk:
        walk.replaced["idle_timeout_ms=5_000"] = "idle_timeout_ms=1_000"  # nothing more comes
        walk.follow(TUTORIALS / "python.md", without=("def test_",))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == "3"
    assert "['hello']" in printed
    assert walk.names["totals"] == {"ann": 15.75, "bob": 7.0}
    assert not walk.names["table"].schema.names[6:]


def test_the_tutorial_for_operators(tmp_path: Path) -> None:
    text = (TUTORIALS / "operator.md").read_text("utf-8")
    (properties,) = re.findall(r"^```properties\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    with Walkthrough(tmp_path, is_skipped) as walk:
        here = properties.replace("127.0.0.1:9092", walk.address)
        (tmp_path / "server.properties").write_text(here)
        walk.follow(TUTORIALS / "operator.md")


def test_what_starts_a_service_parses() -> None:
    text = (TUTORIALS / "operator.md").read_text("utf-8")
    (unit_text,) = re.findall(r"^```ini\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    unit = configparser.ConfigParser(strict=True)
    unit.read_string(unit_text)
    started = shlex.split(unit["Service"]["ExecStart"])
    assert started[0].endswith("/bin/drumlin")
    assert server_options(started[1:])["arguments"] == ("/etc/drumlin/server.properties",)
    (entry,) = re.findall(r"^ENTRYPOINT (\[.*\])$", text, re.MULTILINE)
    (added,) = re.findall(r"^    command: (\[.*\])$", text, re.MULTILINE)
    options = server_options([*json.loads(entry), *json.loads(added)][1:])
    assert options["data"] == "/data"


def server_options(words: list[str]) -> dict[str, Any]:
    """Like `drumlin` reads its command line, from the name of the command on."""
    name, *arguments = words
    root = click.Context(app, info_name="drumlin")
    command = app.get_command(root, name)
    assert name == "server" and command is not None
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
