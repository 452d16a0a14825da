"""`drumlin quotas`."""

from __future__ import annotations

import pytest

from cli.conftest import Run
from rig.brokers.drumlin_server import DrumlinServer


def test_what_is_set_is_listed_until_it_is_removed(run: Run, server: DrumlinServer) -> None:
    where = ("-b", server.address)
    alice = ("--user", "alice", *where)
    assert run("quotas", "list", *where).out == ""
    result = run("quotas", "set", "producer_byte_rate=5e6", "request_percentage=12.5", *alice)
    assert (result.code, result.out) == (
        0,
        "user alice: set producer_byte_rate, request_percentage\n",
    )
    both = ("--user", "alice", "--default-client-id", *where)
    assert run("quotas", "set", "consumer_byte_rate=1000", *both).code == 0
    assert run("quotas", "set", "connection_creation_rate=20", "--default-ip", *where).code == 0
    assert run("quotas", "list", *where).rows == [
        ["", "", "<default>", "connection_creation_rate", "20"],
        ["alice", "", "", "producer_byte_rate", "5000000"],
        ["alice", "", "", "request_percentage", "12.5"],
        ["alice", "<default>", "", "consumer_byte_rate", "1000"],
    ]
    listed = run("quotas", "list", *both, "--json").json
    assert [(each["key"], each["value"]) for each in listed] == [("consumer_byte_rate", 1000)]
    refused = run("quotas", "remove", "consumer_byte_rate", *alice)
    assert (refused.code, "user alice has no quota consumer_byte_rate" in refused.err) == (1, True)
    assert run("quotas", "remove", "producer_byte_rate", *alice).code == 0
    asked = run("quotas", "remove", *alice)
    assert "Remove request_percentage of user alice?" in asked.err
    for whose in (alice, both, ("--default-ip", *where)):
        assert run("quotas", "remove", "--yes", *whose).code == 0
    assert run("quotas", "list", *where).out == ""
    assert run("quotas", "remove", *alice).code == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "producer_byte_rate=1"], "say whose quota"),
        (["set", "producer_byte_rate=fast", "--user", "a"], "'fast' is not a number"),
        (["set", "producer_byte_rate", "--user", "a"], "is not KEY=VALUE"),
        (["list", "--user", "a", "--default-user"], "not both"),
        (["list", "--user", "a", "--ip", "::1"], "of an address, or of users"),
        (["set", "no_such_rate=1", "--user", "a"], "no key 'no_such_rate'"),
        (["set", "connection_creation_rate=1", "--ip", "example.org"], "is no IP address"),
    ],
)
def test_mistakes(run: Run, server: DrumlinServer, arguments: list[str], message: str) -> None:
    result = run("quotas", *arguments, "-b", server.address)
    assert result.code > 0
    assert message in " ".join(result.err.split())
