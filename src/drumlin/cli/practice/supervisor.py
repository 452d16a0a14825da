"""`drumlin cluster up`: starts all members, keeps the record, obeys commands, stops in order.

One process in the foreground: the members are its children and end with it, however it ends. It
restarts nothing by itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Final

from drumlin.cli.practice.brokers import Configuration, broker_command
from drumlin.cli.practice.control import ControlServer
from drumlin.cli.practice.member import Member, Program
from drumlin.cli.practice.plan import planned
from drumlin.cli.practice.record import ClusterRecord, MemberRecord, write_record
from drumlin.cli.practice.security import placed, security_of
from drumlin.cli.practice.zookeeper import ENVIRONMENT, until_it_serves, zookeeper_command
from drumlin.cli.terminal import output
from drumlin.cli.terminal.output import Failure
from drumlin.metadata.zookeeper.session.session import Conflict
from drumlin.securing.secured_cluster import SecuredCluster
from drumlin.zookeeper.connection import ZooKeeperFailure
from drumlin.zookeeper.nodes import UnreadableNode

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_cluster(
    directory: Path,
    count: int | None,
    port: int | None,
    configuration: Configuration,
    *,
    is_secure: bool = False,
) -> int:
    """Run a cluster until a signal stops it; returns the exit code.

    A secured cluster stays secured.

    Raises:
        Failure: the cluster could not start.
    """
    directory = directory.absolute()
    with planned(directory, count, port) as record:
        security = security_of(directory, record, configuration, is_asked_for=is_secure)
        return asyncio.run(Supervisor(directory, record, configuration, security).run())


class Supervisor:
    """Supervises the members of one cluster."""

    def __init__(
        self,
        directory: Path,
        record: ClusterRecord,
        configuration: Configuration,
        security: SecuredCluster | None,
    ) -> None:
        self._directory = directory
        self._record = record
        self._configuration = configuration
        self._security = security
        self._zookeeper = self._zookeeper_member()
        self._brokers = [self._broker_member(each) for each in record.brokers]
        self._members = {each.program.name: each for each in (self._zookeeper, *self._brokers)}
        self._control = ControlServer(directory, self._act)
        self._stop = asyncio.Event()
        self._is_stopping = False

    async def run(self) -> int:
        """Start all, wait for a signal, stop all.

        Raises:
            Failure: a member did not start.
        """
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                loop.add_signal_handler(number, self._on_signal)
        starting = asyncio.create_task(self._start())
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                await stopping
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.wait((starting,))
            await self._stop_all()
        return 0

    async def _start(self) -> None:
        await self._control.start()
        await self._zookeeper.start()
        if self._security is not None:
            await self._put_users(self._security)
        starts = [asyncio.create_task(each.start()) for each in self._brokers]
        try:
            await asyncio.gather(*starts)
        finally:
            for each in starts:
                each.cancel()
            await asyncio.wait(starts)
        print(
            f"drumlin cluster is ready on {self._record.bootstrap} ({self._directory}, "
            f"ZooKeeper on {self._record.zookeeper.address})",
            flush=True,
        )
        if self._security is not None:
            print(self._security.how_to_connect(), flush=True)

    async def _put_users(self, security: SecuredCluster) -> None:
        """
        Raises:
            Failure: ZooKeeper refuses them.
        """
        try:
            await asyncio.to_thread(security.put_users, self._record.zookeeper.address)
        except (ZooKeeperFailure, UnreadableNode, Conflict) as error:
            raise Failure(f"the users could not be made: {error}") from None

    async def _stop_all(self) -> None:
        """Stop brokers one by one, so that each hands over its leadership; then ZooKeeper."""
        self._is_stopping = True
        self._control.close()
        for member in (*self._brokers, self._zookeeper):
            try:
                await member.stop()
            except Failure as error:
                output.note(f"drumlin cluster up: {error}")
        self._write_record()

    def _on_signal(self) -> None:
        if self._stop.is_set():  # the second signal: do not wait
            self._is_stopping = True
            for member in self._members.values():
                member.kill_now()
        self._stop.set()

    async def _act(self, what: str, name: str) -> bool:
        """Run a command on a member.

        Raises:
            Failure: there is no such member, or the command failed.
        """
        member = self._members.get(name)
        if member is None:
            raise Failure(f"there is no broker {name}: they are {self._broker_names()}")
        if self._is_stopping:
            raise Failure("the cluster is stopping")
        acts = {"start": member.start, "stop": member.stop, "kill": member.kill}
        return await acts[what]()

    def _broker_names(self) -> str:
        return ", ".join(each.program.name for each in self._brokers)

    def _on_crash(self, program: Program, how: str) -> None:
        output.note(
            f"drumlin cluster up: {program.title} ended by itself ({how}), see "
            f"{program.log_file}; 'drumlin cluster start {program.name} --data {self._directory}' "
            "starts it again"
        )

    def _write_record(self) -> None:
        pids = {name: member.pid for name, member in self._members.items()}
        is_over = self._is_stopping and not any(pids.values())
        record = self._record.with_pids(None if is_over else os.getpid(), pids)
        try:
            write_record(self._directory, record)
        except OSError as error:
            output.note(f"drumlin cluster up: cluster.json is not up to date: {error}")

    # -- members ----------------------------------------------------------------------------

    def _zookeeper_member(self) -> Member:
        port = self._record.zookeeper.port

        async def ready(_: asyncio.StreamReader) -> None:
            await until_it_serves(port)

        def command() -> list[str]:
            return zookeeper_command(self._directory, port)

        log_file = self._directory / "zookeeper.log"
        return self._member(Program("zookeeper", log_file, command, ready, ENVIRONMENT))

    def _broker_member(self, broker: MemberRecord) -> Member:
        place, security = placed(self._directory, broker), self._security
        zookeeper = self._record.zookeeper.address

        async def ready(printed: asyncio.StreamReader) -> None:
            while b"ready" not in await printed.readline():
                if printed.at_eof():
                    await asyncio.Future()  # the process's end is noticed elsewhere

        def command() -> list[str]:
            number, count = int(broker.name), len(self._record.brokers)
            settings = self._configuration.of_broker(number, count)
            if security is None:
                settings["listeners"] = f"PLAINTEXT://{broker.address}"
            else:
                settings = security.of_broker(place, settings)
            file = None if security is None else security.settings
            return broker_command(number, place.data, zookeeper, settings, file)

        log_file = self._directory / f"broker-{broker.name}.log"
        return self._member(Program(broker.name, log_file, command, ready))

    def _member(self, program: Program) -> Member:
        return Member(program, self._write_record, self._on_crash)
