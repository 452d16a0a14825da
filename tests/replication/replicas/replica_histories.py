"""What happens to three replicas at random: appends, cleanings, fetches, new leaders, absences."""

from __future__ import annotations

from functools import partial
from random import Random

from replication.replicas.real_replicas import NODES, RETENTION_MS, Replicas

#: What happens, and how often.
_WHAT = {
    "append": 25,
    "end_transaction": 10,
    "clean": 20,
    "lead": 5,
    "leave": 5,
    "return": 3,
    "fetch": 32,
}


def happens(replicas: Replicas, source: Random) -> None:
    (what,) = source.choices(list(_WHAT), list(_WHAT.values()))
    node = source.choice(NODES)
    if what in ("append", "end_transaction"):
        getattr(replicas, what)()
    elif what == "clean":
        replicas.commit()
        replicas.clean(node)
        replicas.clock.advance_ms(RETENTION_MS)
    elif what == "lead" and node in replicas.state.isr:
        replicas.lead(node)
    elif what == "return" and node in replicas.away:
        if source.random() < 0.2:
            replicas.lose_tail(node, source.randrange(replicas.log(node).log_end_offset + 1))
        elif source.random() < 0.5:
            replicas.restart(node, is_clean=source.random() < 0.5)
        replicas.come_back(node)
    elif what == "leave" and node in replicas.followed:
        replicas.leave(node)
    elif what == "fetch" and node in replicas.followed:
        cleans = partial(replicas.clean, replicas.state.leader)
        meanwhile = cleans if source.random() < 0.2 else None
        replicas.fetch(node, source.choice((100, 300, 1000)), meanwhile)
