"""Assignors: pure functions from subscriptions to a target assignment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from drumlin.coordination.groups.consumer.assignors.assignee import Assignee, Assignor
from drumlin.coordination.groups.consumer.assignors.contiguous import assign_ranges
from drumlin.coordination.groups.consumer.assignors.uniform import assign_uniformly

#: Assignors by their names in requests and in the configuration.
ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}

__all__ = ["ASSIGNORS", "Assignee", "Assignor"]
