"""A topic as documents of an OpenSearch: equal to the log at its end, whatever is killed."""

from __future__ import annotations

import base64
import http.client
import http.server
import random
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

import drumlin
from drumlin.client.client import Client
from drumlin.serving import status, targets
from drumlin.serving.opensearch import target as opensearch_target
from drumlin.serving.opensearch.documents import Version, document_of, id_of
from drumlin.serving.opensearch.index import OpenSearchIndex, Write
from drumlin.serving.opensearch.target import OpenSearchTarget
from drumlin.serving.target import Fenced, Position
from rig.brokers.drumlin_server import DrumlinServer
from rig.servers.certificates import Certificates
from rig.servers.search.opensearch import OpenSearch, running_opensearch
from rig.waiting import wait_until
from serving import lost_tombstone
from serving.kills import kill_again_and_again
from serving.lost_tombstone import LEFT

pytestmark = pytest.mark.deep

AT = Position("id", 5, 0, "then")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenSearch]:
    with running_opensearch(tmp_path_factory.mktemp("opensearch")) as server:
        yield server


@pytest.fixture
def opened(server: OpenSearch) -> Iterator[Callable[[str], OpenSearchTarget]]:
    """Opens targets, each as a process of its own does."""
    stores = []

    def open_target(name: str) -> OpenSearchTarget:
        stores.append(targets.open_store(f"{server.url}?index={name}", "g", None))
        target = stores[-1].target("a-topic")
        assert isinstance(target, OpenSearchTarget)
        return target

    yield open_target
    for each in stores:
        each.close()


