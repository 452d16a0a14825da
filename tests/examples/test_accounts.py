"""The service's state is that of its log, whatever becomes of its disk and its process."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from drumlin import ProducerFenced
from drumlin.client.client import Client


@pytest.fixture(scope="module")
def program(pipeline: Callable[[str], ModuleType]) -> ModuleType:
    return pipeline("accounts")


class World:
    """The log, and services on it, each with the disk that it is given."""

    def __init__(self, program: ModuleType, client: Client, folder: Path, name: str) -> None:
        self.program, self._client, self.folder = program, client, folder
        self.events, self.accounts = f"{name}-events", f"{name}-accounts"

    def start(self, disk: str = "disk") -> Any:
        arguments = (self._client, self.folder / disk, self.events, self.accounts)
        return self.program.Service(*arguments)

    def replayed(self) -> dict[str, Any]:
        """What all events make of accounts that are empty."""
        table = self._client.read(self.events, isolation="read_committed", decode="utf8")
        histories: dict[str, list[Any]] = {}
        for name, value in zip(table["key"].to_pylist(), table["value"].to_pylist(), strict=True):
            histories.setdefault(name, []).append(self.program.Event(**json.loads(value)))
        evolve, empty = self.program.evolve, self.program.Account()
        return {name: reduce(evolve, history, empty) for name, history in histories.items()}


@pytest.fixture
def world(program: ModuleType, client: Client, tmp_path: Path) -> World:
    return World(program, client, tmp_path, f"w{tmp_path.name[-40:]}")


def test_commands_are_decided_on_the_state(program: ModuleType) -> None:
    account = program.evolve(program.Account(), program.Event(500))
    assert program.decide(account, program.Command("ada", "withdraw", 500)) == program.Event(-500)
    for kind, cents in (("withdraw", 501), ("deposit", 0), ("burn", 1)):
        with pytest.raises(program.Refused):
            program.decide(account, program.Command("ada", kind, cents))


def test_a_wiped_disk_is_restored(world: World, program: ModuleType) -> None:
    service = world.start()
    for number in range(20):
        service.execute(program.Command(f"account-{number % 6}", "deposit", 100 + number))
    service.execute(program.Command("account-1", "withdraw", 50))
    with pytest.raises(program.Refused, match="has"):
        service.execute(program.Command("account-1", "withdraw", 10_000))
    before = service.accounts()
    service.close()
    (world.folder / "disk").unlink()
    restored = world.start()
    assert restored.accounts() == before == world.replayed()
    assert restored.execute(program.Command("account-1", "deposit", 1)).version == 6
    restored.close()


def test_a_process_that_dies_before_its_disk_knows_catches_up(
    world: World, program: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = world.start()
    service.execute(program.Command("ada", "deposit", 5))

    def dying(*_: Any) -> None:
        raise OSError("the process has died")

    with monkeypatch.context() as patched:
        patched.setattr(program.Service, "_keep", dying)
        with pytest.raises(OSError, match="has died"):
            service.execute(program.Command("ada", "deposit", 7))
    service.close()
    later = world.start()
    assert later.accounts() == {"ada": program.Account(12, 2)} == world.replayed()
    later.close()


def test_a_copy_of_another_topic_is_none(world: World, program: ModuleType, client: Client) -> None:
    service = world.start()
    service.execute(program.Command("ada", "deposit", 5))
    service.close()
    client.delete_topic(world.accounts)
    client.delete_topic(world.events)
    anew = world.start()
    assert anew.accounts() == {}
    anew.execute(program.Command("ada", "deposit", 7))
    assert anew.accounts() == {"ada": program.Account(7, 1)}
    anew.close()


def test_no_command_holds_up_the_service(world: World, program: ModuleType) -> None:
    for line in ("deposit ada", "deposit ada ten", "deposit ada -5", ""):
        with pytest.raises(program.Refused, match="a command is"):
            program._words(line)
    service = world.start()
    service.execute(program.Command("ada", "deposit", 2**63 - 1))
    with pytest.raises(program.Refused, match="holds that much"):
        service.execute(program.Command("ada", "deposit", 1))  # which no disk could keep
    service.close()


def test_a_second_service_fences_the_first(world: World, program: ModuleType) -> None:
    first = world.start()
    first.execute(program.Command("ada", "deposit", 5))
    second = world.start("another-disk")
    with pytest.raises(ProducerFenced):
        first.execute(program.Command("ada", "withdraw", 5))
    assert second.execute(program.Command("ada", "withdraw", 5)) == program.Account(0, 2)
    assert world.replayed() == second.accounts()
    for each in (first, second):
        each.close()
