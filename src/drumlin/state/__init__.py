"""Keyed state of a Python process, whose memory is a compacted topic.

`processor` reads a topic as a member of a group. What it changes in the state, what it writes, and
how far it has read become visible in one transaction, or not at all. It must never hold a change
that another process could not read again from the changelog.
"""

from __future__ import annotations

from drumlin.client.needs_arrow import needing_arrow

with needing_arrow():
    from drumlin.state.keyed_state import KeyedState
    from drumlin.state.processor import Processor, processor
    from drumlin.state.refused import StateRefused

__all__ = ["KeyedState", "Processor", "StateRefused", "processor"]