def rows(**values: str | None) -> list[dict[str, Any]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def kept(server: OpenSearch, index: str) -> dict[bytes, bytes]:
    found = server.documents(index)
    return {name.encode(): each["drumlin"]["value"].encode() for name, each in found.items()}


def forget_deletions(server: OpenSearch, index: str) -> None:
    """As a minute does, and a restart of the server: of all documents deleted so far."""
    server.ask("PUT", f"/{index}/_settings", {"index.gc_deletes": "0ms"})

    def probe(method: str, version: int) -> Any:
        body = {} if method == "PUT" else None
        versioned = f"version={version}&version_type=external"
        return server.ask(method, f"/{index}/_doc/probe?{versioned}", body)

    def is_forgotten() -> bool:
        server.ask("POST", f"/{index}/_refresh")
        return "error" not in probe("PUT", 2)

    probe("PUT", 1)
    probe("DELETE", 3)
    wait_until(is_forgotten, "the last deletion to be forgotten")
    probe("DELETE", 4)


@pytest.mark.deep
def test_it_has_the_last_value_of_every_key(client: Client, topic: str, server: OpenSearch) -> None:
    def keep() -> int:
        done = drumlin.materialize(client, topic, server.url, group="g", until_end=True)
        assert done.lag == 0
        return done.records

    client.append(rows(a="1", b="2", c='{"city": "Graz", "tags": ["x"]}'), topic)
    assert keep() == 3
    found = server.documents(topic)
    partition = found["c"].pop("drumlin")["partition"]
    assert (partition in range(3), found["c"]) == (True, {"city": "Graz", "tags": ["x"]})
    client.append(rows(a="one", b=None, c="3", d="4", e=None), topic)
    assert keep() == 5
    expected = {b"a": b"one", b"c": b"3", b"d": b"4"}
    assert kept(server, topic) == expected
    assert keep() == 0
    looks = targets.open_store(server.url, "g", None, only_looks=True)
    assert looks.target("no-such-topic").positions([0]) == {}
    assert {each.lag for each in status.look(client, topic, looks)} == {0}
    looks.close()
    server.ask("DELETE", f"/{topic}")
    assert keep() > 0
    assert kept(server, topic) == expected
    with pytest.raises(drumlin.TargetRefused, match="by group 'g', not"):
        drumlin.materialize(client, topic, server.url, group="other")


def test_ids_and_documents() -> None:
    keys = [b"a", b"", b"\xff", b"base64:", "ü".encode(), id_of(b"\xff").encode()]
    assert len(set(map(id_of, keys))) == len(keys)
    assert (id_of(b"a"), id_of("ü"), id_of(b"\xff")) == ("a", "ü", "base64:_w==")
    with pytest.raises(drumlin.TargetRefused, match="id of 600 bytes"):
        id_of(b"k" * 600)
    with pytest.raises(drumlin.TargetRefused, match="b'k' has a field 'drumlin'"):
        document_of(b"k", b'{"drumlin": 1}', 0, 1)
    for version in (Version(1, 0, 0), Version(8_388_607, 67_108_863, 16_383)):
        assert Version.parse(int(version)) == version
    assert int(Version(8_388_607, 67_108_863, 16_383)) == 2**63 - 1
    with pytest.raises(drumlin.TargetRefused, match="partition 16384"):
        int(Version(1, 1, 16_384))


@pytest.mark.deep
def test_values_of_all_kinds(opened: Callable[[str], OpenSearchTarget], server: OpenSearch) -> None:
    target = opened("kinds")
    term = target.claim(3).term
    values: dict[bytes, bytes] = {
        b"object": b'{\n"a": 1.5, "b": {"c": null}}\r\n',
        b"twice": b'{"a": 1, "a": 2}',
        b"list": b"[1]",
        b"nan": b'{"a": NaN}',
        b"huge": b'{"a": 1e999}',
        b"deep": b'{"a":' * 100_000,
        b"bytes": b"\xff\n",
        b"empty": b"",
        b"\xff\x00": b"x",
    }
    target.apply(3, term, values, AT)
    found = server.documents("kinds")
    ours = {name: each.pop("drumlin") for name, each in found.items()}
    assert {each["partition"] for each in ours.values()} == {3}
    assert found["object"] == {"a": 1.5, "b": {"c": None}}
    assert found["twice"] == {"a": 2}
    for name in ("list", "nan", "huge", "deep", "empty"):
        assert (found[name], ours[name]["value"]) == ({}, values[name.encode()].decode())
    assert base64.b64decode(ours["bytes"]["bytes"]) == b"\xff\n"
    assert ours["base64:_wA="]["value"] == "x"
    with pytest.raises(drumlin.TargetRefused, match=r"'odd': mapper_parsing_exception"):
        target.apply(3, term, {b"odd": b'{"a": {"b": 1}}'}, AT._replace(offset=9))
    assert target.positions([3]) == {3: AT}


def test_an_old_owner_that_wakes_up(
    opened: Callable[[str], OpenSearchTarget], server: OpenSearch
) -> None:
    old, new = opened("owners"), opened("owners")
    assert old.claim(0) == (1, None)
    loading = old.replace(0, 1)
    loading.add([(b"a", b"1")])
    assert old.positions([0]) == {}
    loading.commit(AT)
    loading = old.replace(0, 1)
    assert new.claim(0) == (2, None)  # what was being loaded has to be loaded again
    whole = new.replace(0, 2)
    whole.add([(b"a", b"1"), (b"gone", b"1")])
    whole.commit(AT)
    new.apply(0, 2, {b"b": b"2", b"gone": None}, AT._replace(offset=7))
    with pytest.raises(Fenced, match="partition 0"):
        loading.commit(AT._replace(offset=9))
    for write in (
        lambda: old.apply(0, 1, {b"a": b"old"}, AT._replace(offset=9)),
        lambda: old.replace(0, 1),
        lambda: loading.add([(b"a", b"old")]),
    ):
        with pytest.raises(Fenced, match="partition 0"):
            write()
    assert kept(server, "owners") == {b"a": b"1", b"b": b"2"}
    assert new.positions([0]) == {0: AT._replace(offset=7)}


def test_what_an_old_owner_writes_late(
    opened: Callable[[str], OpenSearchTarget],
    server: OpenSearch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its documents are on their way while the next owner writes, and deletes, the same keys."""
    monkeypatch.setattr(opensearch_target, "_SWEEP_S", 0)
    old, new = opened("late"), opened("late")
    old.claim(0)
    old.apply(0, 1, {b"a": b"1", b"b": b"1", b"stays": b"1"}, AT)
    late: list[list[Write]] = []
    send = OpenSearchIndex.write

    def hold(index: OpenSearchIndex, writes: list[Write]) -> list[Write]:
        if index is old._index:
            late.append(writes)
            return []
        return send(index, writes)

    monkeypatch.setattr(OpenSearchIndex, "write", hold)
    assert new.claim(0) == (2, AT)
    with pytest.raises(Fenced):
        old.apply(0, 1, {b"a": b"late", b"b": b"late", b"c": b"late"}, AT._replace(offset=8))
    new.apply(0, 2, {b"a": b"2", b"b": b"2", b"c": b"2"}, AT._replace(offset=8))
    new.apply(0, 2, {b"b": None, b"c": None}, AT._replace(offset=10))
    forget_deletions(server, "late")
    refused = send(old._index, late[0])
    assert {each.id for each in refused} == {"a"}
    assert kept(server, "late").keys() == {b"a", b"b", b"c", b"stays"}
    new.apply(0, 2, {b"d": b"2"}, AT._replace(offset=11, at_end="later"))
    assert kept(server, "late") == {b"a": b"2", b"d": b"2", b"stays": b"1"}


def test_requests_without_an_answer(
    opened: Callable[[str], OpenSearchTarget],
    server: OpenSearch,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They took effect or did not, and may take effect later; no claim of others is hidden."""
    target = opened("cuts")
    assert target.claim(0) == (1, None)
    chance = random.Random(5)
    model: dict[bytes, bytes] = {}
    request = http.client.HTTPConnection.getresponse

    def cut(connection: http.client.HTTPConnection) -> http.client.HTTPResponse:
        response = request(connection)
        if chance.random() < 0.15:
            response.read()
            raise ConnectionResetError("cut")
        return response

    monkeypatch.setattr("drumlin.serving.opensearch.connection._PAUSES_S", (0,) * 50)
    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", cut)
    for number in range(40):
        changes = {
            b"%d" % chance.randrange(20): None if chance.random() < 0.3 else b"%d" % number
            for _ in range(10)
        }
        target.apply(0, 1, changes, AT._replace(offset=number))
        model |= {key: value for key, value in changes.items() if value is not None}
        for key in [key for key, value in changes.items() if value is None]:
            model.pop(key, None)
    monkeypatch.setattr(http.client.HTTPConnection, "getresponse", request)
    assert kept(server, "cuts") == model
    assert target.positions([0]) == {0: AT._replace(offset=39)}
    assert server.ask("GET", "/drumlin_positions/_doc/cuts%2F0")["_source"]["term"] > 3
    opened("cuts").claim(0)
    with pytest.raises(Fenced):
        target.apply(0, 1, {b"x": b"y"}, AT)


def test_the_same_key_in_two_partitions(
    opened: Callable[[str], OpenSearchTarget], server: OpenSearch
) -> None:
    target = opened("same")
    terms = [target.claim(each).term for each in range(2)]
    target.apply(0, terms[0], {b"k": b"0"}, AT)
    target.apply(1, terms[1], {b"k": None}, AT)
    assert kept(server, "same") == {b"k": b"0"}
    with pytest.raises(drumlin.EqualKeys, match="b'k'"):
        target.apply(1, terms[1], {b"k": b"1"}, AT)
    server.ask("PUT", "/same/_doc/mine", {"a": 1})
    with pytest.raises(drumlin.TargetRefused, match="another program for the key b'mine'"):
        target.apply(1, terms[1], {b"mine": b"1"}, AT)
    target.apply(1, terms[1], {b"mine": None}, AT)
    assert server.documents("same")["mine"] == {"a": 1}


def test_indexes_that_are_refused(
    opened: Callable[[str], OpenSearchTarget], server: OpenSearch
) -> None:
    with pytest.raises(drumlin.TargetRefused, match="must be lowercase"):
        opened("Upper")
    server.ask("PUT", "/lossy", {"settings": {"index.translog.durability": "async"}})
    with pytest.raises(drumlin.TargetRefused, match=r"'lossy' may lose documents.*'request'"):
        opened("lossy")
    mapping = {"properties": {"drumlin": {"properties": {"version": {"type": "keyword"}}}}}
    server.ask("PUT", "/mapped", {"mappings": mapping})
    with pytest.raises(drumlin.TargetRefused, match=r"'mapped'.*drumlin\.version"):
        opened("mapped")
    server.ask("PUT", "/real", {"aliases": {"other": {}}})
    with pytest.raises(drumlin.TargetRefused, match="'other' is an alias of real"):
        opened("other")
    with pytest.raises(ValueError, match=r"https://me:\.\.\.@h/x"):
        targets.open_store("opensearch+https://me:hidden@h/x", "g", None)
    with pytest.raises(OSError, match=r"OpenSearch: .*refused"):
        targets.open_store("opensearch+http://127.0.0.1:1", "g", None)


class _Answers(http.server.BaseHTTPRequestHandler):
    logins: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.logins.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.deep
def test_servers_are_trusted_by_their_certificates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(targets.VARIABLE, "hidden")
    certificates = Certificates(tmp_path / "tls")
    trusted = f"?ca={certificates.path('ca.crt')}"
    for name, options, is_trusted in (
        ("server", trusted, True),
        ("server", "", False),
        ("elsewhere", trusted, False),
        ("foreign", trusted, False),
    ):
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificates.path(f"{name}.crt"), certificates.path(f"{name}.key"))
        with http.server.HTTPServer(("127.0.0.1", 0), _Answers) as server:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, daemon=True)
            thread.start()
            to = f"opensearch+https://me@127.0.0.1:{server.server_port}{options}"
            try:
                if is_trusted:
                    targets.open_store(to, "g", None).close()
                else:
                    with pytest.raises(OSError, match="certificate"):
                        targets.open_store(to, "g", None)
            finally:
                server.shutdown()
                thread.join()
    assert _Answers.logins == [f"Basic {base64.b64encode(b'me:hidden').decode()}"]


