"""Keyed state of a Python process, stored in a compacted topic.

A `processor` reads a topic as a member of a consumer group, and commits its state changes, output
and offsets in one transaction. Another process must be able to restore every committed change from
the changelog.
"""

from __future__ import annotations

from drumlin.client.needs_arrow import NO_ARROW, PACKAGES, has_arrow

if has_arrow():
    from drumlin.state.disk_store import StoreFailed
    from drumlin.state.factory import processor
    from drumlin.state.keyed_state import KeyedState
    from drumlin.state.processor import Processor
    from drumlin.state.refused import StateRefused
    from drumlin.state.replay import PastState, replay
    from drumlin.state.stores import now_ms as wall_clock
    from drumlin.state.timing.times import Timers, Window, Windows

__all__ = [
    "KeyedState",
    "PastState",
    "Processor",
    "StateRefused",
    "StoreFailed",
    "Timers",
    "Window",
    "Windows",
    "processor",
    "replay",
    "wall_clock",
]

if not has_arrow():  # the format of changelogs can be known all the same

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ModuleNotFoundError(NO_ARROW, name=PACKAGES[-1])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
