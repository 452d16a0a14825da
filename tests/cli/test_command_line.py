"""The command line as such: help, errors in one line, exit codes, what is imported for what."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer
from rig.ports import free_ports

COMMANDS = ["server", "topics", "produce", "consume", "groups", "configs", "dump-log", "version"]


def drumlin(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "drumlin", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, **environment},
    )


def test_help_names_every_command() -> None:
    shown = drumlin("--help")
    assert shown.returncode == 0
    assert all(f" {command} " in shown.stdout for command in COMMANDS)


@pytest.mark.parametrize(
    "command",
    [
        *(["topics", each] for each in ("list", "describe", "create", "delete", "delete-records")),
        *(["groups", each] for each in ("list", "describe", "delete", "delete-offsets")),
        *(["groups", each] for each in ("reset", "export", "import", "mirror")),
        *(["configs", each] for each in ("describe", "alter")),
        ["topics", "add-partitions"],
        ["produce"],
        ["consume"],
        ["dump-log"],
    ],
    ids=" ".join,
)
def test_help_of_a_command_has_examples(run: Run, command: list[str]) -> None:
    shown = run(*command, "--help")
    assert shown.code == 0
    assert "Examples" in shown.out
    assert f"drumlin {' '.join(command)}" in shown.out


def test_server_has_help_without_loading_what_paints_it() -> None:
    assert "--listen" in drumlin("server", "--help").stdout
    program = (
        "import sys; sys.argv = ['drumlin', 'server', '--help']\n"
        "from drumlin.cli.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'rich', 'pyarrow', 'numba'} & set(sys.modules))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.splitlines()[-1] == "set()"


def test_version(run: Run) -> None:
    assert run("version").out.strip() == run("version", "--json").json["version"]
    assert run("--version").out == run("version").out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nonsense"], "drumlin: No such command 'nonsense' (see drumlin --help)"),
        (["serve"], "drumlin: No such command 'serve'. (Did you mean one of: 'server', "),
        (["cluster", "kil", "2"], "drumlin cluster: No such command 'kil'. Did you mean 'kill'? "),
        (["profile", "list"], "drumlin: No such command 'profile'. Did you mean 'context'? "),
        (
            ["cluster", "health"],
            "drumlin cluster: No such command 'health'. Did you mean 'status'?",
        ),
        (["topic", "rm", "x"], "drumlin topic: No such command 'rm'. Did you mean 'delete'? "),
        (
            ["topics", "consume"],
            "drumlin topics: No such command 'consume'. Did you mean 'drumlin consume'? ",
        ),
        (["acls", "ls"], "drumlin acls: No such command 'ls'. Did you mean 'list'? "),
        (["topics", "lst"], "drumlin topics: No such command 'lst'. Did you mean 'list'? "),
        (
            ["groups", "list", "--state", "emty"],
            "drumlin groups list: Invalid value: 'emty' is no ",
        ),
        (
            ["groups", "list", "--type", "clasic"],
            "drumlin groups list: Invalid value: 'clasic' is ",
        ),
        (["topics", "create"], "drumlin topics create: Missing argument 'TOPIC…' "),
        (["topics", "list", "--nonsense"], "drumlin topics list: No such option '--nonsense' "),
        (
            ["topics", "create", "t", "-c", "x"],
            "drumlin topics create: Invalid value for '--config' / '-c': 'x' is not KEY=VALUE",
        ),
        (["topics", "list", "-b", "host:x"], "drumlin: 'host:x' is no broker address"),
    ],
)
def test_mistakes_are_told_in_one_line(run: Run, arguments: list[str], complaint: str) -> None:
    result = run(*arguments)
    assert result.code in (1, 2)
    assert result.err.startswith(complaint)
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "meant"), [(["--state", "emty"], "'empty'"), (["--type", "clasic"], "'classic'")]
)
def test_a_filter_that_can_match_nothing_is_refused(
    run: Run, option: list[str], meant: str
) -> None:
    """An empty list would say that there are no such groups."""
    result = run("groups", "list", *option)
    assert result.code == 2
    assert f"did you mean {meant}? (there are " in result.err


@pytest.mark.parametrize("singular", ["topic", "group", "config", "transaction", "sink"])
def test_a_singular_is_taken_for_its_plural(run: Run, singular: str) -> None:
    assert (
        run(singular, "--help").out.replace(f"drumlin {singular} ", f"drumlin {singular}s ")
        == run(f"{singular}s", "--help").out
    )
    assert f"  {singular} " not in run("--help").out


def test_a_cluster_that_is_not_there(run: Run) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    result = run("topics", "list", "-b", address)
    assert (result.code, result.err) == (1, f"drumlin: broker {address}: Connection refused\n")


def test_a_reader_that_has_seen_enough_ends_us_in_silence(tmp_path: Path) -> None:
    for number in range(2000):
        (tmp_path / f"{number:020}.log").touch()
    command = f"{sys.executable} -m drumlin dump-log --verify -v {tmp_path} | head -1"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert (shown.stdout.count("\n"), shown.stderr) == (1, "")


def test_completion_knows_commands_and_options() -> None:
    shown = drumlin(
        _DRUMLIN_COMPLETE="bash_complete", COMP_WORDS="drumlin topics de", COMP_CWORD="2"
    )
    assert shown.stdout.split() == ["plain,delete", "plain,delete-records", "plain,describe"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed_for_a_shell(run: Run, shell: str) -> None:
    assert f"_DRUMLIN_COMPLETE={shell}_complete" in run("completion", shell).out


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["--help"], {"asyncio", "rich", "pyarrow", "numpy", "numba", "pandas", "kio"}),
        (["topics", "list", "--help"], {"rich", "pyarrow", "numpy", "numba", "pandas"}),
        (["consume", "--help"], {"rich", "pyarrow", "numpy", "numba", "pandas"}),
        (["version"], {"asyncio", "rich", "pyarrow", "numpy", "numba", "pandas", "kio"}),
    ],
)
def test_commands_load_what_they_need(command: list[str], heavy: set[str]) -> None:
    """What a user waits for before each command."""
    program = (
        "import sys; from drumlin.cli import app\n"
        f"try: app.main({command!r})\n"
        "except SystemExit: pass\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    assert _last_line(program) == "[]"


#: What few records do without, and no records at all.
ARROW = {"rich", "pyarrow", "numpy", "numba", "pandas"}
RECORDS = ARROW | {"crc32c", "drumlin.records.batch.crc32c"}
#: What other logins need.
SELDOM = {"http", "drumlin.peer.security.tokens"}


@pytest.mark.parametrize(
    ("command", "heavy"),
    [
        (["topics", "list"], RECORDS | SELDOM),
        (["groups", "list"], RECORDS),
        (["cluster", "describe"], RECORDS),
        (
            ["consume", "quick", "-n", "1"],
            ARROW | {"importlib.metadata", "drumlin.client.consumer"},
        ),
        (["consume", "quick", "--json"], ARROW),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_commands_that_ask_a_broker_load_what_they_need(
    run: Run, server: DrumlinServer, command: list[str], heavy: set[str], tmp_path: Path
) -> None:
    """Arrow is for records only; pandas would come with it, were a time asked of it."""
    (tmp_path / "line").write_text("v\n")
    assert run("produce", "quick", str(tmp_path / "line"), "-b", server.address).code == 0
    program = (
        "import sys; from drumlin.cli import app\n"
        f"assert app.main({[*command, '-b', server.address]!r}) == 0\n"
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    assert _last_line(program) == "[]"


def _last_line(program: str) -> str:
    """What a Python of its own prints last."""
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return shown.stdout.splitlines()[-1]