@pytest.mark.deep
def test_deletions_that_may_have_been_missed(
    client: Client, topic: str, server: OpenSearch, serving_broker: DrumlinServer
) -> None:
    topic += "-cleaned"
    lost_tombstone.create(client, topic, tombstones_stay=False)
    drumlin.materialize(client, topic, server.url, group="g", until_end=True)
    lost_tombstone.lose(client, topic, serving_broker.data, tombstones_stay=False)
    moved = {"doc": {"at_end": lost_tombstone.of_another_machine()}}
    server.ask("POST", f"/drumlin_positions/_update/{topic}%2F0", moved)
    drumlin.materialize(client, topic, server.url, group="g", until_end=True)
    assert kept(server, topic) == LEFT


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_opensearch_is_killed(client: Client, topic: str, tmp_path: Path) -> None:
    chance = random.Random(3)
    model: dict[bytes, bytes] = {}
    stop, failures = threading.Event(), []

    def keep(to: str) -> None:
        while not stop.is_set():
            try:
                drumlin.materialize(client, topic, to, group="killed", stop=stop)
            except OSError:
                stop.wait(1)  # as whatever supervises it does
            except BaseException as error:
                failures.append(error)
                return

    with running_opensearch(tmp_path) as server:
        thread = threading.Thread(target=keep, args=[server.url])
        thread.start()
        for number in range(10):
            for _ in range(10):
                changes = {b"k%d" % chance.randrange(500): b"%d" % number for _ in range(50)}
                deleted = set(chance.sample(sorted(changes), 5))
                table = [{"key": k, "value": None if k in deleted else changes[k]} for k in changes]
                client.append(table, topic)
                model |= changes
                for key in deleted:
                    del model[key]
            threading.Event().wait(chance.random())
            server.kill()
            server.start()
        wait_until(lambda: failures or kept(server, topic) == model, "the index to have all", 120)
        stop.set()
        thread.join(60)
        assert not failures
        assert kept(server, topic) == model


@pytest.mark.deep
@pytest.mark.parametrize("kills", [50])
@pytest.mark.timeout(900)
def test_it_is_killed_at_any_moment(
    client: Client, topic: str, server: OpenSearch, serving_broker: DrumlinServer, kills: int
) -> None:
    def claims() -> int:
        ids = [f"{topic}/{each}" for each in range(3)]
        found = server.ask("POST", "/drumlin_positions/_mget", {"ids": ids})
        return sum(each["_source"]["term"] for each in found.get("docs", ()) if each.get("found"))

    model = kill_again_and_again(client, serving_broker.address, topic, server.url, claims, kills)
    assert kept(server, topic) == model
