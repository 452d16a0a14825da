"""The command line, and the client, where pyarrow and numpy are not installed: as pip leaves it.

All commands run in one process of an environment that has what the package requires, and no more.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import pytest

from drumlin.cli.app import app
from drumlin.client.needs_arrow import NO_ARROW
from rig.brokers.drumlin_server import DrumlinServer
from rig.documents.fresh_environment import FreshEnvironment

LINES = 40  # more than are encoded one by one where there is Arrow

_RUN = """
import contextlib, io, json, sys
from drumlin.cli import app
for line in sys.stdin:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", "surrogateescape") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = app.main(json.loads(line))
    said = []
    for each in (out, err):
        each.flush()
        said.append(each.buffer.getvalue().decode())
    print(json.dumps([code, *said]))
assert not {"numpy", "pyarrow"} & sys.modules.keys()
"""


class Place(NamedTuple):
    """Where commands are run."""

    environment: FreshEnvironment
    folder: Path
    address: str

    @property
    def variables(self) -> dict[str, str]:
        return self.environment.variables | {
            "DRUMLIN_BOOTSTRAP": self.address,
            "XDG_CONFIG_HOME": str(self.folder),
        }

    def run(self, program: str, said_to_it: str = "") -> str:
        """What the program prints."""
        done = subprocess.run(
            [self.environment.python, "-c", program],
            input=said_to_it,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commands(self, lines: Sequence[str]) -> dict[str, list[Any]]:
        """For each of the command lines the exit code, and what was printed and noted."""
        typed = "".join(json.dumps(line.split()) + "\n" for line in lines)
        said = self.run(_RUN, typed).splitlines()
        return dict(zip(lines, map(json.loads, said), strict=True))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    environment = FreshEnvironment(tmp_path_factory.mktemp("environment") / "venv")
    environment.install("../drumlin")
    folder = tmp_path_factory.mktemp("place")
    (folder / "lines").write_text("".join(f"k{each % 7}:{each}\n" for each in range(LINES)))
    server = DrumlinServer(folder, {"group.initial.rebalance.delay.ms": "0"})
    try:
        server.launch([environment.python, *server.command()[1:]])
        server.await_ready_line(re.escape(server.address))
        yield Place(environment, folder, server.address)
        server.stop()
        server.check_output()
    finally:
        server.close()


#: In an order in which they find what they need.
GOING_WITHOUT = (
    "topics create clicks --partitions 2 --config cleanup.policy=compact",
    "topics create plain",
    "topics add-partitions clicks 3 --yes",
    "topics list",
    "topics describe clicks",
    "topics offsets clicks",
    "produce clicks lines --key-separator :",
    "produce plain lines --transactional-id t --json",
    "topics delete-records plain --before 1 --yes",
    "consume clicks --format {key}={value}",
    "consume clicks --json --count 1",
    "consume plain --committed --from -2",
    "consume clicks --group g",
    "consume clicks --group h --where key=k1 --format {topic}{value} --count 2",
    "groups list",
    "groups describe g",
    "groups export g --file offsets.csv",
    "groups import g --file offsets.csv --dry-run",
    "groups reset g --to earliest --yes",
    "groups delete-offsets g clicks --yes",
    "groups delete g --yes",
    "configs alter topic plain --set retention.ms=1000000",
    "configs describe topic plain",
    "quotas set producer_byte_rate=1e9 --user nobody",
    "quotas list",
    "quotas remove --user nobody --yes",
    "transactions list",
    "transactions describe t",
    "sinks list",
    "compaction status --data data",
    "compaction simulate clicks --data data",
    "compaction run clicks --data data --roll",
    "cluster describe",
    "cluster status",
    "doctor --seconds 0",
    "top --once --interval 0",
    "cluster log-dirs",
    "clock status --data data",
    "health --data data",
    "backup create saved --data data",
    "backup check saved",
    "backup restore saved --data restored",
    "users add alice --password-file lines",
    "users passwd alice --password-file lines",
    "users list",
    "users remove alice --yes",
    "dump-log data/plain-0",
    "context add here --bootstrap 127.0.0.1:1 --use",
    "context list",
    "context show",
    "context use --none",
    "context remove here --yes",
    "completion bash",
    "version",
    "topics delete plain --yes",
)
#: These fail here by their nature, whatever is installed; each in a sentence.
FAILING = (
    "server --data /dev/null/data",
    "groups mirror g --zookeeper 127.0.0.1:1 --zookeeper-config missing.properties",
    "cluster adopt --data missing --zookeeper 127.0.0.1:1",
    "cluster secure-zookeeper --zookeeper 127.0.0.1:1 --zookeeper-config missing",
    "cluster up --data /dev/null/practice --brokers 1",
    "cluster start 1 --data missing",
    "cluster stop 1 --data missing",
    "cluster kill 1 --data missing",
    "transactions abort --transactional-id missing --yes",
    "sinks abort missing --yes",
    "sinks describe missing",
    "sinks forget missing --yes",
    "console --listen 0.0.0.0:0",
    "clock trust --data missing",
    "capture postgres --url postgresql://127.0.0.1:1/missing --setup",
    "capture status --url postgresql://127.0.0.1:1/missing",
    "capture remove --url postgresql://127.0.0.1:1/missing --yes",
    "capture reread --url postgresql://127.0.0.1:1/missing --tables public.*",
    "capture pause --url postgresql://127.0.0.1:1/missing",
    "capture resume --url postgresql://127.0.0.1:1/missing",
    "capture mariadb --url mariadb://root@127.0.0.1:1/missing --setup",
    "land --topics clicks --to parquet:lake --mode append --status",
    "acls add --user alice --operation read --topic clicks",
    "acls list",
    "acls check --user alice --operation read --topic clicks",
    "acls remove --user alice --yes",
    "certificates show --data data",
    "certificates renew --data data",
    "certificates issue alice --data data --out alice.pem",
    "certificates rotate trust --data data",
)
NEEDING_ARROW = (
    "snapshot clicks",
    "bench --seconds 1",
    "produce clicks lines --registry http://127.0.0.1:1 --value-schema s",
    "restore --topic clicks --to new",
    "consume clicks --output clicks.parquet",
    "consume clicks --group g --join",
    "consume clicks --registry http://127.0.0.1:1",
    "produce clicks rows.parquet",
    "materialize clicks --to sqlite:///clicks.db --group m",
    "materialize clicks --to sqlite:///clicks.db --group m --status",
    "state dump g s",
)


def test_every_command_works_or_says_what_it_needs(place: Place) -> None:
    (place.folder / "rows.parquet").write_bytes(b"")
    said = place.commands([*GOING_WITHOUT, *FAILING, *NEEDING_ARROW])
    found = (0, 3, 4)  # of a doctor, who may find this machine's disk too full
    assert [(line, said[line][2]) for line in GOING_WITHOUT if said[line][0] not in found] == []
    for line in FAILING:
        code, _, noted = said[line]
        assert code in (1, 2) and "unexpected" not in noted, (line, noted)
    for line in NEEDING_ARROW:
        assert said[line] == [1, "", f"drumlin: {NO_ARROW}\n"], line
    lines = (place.folder / "lines").read_text().splitlines()
    consumed = said["consume clicks --format {key}={value}"][1].splitlines()
    assert sorted(consumed) == sorted(each.replace(":", "=") for each in lines)
    (first,) = said["consume clicks --json --count 1"][1].splitlines()
    assert json.loads(first)["headers"] == []
    assert said["consume plain --committed --from -2"][1] == f"{lines[-1]}\n"  # and a marker


def test_every_command_is_tried() -> None:
    tried = [*GOING_WITHOUT, *FAILING, *NEEDING_ARROW]
    missing = [
        name
        for name in _names(app, [])
        if not any(f"{each} ".startswith(f"{name} ") for each in tried)
    ]
    assert missing == []


def _names(command: click.Command, path: list[str]) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from _names(found, [*path, name])


_CLIENT = """
import os, drumlin
from drumlin import lowlevel

