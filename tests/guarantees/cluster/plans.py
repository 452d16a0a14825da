"""What is to be done to a cluster, and when: a plan by a seed. Pure.

Whom it hits is said by a role; who has the role is found out when it is time.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

#: Who is hit: a leader of some of the data, the controller, any broker.
ROLES: Final = ("leader", "leader", "controller", "any")

#: Faults, and how often each is chosen.
FAULTS: Final = {
    "kill": 5,
    "pause": 3,
    "stop": 2,
    "cut_peers": 2,
    "cut_in": 2,
    "cut_out": 2,
    "cut_pair": 2,
    "cut_zookeeper": 3,
    "cut_to_zookeeper": 1,
    "cut_from_zookeeper": 1,
    "isolate": 2,
    "kill_zookeeper": 1,
    "kill_all": 1,
    "power_cut": 1,
    "replace_disk": 2,
    "restore_copy": 1,
    "starve": 1,
    "roll": 1,
    "fill_disk": 1,
    "fail_disk": 2,
    "flap_disk": 2,
    "shift_clock": 2,
}
_LASTS_S: Final = (0.0, 0.5, 2.0, 5.0, 9.0)


@dataclass(frozen=True)
class Step:
    """A fault after a pause, which lasts for some time; maybe with another one in the midst."""

    fault: str
    role: str
    pause_s: float
    lasts_s: float
    #: Whether connections that were held up break in the end.
    breaks: bool = False
    #: What happens to another broker meanwhile.
    also: str | None = None

    def __str__(self) -> str:
        also = f", and {self.also}" if self.also else ""
        return f"{self.fault} ({self.role}{also}) for {self.lasts_s} s"


def plan(
    seed: str,
    gap_s: tuple[float, float],
    first: Sequence[Step] = (),
    faults: Sequence[str] = tuple(FAULTS),
) -> Iterator[Step]:
    """Steps without an end, the same for the same seed."""
    yield from first
    chance = random.Random(f"{seed} plan")
    weights = [FAULTS[each] for each in faults]
    while True:
        fault, also = chance.choices(faults, weights, k=2)
        yield Step(
            fault,
            chance.choice(ROLES),
            chance.uniform(*gap_s),
            chance.choice(_LASTS_S),
            breaks=chance.random() < 0.5,
            also=also if chance.random() < 0.25 and {fault, also} <= TOGETHER else None,
        )


#: Those that may happen at once: they concern one broker, or a network.
TOGETHER: Final = FAULTS.keys() - {
    "kill_all",
    "power_cut",
    "restore_copy",
    "roll",
    "kill_zookeeper",
}

#: For short runs: a leader dies, and another one is cut from ZooKeeper until its session has ended.
FIRST: Final = (
    Step("kill", "leader", 1.0, 1.0),
    Step("cut_zookeeper", "leader", 1.0, 5.0, breaks=True),
)
