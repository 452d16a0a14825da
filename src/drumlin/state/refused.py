"""The error of a state that cannot be used as it is."""

from __future__ import annotations

from drumlin.client.errors import ClientError


class StateRefused(ClientError):
    """The changelog, or the group's offsets, are not what this state has left. Nothing was done."""
