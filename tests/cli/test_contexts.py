"""Contexts: a user's named clusters, the current one among them, and completion from it."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import drumlin
from cli.conftest import Run
from drumlin.cli import app
from rig.brokers.drumlin_server import DrumlinServer

NOWHERE = "127.0.0.1:1"
PASSWORD = "tr0ub4dor"
LOGIN = f"""security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="u" password="{PASSWORD}";
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder of contexts, where nothing in the environment names a cluster."""
    monkeypatch.delenv("DRUMLIN_BOOTSTRAP", raising=False)
    monkeypatch.delenv("DRUMLIN_COMMAND_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "drumlin"


def completed(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    *before, incomplete = words
    found = ShellComplete(app.app, {}, "drumlin", "_D").get_completions(before, incomplete)
    return [each.value for each in found]


def test_the_current_context_is_the_last_to_be_asked(
    server: DrumlinServer, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("topics", "create", "of-contexts", "-b", server.address).code == 0
    assert run("context", "add", "test", "-b", server.address).code == 0
    assert run("context", "add", "gone", "-b", NOWHERE).code == 0
    assert run("context", "use", "test").code == 0
    assert "of-contexts" in run("topics", "list").out
    assert NOWHERE in run("topics", "list", "-b", NOWHERE).err
    assert NOWHERE in run("--context", "gone", "topics", "list").err
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", NOWHERE)
    assert NOWHERE in run("topics", "list").err
    assert "of-contexts" in run("--profile", "test", "topics", "list").out
    monkeypatch.delenv("DRUMLIN_BOOTSTRAP")
    listed = run("context", "list", "--json").json
    assert [(each["context"], each["is_current"]) for each in listed] == [
        ("gone", False),
        ("test", True),
    ]
    assert run("context", "remove", "test").code == 2, "without a terminal it cannot ask"
    assert run("context", "remove", "test", "--yes").code == 0
    assert "no current context" in run("context", "show").err
    (folder / "gone.properties").write_text("client.id=x\n")
    assert "has no bootstrap.servers" in run("context", "use", "gone").err
    assert "did you mean 'gone'" in run("context", "use", "gome").err


def test_a_login_is_for_one_cluster_and_is_not_shown(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    login = tmp_path / "client.properties"
    login.write_text(LOGIN)
    added = ("context", "add", "prod", "--config", str(login))
    assert "no address" in run(*added).err
    assert run(*added, "-b", NOWHERE, "--use").code == 0
    assert "--replace" in run(*added, "-b", NOWHERE).err
    assert run(*added, "-b", NOWHERE, "--replace").code == 0
    file = folder / "prod.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = run("context", "show")
    assert PASSWORD in file.read_text()
    assert PASSWORD not in shown.out + shown.err
    assert ["sasl.mechanism", "PLAIN"] in shown.rows
    file.chmod(0o644)
    assert f"chmod 600 {file}" in run("topics", "list").err


def test_names_are_completed_from_the_named_cluster(
    server: DrumlinServer, run: Run, folder: Path
) -> None:
    run("topics", "create", "completed-1", "-b", server.address)
    run("context", "add", "here", "-b", server.address)
    run("context", "add", "gone", "-b", NOWHERE)
    assert completed("consume", "-b", server.address, "comple") == ["completed-1"]
    assert completed("--context", "here", "consume", "comple") == ["completed-1"]
    assert completed("--context", "gone", "consume", "comple") == []
    assert completed("--context", "nobody", "consume", "comple") == []
    run("context", "use", "here")
    assert completed("configs", "describe", "topic", "comple") == ["completed-1"]
    assert completed("consume", "-b", NOWHERE, "comple") == []
    assert completed("context", "use", "") == ["gone", "here"]
    assert completed("--context", "h") == ["here"]
    (folder / "here.properties").write_bytes(b"\xff")
    assert completed("consume", "comple") == []


def test_names_are_completed_from_the_cluster_that_the_command_would_take(
    server: DrumlinServer, run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("topics", "create", "completed-2", "-b", server.address)
    run("context", "add", "gone", "-b", NOWHERE)
    monkeypatch.setenv("DRUMLIN_BOOTSTRAP", server.address)
    assert completed("consume", "completed-2") == ["completed-2"]
    assert completed("--context", "gone", "consume", "completed-2") == []
    assert completed("--context", "nobody", "consume", "completed-2") == []
    assert completed("consume", "--config", str(folder / "gone.properties"), "completed-2") == []


def test_names_that_a_shell_would_obey_are_not_completed(server: DrumlinServer) -> None:
    hostile = ["$(id)", "`id`", "a;id", "a b", "x\nplain,y", "--yes", "st*", "it's", "~", "a>b"]
    with drumlin.connect(server.address) as client:
        client.create_topic("obeyed", 1)
        for each in (*hostile, "shell-1", "münchen:1"):
            client.commit_offsets(each, {("obeyed", 0): 0})
        found = completed("groups", "describe", "-b", server.address, "")
        for each in (*hostile, "shell-1", "münchen:1"):
            client.delete_group(each)
        client.delete_topic("obeyed")
    assert {"shell-1", "münchen:1"} <= set(found)
    assert not {*hostile, "x", "y"} & set(found)


def test_what_is_wrong_in_the_folder_of_contexts(run: Run, folder: Path) -> None:
    assert run("context", "add", "here", "-b", NOWHERE).code == 0
    (folder / "not a name.properties").write_text("")
    assert [each[0] for each in run("context", "list").rows] == ["here"]
    assert completed("context", "use", "") == ["here"]
    # Nothing is done on another cluster if the current context is not known.
    (folder / "current-context").mkdir()
    result = run("topics", "list")
    assert (result.code, result.out) == (1, "")
    assert str(folder / "current-context") in result.err


def test_a_user_without_a_home(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 1_234_567)
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert "home" not in run("topics", "list").err  # whatever there is at the default address
    assert "set HOME" in run("context", "list").err
