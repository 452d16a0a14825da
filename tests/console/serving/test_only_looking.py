"""Who may change something by a console: the operator's choice, and then the brokers'."""

from __future__ import annotations

from typing import Any

import pytest

import drumlin
from console.conftest import running_console
from console.console_process import ConsoleProcess, Visitor
from drumlin.console.apart.processes import Apart
from drumlin.console.serving.asked import Answers
from drumlin.console.serving.settings import NotSafe, Settings
from drumlin.peer.options import PeerOptions
from rig.brokers.secured_drumlin import SecuredDrumlin

CHANGES = sorted(Answers((), Apart(None)).changes)
_READ = 3
_TOPIC = "looked-at"


def _settings(**given: Any) -> Settings:
    return Settings(bootstrap="127.0.0.1:9092", options=PeerOptions(), **given)


@pytest.mark.parametrize(
    ("given", "user", "why"),
    [
        ({}, None, None),
        ({"is_read_only": True}, None, "this console is read-only"),
        ({"mechanism": "PLAIN"}, "alice", None),
        ({"mechanism": "PLAIN", "is_read_only": True, "editors": ["alice"]}, "alice", "read-only"),
        ({"mechanism": "PLAIN", "editors": ["alice"]}, "alice", None),
        ({"mechanism": "PLAIN", "editors": ["alice"]}, "bob", "'bob' may only look"),
        ({"host": "192.0.2.1", "is_open_to_all": True}, None, "without a login"),
        ({"is_open_to_all": True}, None, "without a login"),  # others come by a proxy
        ({"own_key": "k", "is_open_to_all": True}, None, None),
        ({"host": "192.0.2.1", "is_open_to_all": True, "mechanism": "PLAIN"}, "alice", None),
    ],
)
def test_who_only_looks(given: dict[str, Any], user: str | None, why: str | None) -> None:
    found = _settings(**given).why_only_looks(user)
    assert (found is None) if why is None else (found is not None and why in found)


def test_editors_log_in() -> None:
    with pytest.raises(NotSafe, match="--login"):
        _settings(editors=["alice"])


def _logged_in(console: ConsoleProcess, user: str) -> tuple[Visitor, str | None]:
    visitor = Visitor(console)
    answer = visitor.login(user=user, password=user)
    return visitor, answer.json["only_looks"]


def test_a_user_who_is_no_editor_changes_nothing(login_console: ConsoleProcess) -> None:
    bob, why = _logged_in(login_console, "bob")
    assert why == "user 'bob' may only look by this console"
    for change in CHANGES:
        answer = bob.post(change, {})
        assert (answer.status, answer.error) == (403, why)


def test_an_editor_does_what_their_rights_allow(
    broker: SecuredDrumlin, login_console: ConsoleProcess
) -> None:
    record = {"topic": _TOPIC, "key": {"kind": "null"}, "value": {"kind": "text", "text": "v"}}
    moves = [{"topic": _TOPIC, "partition": 0, "old_offset": 1, "new_offset": 0}]
    with drumlin.connect(broker.address) as client, broker.connect() as raw:
        client.create_topic(_TOPIC, 1)
        client.append({"value": ["v"]}, _TOPIC)
        client.commit_offsets("seen-group", {(_TOPIC, 0): 1})
        rights = {"principal": "User:alice", "host": "*", "permission_type": 3}
        rights |= {"resource_pattern_type": 3, "operation": _READ}
        places = [{"resource_type": 2, "resource_name": _TOPIC}]
        raw.ask("create_acls", 3, creations=[rights | each for each in places])
        alice, why = _logged_in(login_console, "alice")
        assert why is None
        assert alice.get("rights_on_topic", topic=_TOPIC).json == {"may_write": False}
        refused = alice.post("produce", record)
        assert (refused.status, "WRITE on a topic" in refused.error) == (403, True), refused
        refused = alice.post("reset", {"group": "seen-group", "moves": moves})
        assert (refused.status, "the group" in refused.error) == (403, True), refused
        root, _ = _logged_in(login_console, "root")
        assert root.post("produce", record).json["offset"] == 1
        assert root.post("reset", {"group": "seen-group", "moves": moves}).status == 200
        assert client.committed_offsets("seen-group")[_TOPIC, 0].offset == 0
        assert client.offsets(_TOPIC, "latest") == {0: 2}


@pytest.mark.deep
def test_a_read_only_console_refuses_each_change(
    broker: SecuredDrumlin, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("read-only")
    with running_console(directory, "--bootstrap", broker.address, "--read-only") as console:
        visitor = Visitor(console)
        assert visitor.login().json["only_looks"] == "this console is read-only"
        for change in CHANGES:
            answer = visitor.post(change, {"topic": "any"})
            assert (answer.status, answer.error) == (403, "this console is read-only")
        assert visitor.get("cluster").status == 200
