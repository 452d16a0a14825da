"""`drumlin users` and `drumlin acls`, on Drumlin and on Apache Kafka alike."""

from __future__ import annotations

import io
import json

import pytest

import drumlin
from drumlin.cli import app
from drumlin.security import Scram, Security
from rig.data.secured_listeners import Secured
from rig.waiting import wait_until

pytestmark = pytest.mark.kafka


def test_users_and_acls(
    secured: Secured, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(line: str, typed: str = "") -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(typed))
        capsys.readouterr()
        code = app.main([*line.split(), "--bootstrap", f"127.0.0.1:{secured.port}"])
        out, err = capsys.readouterr()
        assert code in (0, 1) and ("drumlin:" in err) == (code == 1 and not out), err
        return code, out

    def becomes(line: str, wanted: tuple[int, str]) -> None:
        # Kafka's broker hears of a change a moment after its controller.
        wait_until(lambda: run(line) == wanted, f"{line} to be {wanted}", 20)

    def seen(password: str) -> list[str]:
        security = Security(login=Scram("carol", password, "SCRAM-SHA-256"))
        with drumlin.connect(secured.addresses["scramonly"], security=security) as client:
            return [each for each in client.list_topics() if each in ("hidden", "locked")]

    assert run("users add carol", "one\n") == (0, "carol: added\n")
    wait_until(lambda: "carol" in run("users list")[1], "carol to be there", 20)
    assert run("users add carol", "one\n")[0] == 1
    assert "carol\tSCRAM-SHA-256,SCRAM-SHA-512\n" in run("users list")[1]
    assert seen("one") == []
    assert run("users passwd carol", "two\n") == (0, "carol: changed\n")
    added = run("acls add -u carol -o describe -t hid --prefix --json")
    becomes("acls list -u carol --json", added)
    assert run("acls list -t hidden --json") == added
    assert seen("two") == ["hidden"]
    asked = "acls check -u carol -t hidden -o"
    assert run(f"{asked} describe")[0] == 0
    assert run(f"{asked} read")[0] == 1
    run("acls add -u carol -o describe -t hidden --host 192.0.2.1 --deny")
    wait_until(lambda: run("acls list -u carol")[1].count("\n") == 2, "both ACLs", 20)
    assert run(f"{asked} describe")[0] == 0
    code, said = run(f"{asked} describe --host 192.0.2.1 --json")
    assert code == 1
    assert json.loads(said)[0]["acl"]["permission"] == "deny"
    # Only what is by a prefix, and then the rest.
    assert run("acls remove -u carol -t hid --prefix --yes")[1].count("removed") == 1
    wait_until(lambda: run("acls list -u carol")[1].count("\n") == 1, "one ACL", 20)
    assert run("acls remove -u carol --yes")[1].count("removed") == 1
    becomes("acls list -u carol", (0, ""))
    assert run("users remove carol --yes") == (0, "carol: removed\n")
    wait_until(lambda: "carol" not in run("users list")[1], "carol to be gone", 20)
