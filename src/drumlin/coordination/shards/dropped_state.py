"""Frees state whose coordinator has moved, piece by piece: it may be large.

It gets no requests any more, so there is no hurry.
"""

from __future__ import annotations

from typing import Any

from drumlin.turns import give_way


async def forget(*collections: list[Any] | dict[Any, Any]) -> None:
    """Empty the containers item by item, as each item may be large."""
    for each in collections:
        while each:
            if isinstance(each, list):
                each.pop()
            else:
                each.popitem()
            await give_way()
