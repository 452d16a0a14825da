"""Frees state whose coordinator has moved, piece by piece, as it may be large.

The state gets no more requests, so there is no hurry.
"""

from __future__ import annotations

from typing import Any

from drumlin.turns import give_way


async def forget(*collections: list[Any] | dict[Any, Any]) -> None:
    """Remove the items of these containers one by one, as an item may be large."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            await give_way()
