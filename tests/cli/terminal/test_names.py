"""Which names a pattern means."""

from __future__ import annotations

import pytest

from drumlin.cli.terminal.names import chosen
from drumlin.cli.terminal.output import Failure

EXISTING = ("_a", "a", "ab", "__consumer_offsets", "__transaction_state", "[x]")


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["*"], ["[x]", "_a", "a", "ab"]),
        (["a*", "ab", "a"], ["a", "ab"]),
        (["_*"], ["_a"]),
        (["__c*"], ["__consumer_offsets"]),
        (["__transaction_state"], ["__transaction_state"]),
        (["[x]"], ["[x]"]),
    ],
)
def test_internal_topics_are_meant_by_their_names_only(wanted: list[str], names: list[str]) -> None:
    """Or `topics delete '*'` would take along what groups have committed."""
    assert chosen("topic", wanted, EXISTING) == names


@pytest.mark.parametrize("wanted", ["b*", "b", "_consumer*"])
def test_what_means_nothing_is_refused(wanted: str) -> None:
    with pytest.raises(Failure):
        chosen("topic", [wanted], EXISTING)
