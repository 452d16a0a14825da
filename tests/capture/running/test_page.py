"""The ten lines of docs/capture.md, run as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from rig.documents.walkthrough import DOCUMENTED, blocks, commands
from rig.servers.postgres import Postgres, running_postgres
from rig.waiting import wait_until

PAGE = Path(__file__).parents[3] / "docs" / "capture.md"


@pytest.fixture
def server() -> Iterator[Postgres]:
    """One of its own: the lines make a role and a slot."""
    with running_postgres() as server:
        yield server


def test_the_ten_lines(server: Postgres, address: str, tmp_path: Path) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    with psycopg.connect(server.url("shop")) as connection:
        connection.execute("CREATE TABLE item (id int PRIMARY KEY, name text)")
        connection.execute("INSERT INTO item VALUES (1, 'chair')")
    places = f"{Path(sys.executable).parent}{os.pathsep}{server.programs}"
    environment = {
        **os.environ,
        "PATH": f"{places}{os.pathsep}{os.environ['PATH']}",
        "DRUMLIN_BOOTSTRAP": address,
        "PGHOST": "127.0.0.1",
        "PGPORT": str(server.port),
        "PGUSER": "admin",
        "PGDATABASE": "postgres",
    }

    def run(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60
        )

    page = next(each.text for each in blocks(PAGE) if each.language == "console")
    assert DOCUMENTED not in page
    captures: list[subprocess.Popen[bytes]] = []
    told = {}
    try:
        for text, _ in commands(page.replace("@localhost/", f"@127.0.0.1:{server.port}/")):
            if text.startswith("pip "):
                continue
            if "--prefix" in text:  # which goes on
                arguments = ["sh", "-c", f"exec {text}"]
                captures.append(subprocess.Popen(arguments, env=environment, cwd=tmp_path))
                continue
            if captures:
                wait_until(lambda said=text: run(said).returncode == 0, text)
            done = run(text)
            assert done.returncode == 0, f"{text}\n{done.stderr}"
            told[text.split("#")[0].strip()] = done.stdout
        topic = "drumlin snapshot shop.public.item"
        wait_until(lambda: '{"id":1,"name":"chair"}' in run(topic).stdout, "the row")
    finally:
        for each in captures:
            each.terminate()
            each.wait(30)
    assert len(captures) == 1
    (status,) = (told[each] for each in told if " status " in each)
    assert status.split("\t")[:2] == ["capture", "stream"]
