"""A list of 10,000 topics: what has to be drawn again as it moves."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from console.console_process import ConsoleProcess
from console.page.conftest import OpenPage

pytestmark = [pytest.mark.deep, pytest.mark.filterwarnings("default::ResourceWarning")]

_ROW = 30
_COLUMNS = 7
#: Scrolls, and counts the texts that change and the rows that move until the next frame is drawn.
_SCROLL = """(pixels) => new Promise((done) => {
  const list = document.querySelector(".list .rows");
  const watch = new MutationObserver(() => {});
  watch.observe(list, { subtree: true, childList: true, characterData: true });
  document.querySelector(".list .scroller").scrollTop += pixels;
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const seen = watch.takeRecords();
    done([seen.filter(({ type }) => type === "characterData").length,
      seen.filter(({ addedNodes }) => addedNodes.length).length]);
  }));
})"""


@pytest.fixture
def page(open_console: ConsoleProcess, open_page: OpenPage) -> Page:
    row = {"is_internal": False, "partitions": 1, "replicas": 1, "under_replicated": 0}
    row |= {"offline": 0, "end_offsets": 1, "size_bytes": 1}
    rows = [{"name": f"topic-{i:05}", **row, "offsets": i} for i in range(10_000)]
    page = open_page(open_console)
    page.route("**/api/topics*", lambda route: route.fulfill(json={"topics": rows, "not_shown": 0}))
    page.evaluate("() => { location.hash = '#/topics'; }")
    expect(page.get_by_role("table", name="Topics")).to_have_attribute("aria-rowcount", "10001")
    page.evaluate(_SCROLL, 5000 * _ROW)
    return page


def _names(page: Page) -> list[str]:
    return page.locator(".list .rows .row:not([hidden]) a").all_inner_texts()


def test_a_row_in_sight_is_left_alone(page: Page) -> None:
    for rows in (1, 3, -2, -1):
        texts, moved = page.evaluate(_SCROLL, rows * _ROW)
        assert texts <= abs(rows) * _COLUMNS
        assert moved <= abs(rows)
        names = _names(page)
        assert names == sorted(names), "they are in their order for those who hear them"
    for pixels in (400 * _ROW, 1_000_000, -1_000_000):
        page.evaluate(_SCROLL, pixels)
        names = _names(page)
        assert names == sorted(names)
        assert len(set(names)) == len(names) < 60


def test_the_focus_moves_with_its_row(page: Page) -> None:
    name = _names(page)[10]
    page.get_by_role("link", name=name).focus()
    page.evaluate(_SCROLL, 2 * _ROW)
    expect(page.get_by_role("link", name=name)).to_be_focused()
