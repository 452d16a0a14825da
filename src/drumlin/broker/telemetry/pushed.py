"""What clients have pushed, as series, for as long as they are heard of. Pure.

Clients choose names and numbers of series, so both are bounded: clients that have series at all,
and series of each. What is over is counted, not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from drumlin.broker.telemetry.otlp import Labels, Read

SERIES_MAX: Final = 300
_TOTAL: Final = "_total"


class SeriesKey(NamedTuple):
    """A series of one client."""

    name: str
    is_counter: bool
    labels: Labels


@dataclass(slots=True)
class _Shown:
    client_id: str
    kept_until_s: float = 0.0
    series: dict[SeriesKey, float] = field(default_factory=dict)


class ClientSeries(NamedTuple):
    """The series of one client at one time."""

    client_id: str
    instance_id: str
    series: Mapping[SeriesKey, float]


class PushedMetrics:
    """The series of all clients that have any."""

    def __init__(self, chosen: re.Pattern[str], clients_max: int) -> None:
        """`chosen`, `clients_max`: which clients by their ids, and how many, have series."""
        self._chosen, self._clients_max = chosen, clients_max
        self._clients: dict[UUID, _Shown] = {}
        self.pushes = 0
        self.left_out_points = 0

    def take(
        self, instance_id: UUID, client_id: str, read: Read, now_s: float, kept_s: float
    ) -> None:
        """Take over what a client has pushed; it is kept for `kept_s`, unless more comes."""
        self.pushes += 1
        self.left_out_points += read.left_out
        shown = self._clients.get(instance_id)
        if shown is None:
            self.forget_old(now_s)
            if len(self._clients) >= self._clients_max or not self._chosen.fullmatch(client_id):
                self.left_out_points += len(read.points)
                return
            shown = self._clients[instance_id] = _Shown(client_id)
        shown.kept_until_s = now_s + kept_s
        series = shown.series
        for name, labels, value, is_counter, is_delta in read.points:
            # The name of a counter ends so, by the library; that of a gauge must not.
            key = SeriesKey(name.removesuffix(_TOTAL), is_counter, labels)
            before = series.get(key)
            if before is None and len(series) >= SERIES_MAX:
                self.left_out_points += 1
            else:
                series[key] = value + (before or 0.0) if is_delta else value

    def forget_old(self, now_s: float) -> None:
        """Forget clients that are not heard of any more."""
        for instance_id in [
            each for each, shown in self._clients.items() if shown.kept_until_s < now_s
        ]:
            del self._clients[instance_id]

    def __len__(self) -> int:
        return len(self._clients)

    def now(self) -> list[ClientSeries]:
        """All series, which nothing changes any more."""
        return [
            ClientSeries(shown.client_id, str(instance_id), dict(shown.series))
            for instance_id, shown in self._clients.items()
        ]


def by_name(
    clients: Iterable[ClientSeries],
) -> Iterator[tuple[str, bool, tuple[str, ...], list[tuple[tuple[str, ...], float]]]]:
    """Each metric: name, whether it is a counter, names of its labels, and its values."""
    found: dict[tuple[str, bool], list[tuple[ClientSeries, Labels, float]]] = {}
    for client in clients:
        for key, value in client.series.items():
            found.setdefault((key.name, key.is_counter), []).append((client, key.labels, value))
    for (name, is_counter), rows in sorted(found.items()):
        own = sorted({label for _, labels, _ in rows for label, _ in labels})
        values = []
        for client, labels, value in rows:
            known = dict(labels)
            texts = (client.client_id, client.instance_id, *(known.get(each, "") for each in own))
            values.append((texts, value))
        yield name, is_counter, ("client_id", "client_instance_id", *own), values
