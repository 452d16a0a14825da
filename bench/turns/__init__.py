"""The longest turn of Drumlin's event loop that any request brings about, whatever its API.

For every API that the broker advertises, in its lowest and its highest version, and for every array
in its request, that array has 40,000 elements (`--scale`): of what there is, of what there is not,
one over and over, and empty ones. Then what crowds of clients do at once, see `crowds.py`. `--rows`
chooses among the APIs and the crowds. There is no other broker to compare with.
"""

from __future__ import annotations

import contextlib
import sys
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from bench.harness import Comparison, Options
from bench.turns.broker import WatchedBroker
from bench.turns.crowds import CROWDS, Done
from bench.turns.requests import Case, cases
from bench.turns.table import print_crowds, print_results
from drumlin.broker.apis.served import SERVED
from rig.data.raw import Closed, NoAnswer

_COUNT = 40_000
_EPOCHS = 3


class Result(NamedTuple):
    """What one case brought about: the longest turn, in ms of processor time, and its place."""

    case: Case
    turn_ms: float
    place: str
    answer: str


def run(options: Options) -> list[Comparison]:
    """All APIs and crowds, or those of `options.rows`."""
    unknown = set(options.rows) - SERVED.keys() - CROWDS.keys()
    if unknown:
        raise ValueError(f"no such API or crowd: {', '.join(sorted(unknown))}")
    count = max(1, round(_COUNT * options.scale))
    apis = tuple(each for each in options.rows if each in SERVED)
    results = []
    with contextlib.closing(WatchedBroker(options.directory)) as broker:
        for case in cases(count, apis) if apis or not options.rows else ():
            result = _measured(broker, case)
            results.append(result)
            print(
                f"turns, {case}: {result.turn_ms:.1f} ms, {result.answer} {result.place}",
                file=sys.stderr,
                flush=True,
            )
        crowds = [each for each in CROWDS if each in options.rows or not options.rows]
        done = [each for name in crowds for each in _crowd(broker, name, count)]
    print_results(results)
    print_crowds(done)
    return []


def _crowd(broker: WatchedBroker, name: str, count: int) -> Iterator[Done]:
    for what in CROWDS[name](broker, count):
        done = Done(name, what, *broker.longest_turn())
        print(f"turns, {name}, {what}: {done.turn_ms:.1f} ms, {done.place}", file=sys.stderr)
        yield done


def _measured(broker: WatchedBroker, case: Case) -> Result:
    if broker.prepare(case):
        broker.longest_turn()
    answers = list(_answers(broker, case))
    turn_ms, place = broker.longest_turn()
    return Result(case, turn_ms, place, ", ".join(dict.fromkeys(answers)))


def _answers(broker: WatchedBroker, case: Case) -> Iterator[str]:
    """What the broker says each time that it is asked, in one session."""
    world = broker.world
    world.member_id = str(uuid.uuid4())
    world.is_to_create = case.api == "create_topics"
    world.session_id, world.session_epoch = 0, 0 if case.has_session else -1
    with broker.connect() as client:
        if case.needs_share_session:
            broker.open_share_session(client)
            world.session_epoch = 1
        for number in range(_EPOCHS if case.has_session else 1):
            if number:
                world.session_epoch += 1
            try:
                client.send_bytes(case.frame(world))
                answer = client.receive(case.api, case.version)
            except Closed:
                yield "closed"
                return
            except NoAnswer:
                yield "no answer"
                return
            world.session_id = getattr(answer, "session_id", 0)
            yield broker.codes_of(answer)