def needs_arrow(call):
    try:
        call()
    except ModuleNotFoundError as error:
        return str(error)

with drumlin.connect(os.environ["DRUMLIN_BOOTSTRAP"]) as client:
    client.create_topic("records", 2)
    headers = [("name", b"text"), ("none", None)]
    with client.writer("records", compression="zstd") as writer:
        for number in range(40):
            sent = writer.send(str(number), key=b"key", headers=headers, timestamp=number)
    partition = sent.result().partition
    with client.transaction("records") as transaction:
        transaction.writer("records").send("last", partition=0)
    batches = list(client.read_records("records", [partition], end={partition: 40}))
    records = [each for batch in batches for each in batch]
    assert [each.offset for each in records] == list(range(40))
    assert [each.value for each in records] == [str(each).encode() for each in range(40)]
    assert {each.headers for each in records} == {tuple(headers)}
    assert [each.timestamp for each in records] == list(range(40))
    print(needs_arrow(lambda: client.read("records")))
    print(needs_arrow(lambda: client.read_batches("records")))
    print(needs_arrow(lambda: client.read_range("records", 0, 0, 1)))
    print(needs_arrow(lambda: lowlevel.read_ranges(client, [])))
    print(needs_arrow(lambda: client.consumer("records")))
    print(needs_arrow(lambda: client.snapshot("records")))
    print(needs_arrow(lambda: client.snapshot_batches("records")))
    print(needs_arrow(lambda: client.restore("records", "new")))
    print(needs_arrow(lambda: client.append([{"value": "x"}], "records")))
    print(needs_arrow(lambda: lowlevel.stream_appender(client)))
    with client.transaction("records") as transaction:
        print(needs_arrow(lambda: transaction.append([{"value": "x"}], "records")))
        print(needs_arrow(lambda: lowlevel.stream_appender(transaction)))
print(needs_arrow(lambda: drumlin.ValueDecoder))
"""


def test_a_client_has_all_but_tables(place: Place) -> None:
    assert set(place.run(_CLIENT).splitlines()) == {NO_ARROW}


_TESTS = """
def test_records(drumlin_broker, drumlin_topic, drumlin_client):
    with drumlin_client.writer(drumlin_topic) as writer:
        writer.send("42.17")
    assert [each.value for each in next(drumlin_client.read_records(drumlin_topic))] == [b"42.17"]

def test_table(drumlin_client, drumlin_topic):
    drumlin_client.read(drumlin_topic)
"""


def test_the_fixtures_have_all_but_tables(place: Place) -> None:
    place.environment.install("pytest")
    (place.folder / "test_prices.py").write_text(_TESTS)
    done = subprocess.run(
        [place.environment.python, "-m", "pytest", "-p", "no:cacheprovider", "test_prices.py"],
        cwd=place.folder,
        env=place.variables,
        capture_output=True,
        text=True,
    )
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert f"ModuleNotFoundError: {NO_ARROW}" in done.stdout
