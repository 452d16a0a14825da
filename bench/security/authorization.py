"""What rights cost the fast ways: Drumlin with 10,000 ACLs beside itself without any."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench import fetch, produce
from bench.brokers import Broker
from bench.dial import Dial
from bench.harness import Comparison, Metric, Options, compare
from bench.load import GENERATOR
from rig.brokers.secured_drumlin import SecuredDrumlin

_ACLS = 10_000
_ACLS_OF_REQUEST = 500
_GOAL = 1.03
_TOPIC, _READ, _WRITE, _DESCRIBE, _ALLOW, _LITERAL, _PREFIXED = 2, 3, 4, 8, 3, 3, 4
_CREATE_ACLS = 3
_CPU = Metric("cpu", "broker CPU µs/request", higher_is_better=False, target=_GOAL)


class _UserBroker(Broker):
    """A broker whose loads come from a user who has logged in."""

    def __init__(self, name: str, server: SecuredDrumlin) -> None:
        super().__init__(name, server)
        self._server = server

    @property
    def dial(self) -> Dial:
        return lambda: self._server.login("alice").socket


@contextlib.contextmanager
def _both(options: Options) -> Iterator[tuple[Broker, Broker]]:
    with contextlib.ExitStack() as stack:

        def start(name: str, settings: dict[str, str]) -> _UserBroker:
            folder = Path(tempfile.mkdtemp(dir=options.directory))
            server = SecuredDrumlin(folder, settings)
            stack.enter_context(contextlib.closing(server))
            server.start()
            return _UserBroker(name, server)

        ours = start("with ACLs", {})
        _create_acls(ours)
        yield ours, start("without", {"authorizer.class.name": "", "super.users": ""})


def _create_acls(broker: Broker) -> None:
    """Rights of alice on the topics of the benchmark, and of many others on theirs."""
    wanted = [("bench-", _PREFIXED, "User:alice", each) for each in (_READ, _WRITE, _DESCRIBE)]
    for number in range(_ACLS - len(wanted)):
        pattern = _PREFIXED if number % 2 else _LITERAL
        name = f"{'bench-' if number % 3 == 0 else 'team-'}{number}"
        wanted.append((name, pattern, f"User:user-{number % 500}", _READ))
    for first in range(0, len(wanted), _ACLS_OF_REQUEST):
        creations = [
            {
                "resource_type": _TOPIC,
                "resource_name": name,
                "resource_pattern_type": pattern,
                "principal": who,
                "host": "*",
                "operation": right,
                "permission_type": _ALLOW,
            }
            for name, pattern, who, right in wanted[first : first + _ACLS_OF_REQUEST]
        ]
        answer = broker.ask("create_acls", _CREATE_ACLS, creations=creations)
        if any(each.error_code for each in answer.results):
            raise RuntimeError(f"{broker.name} does not take the ACLs: {answer.results[0]}")


def _produce(options: Options) -> list[Comparison]:
    scenario = produce.Scenario("300 B", 300, None, 16, 1.0)
    with _both(options) as brokers:
        sides = {
            each.name: produce.per_request(produce.round_of(each, scenario, options), 300)
            for each in brokers
        }
        metrics = (Metric("rate", "requests/s"), _CPU, GENERATOR)
        return compare("security", f"produce 300 B, {_ACLS:,} ACLs", metrics, sides, options)


def _fetch(options: Options) -> list[Comparison]:
    size = 64 << 10
    scenario = fetch.Scenario("64 KiB", size, 5, 1.0)
    with _both(options) as brokers, fetch.sides(brokers, scenario, options) as found:
        sides = {name: produce.per_request(each, size) for name, each in found.items()}
        metrics = (Metric("rate", "MB/s"), _CPU, GENERATOR)
        return compare("security", f"fetch 64 KiB, {_ACLS:,} ACLs", metrics, sides, options)


ROWS: dict[str, Callable[[Options], list[Comparison]]] = {
    "acl_produce": _produce,
    "acl_fetch": _fetch,
}
