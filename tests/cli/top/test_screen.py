"""What keys make of the screen of `drumlin top`, and which rows it shows."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from rich.console import Console

from drumlin.cli.top.keyboard import keys_in
from drumlin.cli.top.paint import painted
from drumlin.cli.top.rates import Picture, View
from drumlin.cli.top.screen import Screen, pressed, shown_rows


def row(name: str, rate: float | None, **how: Any) -> dict[str, Any]:
    known = {"partitions": 1, "bytes_in_per_s": None, "size_bytes": 2048}
    return {
        **known,
        "topic": name,
        "records_in_per_s": rate,
        "under_replicated": 0,
        "offline": 0,
        "is_internal": name.startswith("__"),
        **how,
    }


TOTALS = {
    "brokers": 1,
    "topics": 3,
    "partitions": 3,
    "groups": 0,
    "lag": 0,
    "records_in_per_s": 1234.0,
    "bytes_in_per_s": 2048.0,
    "bytes_out_per_s": None,
    "offline": 0,
    "under_replicated": 0,
    "offline_log_dirs": 0,
    "silent_brokers": [],
}
PICTURE = Picture(
    2.0,
    "an-id",
    TOTALS,
    [row("slow", 1.0), row("fast", 10.0), row("new", None), row("__own", 5.0)],
    [],
    [],
    [],
)


def after(*keys: str, screen: Screen | None = None) -> Screen:
    screen = screen or Screen()
    for key in keys:
        screen = pressed(screen, key, 10)
    return screen


def names(screen: Screen) -> list[str]:
    return [each["topic"] for each in shown_rows(PICTURE, screen)]


def test_order() -> None:
    assert names(Screen()) == ["fast", "slow", "new"]
    assert names(after("r")) == ["slow", "fast", "new"]
    assert names(after("i")) == ["fast", "__own", "slow", "new"]
    by_name = after("S", "S")
    assert (by_name.sort, by_name.is_descending) == ("topic", False)
    assert names(by_name) == ["fast", "new", "slow"]
    assert after("s", "S").sort == Screen().sort


def test_filters() -> None:
    typing = after("/", "S", "l")
    assert (typing.is_typing, typing.pattern) == (True, "Sl")
    assert names(typing) == ["slow"]
    assert after("/", "q").is_over is False  # a letter of the pattern
    entered = after("enter", screen=typing)
    assert (entered.is_typing, names(entered)) == (False, ["slow"])
    assert names(after("escape", screen=entered)) == ["fast", "slow", "new"]
    assert after("/", *"jk").pattern == "jk"
    assert after("/", "a", "b", "backspace").pattern == "a"
    assert names(after("/", *"?ew")) == ["new"]
    assert len(after("/", *"x" * 500).pattern) == 100


def test_views_and_scrolling() -> None:
    assert after("3").view is View.GROUPS
    assert after("3").sort == "lag"
    assert after("tab").view is View.PARTITIONS
    assert after("backtab").view is View.CLEANER
    without = [each for each in View if each is not View.CLEANER]
    assert pressed(Screen(), "backtab", 10, without).view is View.BROKERS
    assert pressed(Screen(), "5", 10, without) == Screen()
    assert after("down", "pagedown").first_row == 11
    assert after("up").first_row == 0
    assert after("j", "j", "k").first_row == 1
    assert after("pagedown", "home").first_row == 0
    assert after("pagedown", "2").first_row == 0


def test_pause_help_and_end() -> None:
    assert after(" ").is_paused
    assert not after("p", "p").is_paused
    assert after("?").shows_help
    assert after("q").is_over
    assert after("x", "€", "9", "0") == Screen()


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("q", ["q"]),
        ("\x1b[A\x1b[B", ["up", "down"]),
        ("\x1bOA", ["up"]),
        ("\x1b[5~x", ["pageup", "x"]),
        ("\x1b[Z\t", ["backtab", "tab"]),
        ("\x1b", ["escape"]),
        ("jk", ["j", "k"]),
        ("\x1b[200~", []),  # unknown
        ("\x1b[", []),  # cut off
        ("\r\x7f", ["enter", "backspace"]),
    ],
)
def test_keys(text: str, keys: list[str]) -> None:
    assert [*keys_in(text)] == keys


def shown(screen: Screen, picture: Picture | None = PICTURE, **how: Any) -> str:
    console = Console(width=120, height=20, force_terminal=False)
    with console.capture() as captured:
        console.print(painted(picture, screen, [*View], 20, **how))
    return captured.get()


def test_what_is_painted() -> None:
    text = shown(Screen())
    assert (
        "an-id  1 broker, 3 topics, 3 partitions, 0 groups;  1,234 records/s, 2.0 KiB/s in" in text
    )
    assert "out" not in text.splitlines()[0]
    reading = dataclasses.replace(PICTURE, totals=TOTALS | {"bytes_out_per_s": 4096.0})
    assert "2.0 KiB/s in, 4.0 KiB/s out, lag 0" in shown(Screen(), reading)
    assert "all replicas are in sync" in text
    assert "records in/s▼" in text
    assert text.index("fast") < text.index("slow")
    assert "1 of 3" in text
    hung = dataclasses.replace(PICTURE, totals=TOTALS | {"silent_brokers": [2, 3]})
    assert "no answer from brokers 2, 3" in shown(Screen(), hung)
    assert "in sync" not in shown(Screen(), hung)
    assert "broker is gone" in shown(Screen(), error="broker is gone")
    assert "looking" in shown(Screen(), None)
    assert "another view" in shown(after("?"))
    assert "filter: ab" in shown(after("/", "a", "b"))
    assert "PAUSED" in shown(after("p"))


def test_names_cannot_command_the_terminal() -> None:
    hostile = Picture(2.0, "id", TOTALS, [row("\x1b[2J\x07[red]evil", 1.0)], [], [], [])
    text = shown(Screen(), hostile)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "[red]evil" in text


def test_only_the_rows_that_fit_are_painted() -> None:
    many = Picture(
        2.0, "id", TOTALS, [row(f"t{n:05}", float(n)) for n in range(10_000)], [], [], []
    )
    text = shown(Screen(), many)
    assert "1 of 10,000" in text
    assert text.count("t0") + text.count("t1") <= 20 + 2
    last = shown(Screen(first_row=1_000_000), many)
    assert "t00000" in last  # not beyond the end
