"""What `drumlin top` takes of a Drumlin broker's own metrics, and what it makes of two looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

Figures = Mapping[str, float]

_BUSY: Final = "drumlin_event_loop_busy_seconds_total"
_SLOW: Final = "drumlin_event_loop_slow_turns_total"
_LONGEST: Final = "drumlin_event_loop_longest_turn_seconds"
_READ: Final = "drumlin_compaction_read_bytes_total"
_CLEANINGS: Final = "drumlin_compaction_cleanings_total"
_UNCLEANABLE: Final = "drumlin_compaction_uncleanable_partitions"
_SENT: Final = "drumlin_topic_sent_bytes_total"
_ABOUT: Final = "drumlin_build_info"
_TAKEN: Final = frozenset({_BUSY, _SLOW, _LONGEST, _READ, _CLEANINGS, _UNCLEANABLE, _SENT})
#: Of the counts of slow turns, the one that users notice.
_STALL_S: Final = "0.05"


def figures_in(text: str) -> dict[str, float]:
    """The figures in an exposition: sums over all labels, of stalls those of one length.

    Of the longest turn it is the longest, if several brokers tell theirs.

    Raises:
        ValueError: the text is not an exposition of metrics.
    """
    found: dict[str, float] = {}
    for sample in _samples(text, _TAKEN):
        if sample.name == _SLOW and sample.labels.get("longer_than") != _STALL_S:
            continue
        before = found.get(sample.name, 0.0)
        is_longest = sample.name == _LONGEST
        found[sample.name] = max(before, sample.value) if is_longest else before + sample.value
    return found


def sent_in(text: str) -> dict[str, float]:
    """The bytes that were sent to consumers, by topic. Topics without metrics are not in there.

    Raises:
        ValueError: the text is not an exposition of metrics.
    """
    found: dict[str, float] = {}
    for sample in _samples(text, frozenset({_SENT})):
        topic = sample.labels.get("topic")
        if topic:  # which several brokers at one address tell
            found[topic] = found.get(topic, 0.0) + sample.value
    return found


def brokers_in(text: str) -> frozenset[str]:
    """The ids of the brokers whose metrics these are; older versions do not tell.

    Raises:
        ValueError: the text is not an exposition of metrics.
    """
    samples = _samples(text, frozenset({_ABOUT}))
    return frozenset(each.labels["broker_id"] for each in samples if "broker_id" in each.labels)


def _samples(text: str, names: frozenset[str]) -> Iterator[Sample]:
    wanted = (line for line in text.split("\n") if line.startswith(tuple(names)))
    for family in text_string_to_metric_families("\n".join(wanted) + "\n"):
        yield from family.samples


def own_row(where: str, before: Figures, now: Figures, seconds: float) -> dict[str, Any]:
    """A broker's row: what it does, by what its counters have gained."""

    def rate(name: str) -> float | None:
        if name not in before or name not in now or now[name] < before[name] or seconds <= 0:
            return None
        return (now[name] - before[name]) / seconds

    longest_s = now.get(_LONGEST)
    uncleanable = now.get(_UNCLEANABLE)
    return {
        "http": where,
        "busy_ratio": rate(_BUSY),
        "stalls_per_s": rate(_SLOW),
        "longest_turn_ms": None if longest_s is None else round(longest_s * 1000),
        "bytes_out_per_s": rate(_SENT),
        "cleaned_bytes_per_s": rate(_READ),
        "cleanings_per_s": rate(_CLEANINGS),
        "uncleanable": None if uncleanable is None else round(uncleanable),
    }
