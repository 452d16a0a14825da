"""What is asked while a request is under way goes together into the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from drumlin.together import Together


class Asked:
    """Requests, answered when the test lets them be."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, list[int]]] = []
        self.may_answer = asyncio.Event()

    async def send(self, lane: str, items: Sequence[int]) -> list[int | Exception]:
        self.requests.append((lane, list(items)))
        await self.may_answer.wait()
        return [ValueError(each) if each < 0 else 2 * each for each in items]


def test_one_request_of_a_lane_is_under_way() -> None:
    async def main() -> None:
        asked = Asked()
        together = Together(asked.send)
        first = [together.ask("a", 1), together.ask("a", 2), together.ask("b", 3)]
        await asyncio.sleep(0)
        later = [together.ask("a", 4), together.ask("a", 5)]
        await asyncio.sleep(0)
        assert asked.requests == [("a", [1, 2]), ("b", [3])]
        asked.may_answer.set()
        assert await asyncio.gather(*first, *later) == [2, 4, 6, 8, 10]
        assert asked.requests[2:] == [("a", [4, 5])]

    asyncio.run(main())


def test_what_is_said_of_one_item_is_told_to_it_alone() -> None:
    async def main() -> None:
        asked = Asked()
        asked.may_answer.set()
        together = Together(asked.send)
        fine, failed = together.ask("a", 1), together.ask("a", -1)
        await together.settle()
        assert fine.result() == 2
        with pytest.raises(ValueError, match="-1"):
            await failed

    asyncio.run(main())


def test_who_waits_at_the_end_is_told_so() -> None:
    async def main() -> None:
        asked = Asked()
        together = Together(asked.send, closed=lambda: OSError("the end"))
        under_way = together.ask("a", 1)
        await asyncio.sleep(0)
        waiting = together.ask("a", 2)
        await together.close()
        for each in (under_way, waiting):
            with pytest.raises(OSError, match="the end"):
                await each

    asyncio.run(main())
