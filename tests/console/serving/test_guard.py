"""What others can make a browser ask for: other sites, other names for this address, frames."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import ExitStack

import pytest
from starlette.types import Message, Receive, Scope, Send

from console.console_process import ConsoleProcess, Visitor
from drumlin.console.apart.processes import Apart
from drumlin.console.serving.asked import Answers
from drumlin.console.serving.guard import Guard
from rig.waiting import wait_until

_JSON = {"Content-Type": "application/json"}
CHANGES = sorted(Answers((), Apart(None)).changes)


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8404", "127.0.0.1.evil.example", "localhost.evil.example", ""],
)
@pytest.mark.parametrize("path", ["/", "/api/about", "/js/main.js"])
def test_a_name_that_was_made_to_point_here_is_refused(
    visitor: Visitor, host: str, path: str
) -> None:
    answer = visitor.ask("GET", path, headers=visitor.own_headers | {"Host": host})
    assert answer.status == 421
    assert "--allow-host" in answer.error


@pytest.mark.parametrize("host", ["127.0.0.1:8404", "localhost:1", "LOCALHOST", "[::1]:8404"])
def test_names_of_this_machine_are_served(visitor: Visitor, host: str) -> None:
    assert visitor.ask("GET", "/", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "foreign",
    [
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
        {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
    ],
)
def test_what_another_site_asks_for_is_refused(visitor: Visitor, foreign: dict[str, str]) -> None:
    everything = visitor.own_headers | foreign
    assert visitor.ask("GET", "/api/topics", headers=everything).status == 403
    assert visitor.ask("POST", "/api/login", b"{}", everything | _JSON).status == 403


def test_a_link_to_the_page_is_followed(visitor: Visitor) -> None:
    headers = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    assert visitor.ask("GET", "/", headers=headers | {"Sec-Fetch-Site": "cross-site"}).status == 200


def test_every_response_closes_the_ways_of_markup(visitor: Visitor) -> None:
    for path in ("/", "/console.css", "/js/main.js", "/api/about", "/api/topics", "/nothing"):
        headers = visitor.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_the_page_has_no_inline_script_or_style(visitor: Visitor) -> None:
    page = visitor.ask("GET", "/").body.decode()
    assert "style=" not in page
    assert "<style" not in page
    assert all('src="/js/' in each for each in page.split("<script")[1:])
    assert " on" not in page.replace(" one", "")


def test_no_path_leads_out_of_the_page(visitor: Visitor) -> None:
    for path in ("/../answers/topics.py", "/js/../../__init__.py", "/__init__.py", "/js/%2e%2e/x"):
        assert visitor.ask("GET", path).status == 404


def test_a_cookie_alone_shows_nothing(visitor: Visitor) -> None:
    """Other programs on this machine's ports are sent it as well."""
    assert visitor.ask("GET", "/api/topics", headers={"Cookie": visitor.cookie}).status == 401
    forged = {"Cookie": visitor.cookie, "X-Drumlin-Token": "é".encode().decode("latin-1")}
    assert visitor.ask("GET", "/api/topics", headers=forged).status == 401
    only_token = {"X-Drumlin-Token": visitor.token}
    assert visitor.ask("GET", "/api/topics", headers=only_token).status == 401
    assert visitor.get("topics").status == 200


def test_what_causes_work_takes_the_token_too(visitor: Visitor) -> None:
    body = json.dumps({"topic": "any", "partition": 0}).encode()
    headers = _JSON | {"Cookie": visitor.cookie}
    assert visitor.ask("POST", "/api/simulation", body, headers).status == 401
    assert visitor.ask("GET", "/api/simulation", headers=visitor.own_headers).status == 405


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("others", "status"),
    [
        ({"X-Drumlin-Token": ""}, 401),
        ({"X-Drumlin-Token": "x" * 43}, 401),
        ({"Cookie": ""}, 401),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Content-Type": "text/plain"}, 400),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 400),
        ({}, 400),  # the body says nothing
    ],
)
def test_a_change_takes_the_token_and_this_page(
    visitor: Visitor, change: str, others: dict[str, str], status: int
) -> None:
    headers = visitor.own_headers | _JSON | others
    assert visitor.ask("POST", f"/api/{change}", b"{}", headers).status == status


