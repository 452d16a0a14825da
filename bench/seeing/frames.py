"""How smoothly the console's list of 10,000 topics scrolls, in a real Chromium without a screen."""

from __future__ import annotations

import contextlib
import shutil
import sys
from collections.abc import Callable, Iterator
from typing import Any, Final

from playwright.sync_api import Page, Route, sync_playwright

from bench.brokers import drumlin
from bench.harness import Comparison, Metric, Options
from console.console_process import ConsoleProcess

_TOPICS: Final = 10_000
_FRAMES: Final = 400
#: How far each frame moves: a wheel, a fling, a bar that is dragged.
_PIXELS: Final = {"wheel": 40, "fling": 400, "dragged bar": 6000}
_LOOKS: Final = 8
_LOOK_MS: Final = 700
#: 60 frames a second, and what clocks differ by.
_FRAME_MS: Final = 17.0
_LONG_TASK_MS: Final = 50.0  # from which on Chromium tells of tasks
_METRICS: Final = (
    Metric("median", "ms a frame", False, limit=_FRAME_MS),
    Metric("p99", "ms a frame, p99", False, limit=_FRAME_MS),
    Metric("task", "ms, the longest task of a new look", False, limit=_LONG_TASK_MS),
)
_SCROLL: Final = """([pixels, frames]) => new Promise((done) => {
  const list = document.querySelector(".list .scroller"), found = [];
  let last = null, way = 1;
  list.scrollTop = 0;
  const step = (now) => {
    if (last !== null) found.push(now - last);
    last = now;
    if (found.length >= frames) return done(found);
    if (list.scrollTop + list.clientHeight >= list.scrollHeight - 1) way = -1;
    if (list.scrollTop <= 0) way = 1;
    list.scrollTop += way * pixels;
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})"""
_LOOK: Final = """async ([looks, ms]) => {
  const found = [0];
  new PerformanceObserver((list) => list.getEntries().forEach((each) => found.push(each.duration)))
    .observe({ entryTypes: ["longtask"] });
  for (let look = 0; look < looks; look++) {
    document.dispatchEvent(new KeyboardEvent("keydown", { key: "r", bubbles: true }));
    await new Promise((after) => setTimeout(after, ms));
  }
  return Math.max(...found);
}"""


def frames(options: Options) -> list[Comparison]:
    """The topics' page, with numbers that change at each look."""
    rows: list[Comparison] = []
    with _page(options) as page:
        for name, pixels in _PIXELS.items():
            rounds: dict[str, list[float]] = {each.name: [] for each in _METRICS}
            for _ in range(options.rounds):
                taken = sorted(page.evaluate(_SCROLL, [pixels, _FRAMES]))
                rounds["median"].append(taken[len(taken) // 2])
                rounds["p99"].append(taken[len(taken) * 99 // 100])
                rounds["task"].append(page.evaluate(_LOOK, [_LOOKS, _LOOK_MS]))
            print(f"seeing, frames, {name}: {rounds}", file=sys.stderr, flush=True)
            nothing = [0.0] * options.rounds
            rows += [
                Comparison(
                    "seeing", f"{_TOPICS:,} topics, {name}", each, "Drumlin", "-", found, nothing
                )
                for each in _METRICS
                for found in (rounds[each.name],)
            ]
    return rows


def _chromium() -> str:
    for name in ("chromium-headless-shell", "chromium", "google-chrome"):
        if program := shutil.which(name):
            return program
    raise RuntimeError("no Chromium: apt-get install chromium-headless-shell")


@contextlib.contextmanager
def _page(options: Options) -> Iterator[Page]:
    with drumlin(options, {}) as broker:
        process = ConsoleProcess(options.directory, "--bootstrap", broker.address)
        with contextlib.closing(process), sync_playwright() as playwright:
            process.start()
            browser = playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.route("**/api/topics*", _answering())
            page.goto(f"{process.url}#/topics")
            page.wait_for_selector(".list .rows a")
            yield page
            browser.close()


def _answering() -> Callable[[Route], None]:
    """Answers with so many topics, whose ends are others each time."""
    looks = iter(range(1, sys.maxsize))
    same: dict[str, Any] = {"is_internal": False, "partitions": 3, "replicas": 3, "offsets": 123456}
    same |= {"under_replicated": 0, "offline": 0, "size_bytes": 123456789}

    def answer(route: Route) -> None:
        look = next(looks)
        rows = [
            {**same, "name": f"team-{each % 40}.topic-{each:05}", "end_offsets": each * look}
            for each in range(_TOPICS)
        ]
        route.fulfill(json={"topics": rows, "not_shown": 0})

    return answer


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {"frames": frames}
