"""Strangers at a secured broker: none gets in, and none is noticed by those who are."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import random
import re
import ssl
import time
from pathlib import Path

from crash.requests import create_topic, produce, read_all
from drumlin.wire.error_codes import ErrorCode
from drumlin.wire.messages import encode_request
from fuzz.broker import Tally
from fuzz.doors import LOGINS, PASSWORD, TLS, USER, Doors
from fuzz.limits import limit_memory, resident_bytes
from fuzz.logins import WRONG, Login, Stream
from fuzz.streams import PlainStream, TlsStream
from fuzz.tls_records import NOT_TLS, first_message
from rig.data.batches import batch
from rig.data.messages import build

_MIB = 1 << 20
_CONNECTIONS = 8
_PATIENCE_S = 20.0
_PAUSE_S = 0.005
#: Who logs in again within a second is not listened to.
_AGAIN_S, _AGAIN_RATE = 1.05, 0.1
#: A probe after a frame that is cut off is never answered; others are at once, or the end comes.
_NO_ANSWER_S = 0.1
_GROWTH_MAX_BYTES = 150 * _MIB
#: In processor time; one of an honest peer's handshake takes half of one.
_TURN_MAX_MS = 20.0
_ENDS = (EOFError, ConnectionError, ssl.SSLError)
_PROBE = b"".join(encode_request("metadata", 9, 0x7FFFFF02, "s", build("metadata", 9, {})))
_LOGGED_IN = re.compile(r'\{"event": "logged in".*\}')


def fuzz_strangers(directory: Path, seed: str, seconds: float, attempts: int) -> Tally:
    """Come until there were `attempts` or the time is over; raises if anything is wrong."""
    doors = Doors(directory)
    doors.start()
    try:
        doors.make_ready()
        with doors.connect() as root:
            create_topic(root, "steady", configs={"retention.ms": "-1"})  # records of 1970
            cluster_id = root.ask("metadata", 9, topics=[]).cluster_id
        warm = _Strangers(doors, "warm", 60.0, 100, cluster_id)
        worked = asyncio.run(warm.run()).outcomes["steady"]
        limit_memory(doors.pid)
        turns_before = doors.turns.stat().st_size
        before = resident_bytes(doors.pid)
        strangers = _Strangers(doors, seed, seconds, attempts, cluster_id)
        tally = asyncio.run(strangers.run())
        doors.fail_if_ended()
        grown = resident_bytes(doors.pid) - before
        assert grown < _GROWTH_MAX_BYTES, f"{grown} bytes more than before"
        turn_ms, places = doors.longest_turn(turns_before)
        assert turn_ms < _TURN_MAX_MS, places
        _check_log(doors)
        with doors.log_in() as user:
            assert len(read_all(user, "steady")) == worked + tally.outcomes["steady"]
        doors.stop()
        doors.check_output()
    finally:
        doors.close()
    tally.outcomes["ms the longest turn"] = round(turn_ms)
    tally.outcomes["KiB more memory"] = grown >> 10
    return tally


def _check_log(doors: Doors) -> None:
    """It tells no secret, and of nobody else who was let in."""
    said = doors.said()
    for secret in _SECRETS:
        assert secret not in said.encode(), f"the log tells {secret!r}"
    found = [json.loads(each) for each in _LOGGED_IN.findall(said)]
    names = {each["principal"] for each in found}
    assert names == {f"User:{USER}"}, names


def _shapes(secret: str) -> list[bytes]:
    """A secret as it is, and in the middle of base 64."""
    coded = [base64.b64encode(b"x" * skipped + secret.encode())[4:-4] for skipped in range(3)]
    return [secret.encode(), *coded]


_SECRETS = [shape for secret in (PASSWORD, WRONG) for shape in _shapes(secret)]


class _Strangers:
    """Some who try to get in, and one user who works."""

    def __init__(
        self, doors: Doors, seed: str, seconds: float, attempts: int, cluster_id: str
    ) -> None:
        self._doors = doors
        self._rng = random.Random(seed)
        self._deadline = time.monotonic() + seconds
        self._attempts = attempts
        self._cluster_id = cluster_id.encode()
        self._contexts = _contexts(doors)
        self._tally = Tally()

    def _goes_on(self) -> bool:
        return self._tally.frames < self._attempts and time.monotonic() < self._deadline

    async def run(self) -> Tally:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(_CONNECTIONS):
                tasks.create_task(self._come())
            tasks.create_task(asyncio.to_thread(self._work))
        return self._tally

    def _work(self) -> None:
        """A user who is in is always answered."""
        with self._doors.log_in() as user:
            while self._goes_on():
                assert produce(user, "steady", batch(b"x")).error_code == ErrorCode.none
                self._tally.outcomes["steady"] += 1
                time.sleep(_PAUSE_S)  # the processor is for the others

    async def _come(self) -> None:
        try:
            while self._goes_on():
                self._doors.fail_if_ended()
                self._tally.frames += 1
                listener = self._rng.choice((*LOGINS, *TLS, "tlslogin"))
                seed = f"{self._rng.getrandbits(64)}"
                try:
                    async with asyncio.timeout(_PATIENCE_S):
                        await self._attempt(listener, seed)
                except TimeoutError:
                    raise AssertionError(f"no end at {listener}, seed {seed}") from None
        finally:
            self._deadline = 0.0

    async def _attempt(self, listener: str, seed: str) -> None:
        rng = random.Random(seed)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._doors.ports[listener])
        try:
            if rng.random() < 0.1:
                writer.write(rng.choice((rng.choice(NOT_TLS), first_message(rng))))
                await self._ends(listener, reader, writer)
                return
            if listener in TLS:
                await self._through_tls(listener, reader, writer, rng, seed)
            else:
                stream = PlainStream(reader, writer)
                await self._log_in(stream, rng, seed)
                if listener == "short" and rng.random() < _AGAIN_RATE:  # KIP-368
                    await asyncio.sleep(_AGAIN_S)
                    with contextlib.suppress(*_ENDS):
                        await Login(stream, self._doors, rng).run()
            await self._ends(listener, reader, writer)
        finally:
            writer.close()

    async def _through_tls(
        self,
        listener: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        rng: random.Random,
        seed: str,
    ) -> None:
        may_come = rng.random() < 0.5
        context = rng.choice(self._contexts[:2] if may_come else self._contexts[2:])
        rate = rng.choice((0.0, 0.0, 0.3, 0.6))
        stream = TlsStream(reader, writer, context, rng, rate)
        try:
            await stream.shake_hands()
            self._tally.outcomes["shaken hands"] += 1
        except _ENDS:
            self._tally.outcomes["no handshake"] += 1
            return
        if listener == "tlslogin":
            await self._log_in(stream, rng, seed)
            return
        is_in = await self._is_in(stream)
        self._tally.outcomes["in by TLS"] += is_in
        assert listener == "tls" or may_come or not is_in, "let in without a good certificate"

    async def _log_in(self, stream: Stream, rng: random.Random, seed: str) -> None:
        login = Login(stream, self._doors, rng)
        try:
            await login.run()
        except _ENDS:
            self._tally.outcomes["no login"] += 1
            return
        is_in = await self._is_in(stream)
        assert login.may_be_right or not is_in, f"let in without a good login, seed {seed}"
        self._tally.outcomes["logged in" if is_in else "not logged in"] += 1

    async def _is_in(self, stream: Stream) -> bool:
        """Whether a request is answered as only users are."""
        if getattr(stream, "is_altered", False):
            return False
        with contextlib.suppress(*_ENDS, TimeoutError):
            await stream.send(_PROBE)
            async with asyncio.timeout(_NO_ANSWER_S):
                while True:
                    size = int.from_bytes(await stream.receive_exactly(4), "big")
                    answer = await stream.receive_exactly(size)
                    self._check(answer)
                    if self._cluster_id in answer:
                        return True
        return False

    async def _ends(
        self, listener: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Say that this is all: the broker closes its side, having told no secret."""
        with contextlib.suppress(OSError):  # it was closed before
            writer.write_eof()
        with contextlib.suppress(ConnectionError):
            self._check(await reader.read())
        self._tally.outcomes[f"ended at {listener}"] += 1

    def _check(self, answers: bytes) -> None:
        for secret in _SECRETS:
            assert secret not in answers, f"an answer tells {secret!r}: {answers!r}"


def _contexts(doors: Doors) -> list[ssl.SSLContext]:
    """Of clients: two with a good certificate, and others without one."""
    contexts = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for name in (USER, None):
            context = doors.context()
            context.maximum_version = version
            if name is not None:
                file = doors.output.with_name(f"{name}.pem")
                file.write_text(doors.authority.issue(name).pem)
                context.load_cert_chain(file)
            contexts.append(context)
    return [contexts[0], contexts[2], contexts[1], contexts[3]]
