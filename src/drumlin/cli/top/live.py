"""The live picture: looks, keys and the terminal in one loop. Decides nothing itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live

from drumlin.cli.reach.broker_http import BrokerHttp
from drumlin.cli.terminal.outcomes import sentence
from drumlin.cli.top.keyboard import Keyboard, key_by_key
from drumlin.cli.top.look import take_look
from drumlin.cli.top.pace import pause_s
from drumlin.cli.top.paint import page_rows, painted
from drumlin.cli.top.rates import Looks, Picture, View
from drumlin.cli.top.screen import Screen, pressed
from drumlin.peer.broker_connections import BrokerConnections
from drumlin.peer.peer_error import PeerError
from drumlin.wire.error_codes import KafkaError


class _Display:
    """What is shown now; `changed` is set when it has to be painted again."""

    def __init__(self, screen: Screen, views: Sequence[View], console: Console) -> None:
        self.screen = screen
        self.views = views
        self.console = console
        self.picture: Picture | None = None
        self.error: str | None = None
        self.changed = asyncio.Event()
        self.resumed = asyncio.Event()
        self.resumed.set()

    def press(self, keys: Sequence[str]) -> None:
        for key in keys:
            page = page_rows(self.console.height, self.picture)
            self.screen = pressed(self.screen, key, page, self.views)
        if self.screen.is_paused:
            self.resumed.clear()
        else:
            self.resumed.set()
        self.changed.set()

    def end(self) -> None:
        self.press(("escape", "escape", "q") if self.screen.is_typing else ("q",))


async def live(
    connections: BrokerConnections,
    own: Sequence[BrokerHttp],
    screen: Screen,
    views: Sequence[View],
    interval_s: float,
) -> None:
    """Show the cluster until the user quits."""
    loop = asyncio.get_running_loop()
    console = Console()
    display = _Display(screen, views, console)
    descriptor = sys.stdin.fileno()
    keyboard = Keyboard(descriptor)

    def on_keys() -> None:
        display.press(keyboard.read())

    with contextlib.ExitStack() as stack:
        stack.enter_context(key_by_key(descriptor))
        shown = stack.enter_context(Live(console=console, screen=True, auto_refresh=False))
        loop.add_reader(descriptor, on_keys)
        stack.callback(loop.remove_reader, descriptor)
        for number, act in (
            (signal.SIGWINCH, display.changed.set),
            (signal.SIGTERM, display.end),
            (signal.SIGHUP, display.end),
        ):
            loop.add_signal_handler(number, act)
            stack.callback(loop.remove_signal_handler, number)
        looking = asyncio.create_task(_look_on(connections, own, display, interval_s))
        try:
            while not display.screen.is_over:
                image = painted(
                    display.picture, display.screen, views, console.height, display.error
                )
                shown.update(image, refresh=True)
                await display.changed.wait()
                display.changed.clear()
        finally:
            looking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await looking


async def _look_on(
    connections: BrokerConnections,
    own: Sequence[BrokerHttp],
    display: _Display,
    interval_s: float,
) -> None:
    loop, looks = asyncio.get_running_loop(), Looks()
    while True:
        await display.resumed.wait()
        began_s = loop.time()
        try:
            look = await take_look(connections, own)
        except KafkaError as error:
            display.error = sentence(error)
        except (PeerError, OSError) as error:
            display.error = str(error)
        else:
            display.picture, display.error = looks.add(look), None
        display.changed.set()
        took_s = loop.time() - began_s
        await asyncio.sleep(pause_s(interval_s, took_s, has_failed=display.error is not None))