@pytest.mark.parametrize("change", CHANGES)
def test_no_link_changes_anything(visitor: Visitor, change: str) -> None:
    assert visitor.ask("GET", f"/api/{change}?topic=any", headers=visitor.own_headers).status == 405


def test_the_cookie_is_for_this_page_alone(open_console: ConsoleProcess) -> None:
    cookie = Visitor(open_console).login().headers["set-cookie"].lower()
    assert cookie.startswith(f"drumlin-console-{open_console.port}=")
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "domain" not in cookie


def test_a_name_that_is_allowed_is_served(login_console: ConsoleProcess) -> None:
    visitor = Visitor(login_console)
    for host, status in (("Console.Example:443", 200), ("other.example", 421)):
        assert visitor.ask("GET", "/", headers={"Host": host}).status == status


@pytest.mark.parametrize("method", ["PUT", "DELETE", "OPTIONS", "TRACE", "X" * 50])
def test_other_methods_are_refused(visitor: Visitor, method: str) -> None:
    assert visitor.ask(method, "/api/topics", headers=visitor.own_headers).status == 405


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"{}", "text/plain"),
        (b"{}", "application/x-www-form-urlencoded"),
        (b"[]", "application/json"),
        (b"{", "application/json"),
        (b"\xff", "application/json"),
        (b"[" * 10_000, "application/json"),
        (b'{"user":"' + b"x" * 20_000 + b'"}', "application/json"),
    ],
)
def test_odd_bodies_are_refused(visitor: Visitor, body: bytes, content_type: str) -> None:
    headers = visitor.own_headers | {"Content-Type": content_type}
    assert visitor.ask("POST", "/api/login", body, headers).status == 400


def test_odd_parameters_are_named(visitor: Visitor) -> None:
    good = {"topic": "any", "partition": 0}
    for name, value in (
        ("partition", -1),
        ("partition", "٣"),
        ("partition", 2**40),
        ("topic", "x" * 5_000),
        ("at", "time:x"),
        ("at", -1),
        ("at", 2**70),
        ("limit", 0),
        ("limit", 10_000),
        ("cut", 2**30),
        ("isolation", "any"),
    ):
        answer = visitor.get("records", **good | {name: value})
        assert (answer.status, repr(name) in answer.error) == (400, True), answer
    assert visitor.get("search", **good, key="zz", format="hex").status == 400
    assert visitor.get("records", **good, x="\0").status == 404  # there is no such topic


@pytest.mark.deep
def test_who_begins_logins_and_does_not_go_on_keeps_no_place(visitor: Visitor) -> None:
    beginning = b"POST /api/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n"
    beginning += b"Content-Type: application/json\r\n\r\n{"

    def status() -> int:
        return visitor.get("topics").status

    with ExitStack() as stack:
        for _ in range(64):
            sock = socket.create_connection(("127.0.0.1", visitor.port))
            stack.enter_context(sock).sendall(beginning)
        wait_until(lambda: status() == 503, "all places to be taken")
        wait_until(lambda: status() == 200, "places to be free again")


def test_who_does_not_take_a_response_keeps_no_place() -> None:
    """As the server's `send` waits for a client that reads nothing."""

    async def play() -> None:
        started = asyncio.Event()

        async def app(scope: Scope, receive: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(_: Message) -> None:
            started.set()
            await asyncio.Event().wait()

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope = {"type": "http", "method": "GET", "headers": [(b"host", b"localhost")]}
        guard = Guard(app, (), seconds=0.01)
        await asyncio.wait_for(guard(scope, receive, send), 10.0)
        assert started.is_set()

    asyncio.run(play())
