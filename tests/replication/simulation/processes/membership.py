"""A process as a broker of the cluster: its session, broker epoch, registration; the controller.

It does what `registration_nodes.py`, `registration.py` and `controller_node.py` do, step by step;
each step is a transaction whose answer may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from drumlin.metadata.rules.leadership import in_next_epoch, returned, settled
from replication.simulation.processes.process import MIN_ISR
from replication.simulation.processes.rewriting import rewrite
from replication.simulation.world.znodes import Fenced, Lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from replication.simulation.processes.zookeeper_process import ZooKeeperProcess

BACKOFF_MS = 60


class Membership:
    def __init__(self, process: ZooKeeperProcess) -> None:
        self._process = process
        self._znodes = process.zookeeper.znodes
        self.broker_epoch = -1
        #: What a clean stop names: as long as it is not registered, another one may have begun.
        self.last_epoch = -1
        self.is_registered = False
        self.office_epoch: int | None = None
        #: How many elections are on their way to ZooKeeper.
        self.settling = 0

    def check(self) -> None:
        """Part of a transaction: whether we are still registered."""
        self._znodes.check_broker(self._process.node_id, self.broker_epoch)

    # -- registering -------------------------------------------------------------------------

    def _step(
        self,
        transaction: Callable[[], Any],
        answered: Callable[[Any], None],
        *,
        is_write: bool = True,
    ) -> None:
        """What is begun in one session does not go on in the next, which begins anew."""
        process, session = self._process, self._process.session
        process.submit(
            transaction,
            lambda answer: answered(answer) if process.session is session else None,
            is_write=is_write,
        )

    def _retry(self, action: Callable[[], None]) -> None:
        process, session = self._process, self._process.session
        process.after(BACKOFF_MS, lambda: action() if process.session is session else None)

    def join(self, *, is_clean: bool) -> None:
        """In the session of now; `is_clean`: nothing can be gone that this broker had."""
        self.is_registered, self.office_epoch, self.settling = False, None, 0
        self._begin_epoch(is_clean)

    def _begin_epoch(self, is_clean: bool) -> None:
        self.last_epoch = -1
        process, znodes = self._process, self._znodes
        node_id = process.node_id

        def again() -> None:
            self._retry(lambda: self._begin_epoch(is_clean))

        def look() -> tuple[int, object]:
            return znodes.broker_epochs[node_id], znodes.registered.get(node_id)

        def looked(answer: Any) -> None:
            if not isinstance(answer, tuple):
                again()
                return
            epoch, registered = answer
            if registered is None:
                process.world.at_moment("start", process, ())
                self._step(lambda: znodes.begin_broker_epoch(node_id, epoch), begun)
            elif registered is process.session:
                self._step(lambda: znodes.withdraw(node_id), lambda _: again())
            else:
                again()

        def begun(answer: Any) -> None:
            if not isinstance(answer, int):
                again()
                return
            self.broker_epoch = answer
            self.prepare(is_clean)

        self._step(look, looked, is_write=False)

    def prepare(self, is_clean: bool) -> None:
        """Records may be gone that this broker had: it is not in sync, unless nobody else is."""
        process, node_id = self._process, self._process.node_id
        if is_clean:
            self._register(is_clean)
            return

        session, found = process.session, process.found

        def done(outcome: Any) -> None:
            if process.session is not session:
                return
            if isinstance(outcome, Lost):
                self._retry(lambda: self.prepare(is_clean))
            elif isinstance(outcome, Fenced):
                self._retry(lambda: self._begin_epoch(is_clean))
            else:
                self._register(is_clean)

        rewrite(
            process,
            lambda state, alive: returned(state, node_id, found, alive, MIN_ISR),
            lambda: self._znodes.check_epoch(node_id, self.broker_epoch),
            f"{process}, unclean",
            done,
        )

    def _register(self, is_clean: bool) -> None:
        process, znodes, session = self._process, self._znodes, self._process.session
        assert session is not None

        def answered(answer: Any) -> None:
            if answer is not None:
                self._retry(lambda: self._begin_epoch(is_clean))
                return
            self.is_registered = True
            self.last_epoch = self.broker_epoch
            process.note("is registered, broker epoch {}", self.broker_epoch)
            self.advance(is_clean)

        self._step(lambda: znodes.register(session, process.node_id, self.broker_epoch), answered)

    def advance(self, is_clean: bool) -> None:
        """Where this broker leads all the same, it does so in a new leader epoch."""
        process = self._process
        if is_clean:
            process.joined()
            return

        session = process.session

        def done(outcome: Any) -> None:
            if process.session is not session:
                return
            if isinstance(outcome, (Lost, Fenced)):
                self._retry(lambda: self.advance(is_clean))
            else:
                process.joined()

        rewrite(
            process,
            lambda state, _: in_next_epoch(state, process.node_id),
            self.check,
            f"{process}, unclean",
            done,
        )

    def begin_last_epoch(self, done: Callable[[bool], None]) -> None:
        """Begin an epoch of which no other broker knows: none takes us into the ISR any more."""
        znodes, node_id = self._znodes, self._process.node_id
        self.last_epoch = -1  # until there is an answer

        def bump() -> int:
            self.check()
            return znodes.bump(node_id)

        def answered(answer: Any) -> None:
            if isinstance(answer, int):
                self.broker_epoch = self.last_epoch = answer
            done(isinstance(answer, int))

        self._process.submit(bump, answered, is_write=True)

    # -- the office ----------------------------------------------------------------------------

    def seek_office(self) -> None:
        process, session = self._process, self._process.session
        if self.office_epoch is not None or session is None or not self.is_registered:
            return

        def answered(answer: Any) -> None:
            if isinstance(answer, int) and self.office_epoch is None:
                process.note("is controller in epoch {}", answer)
                self.office_epoch = answer
                process.read_all()

        process.submit(lambda: self._znodes.take_office(session), answered, is_write=True)

    def settle(self) -> None:
        """As the controller, see that the partition is led by a broker that is alive."""
        process, office_epoch, state = self._process, self.office_epoch, self._process.state
        if office_epoch is None or state is None or self.settling:
            return
        if settled(state, process.live.epochs, MIN_ISR) == state:
            return
        self.settling += 1

        def done(outcome: Any) -> None:
            self.settling = max(self.settling - 1, 0)
            if isinstance(outcome, Fenced) and self.office_epoch == office_epoch:
                self.office_epoch = None

        rewrite(
            process,
            lambda state, alive: settled(state, alive, MIN_ISR),
            lambda: self._znodes.check_controller(office_epoch),
            f"{process}, controller in epoch {office_epoch}",
            done,
        )
