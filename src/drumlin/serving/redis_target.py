"""Keys in Redis: each row is a string, whose Redis key is a prefix and the record's key.

Each partition also has a hash with position and term, `drumlin:PREFIX:PARTITION`, and a set of the
keys that came from it. Each write is one script, which Redis runs atomically, and which checks the
term before it changes anything. A replacement is written in place, as its values are newer than the
existing ones. At its end, keys that it lacks are deleted; only then is the position updated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from drumlin.serving.target import Cell, Claim, Fenced, Position, TargetRefused

if TYPE_CHECKING:
    from redis import Redis

NO_REDIS: Final = "a store in Redis needs redis: pip install redis"
#: The most records whose changes one script applies.
ROWS_AT_A_TIME: Final = 5000
_RETRIES: Final = 8
_TIMEOUT_S: Final = 30.0

_CLAIM: Final = """
local kept = redis.call('HGET', KEYS[1], 'kept')
if kept and kept ~= ARGV[1] then return {kept} end
redis.call('HSET', KEYS[1], 'kept', ARGV[1])
local term = redis.call('HINCRBY', KEYS[1], 'term', 1)
return {false, term, unpack(redis.call('HMGET', KEYS[1],
    'topic_id', 'offset', 'leader_epoch', 'at_end'))}
"""
#: KEYS: the hash, the set of keys, the set that replaces that set (or the same). ARGV: the term,
#: the prefix, the number of rows to put, these rows, and the keys to delete.
_WRITE: Final = """
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return 'fenced' end
local prefix, last, most = ARGV[2], 3 + 2 * tonumber(ARGV[3]), 2000
local parts = {}
for first = 4, last, 2 * most do
    local keys, pairs = {}, {}
    for i = first, math.min(first + 2 * most - 2, last), 2 do
        keys[#keys + 1] = ARGV[i]
        pairs[#pairs + 1] = prefix .. ARGV[i]
        pairs[#pairs + 1] = ARGV[i + 1]
    end
    local old = redis.call('SMISMEMBER', KEYS[2], unpack(keys))
    local new = KEYS[2] == KEYS[3] and old or redis.call('SMISMEMBER', KEYS[3], unpack(keys))
    local strange = {}
    for i = 1, #keys do
        if old[i] == 0 and new[i] == 0 then strange[#strange + 1] = prefix .. keys[i] end
    end
    if #strange > 0 and redis.call('EXISTS', unpack(strange)) > 0 then
        for i = 1, #strange do
            if redis.call('EXISTS', strange[i]) == 1 then return {strange[i]} end
        end
    end
    parts[#parts + 1] = {keys, pairs}
end
for _, part in ipairs(parts) do
    redis.call('MSET', unpack(part[2]))
    redis.call('SADD', KEYS[3], unpack(part[1]))
end
for i = last + 1, #ARGV - 4 do
    if redis.call('SREM', KEYS[2], ARGV[i]) == 1 then redis.call('DEL', prefix .. ARGV[i]) end
end
if ARGV[#ARGV - 2] ~= '' then
    redis.call('HSET', KEYS[1], 'topic_id', ARGV[#ARGV - 3], 'offset', ARGV[#ARGV - 2],
        'leader_epoch', ARGV[#ARGV - 1], 'at_end', ARGV[#ARGV])
end
return 'ok'
"""
#: Begins a replacement: merges the keys of an interrupted replacement into the set of keys.
_BEGIN: Final = """
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return 'fenced' end
redis.call('SUNIONSTORE', KEYS[2], KEYS[2], KEYS[3])
redis.call('DEL', KEYS[3])
return 'ok'
"""
#: Ends a replacement: its set becomes the partition's set of keys.
_END: Final = """
if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return 'fenced' end
if redis.call('EXISTS', KEYS[3]) == 1 then
    redis.call('UNLINK', KEYS[2])
    redis.call('RENAME', KEYS[3], KEYS[2])
end
return 'ok'
"""
_NOT_MOVED: Final = ("", "", "", "")


class RedisTarget:
    """The keys under one prefix. `kept` describes their topic, group and format."""

    def __init__(self, url: str, password: str | None, prefix: str, kept: str) -> None:
        """
        Raises:
            ModuleNotFoundError: redis is not installed; the message says what to do.
            OSError: Redis cannot be reached, or refuses the login.
        """
        try:
            from redis import ConnectionError, Redis, TimeoutError  # noqa: A004
            from redis.backoff import ExponentialBackoff, NoBackoff
            from redis.exceptions import RedisError
            from redis.retry import Retry
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(NO_REDIS, name=error.name) from None
        self._prefix = prefix
        self._kept = kept
        self._failures = RedisError
        given = {} if password is None else {"password": password}
        # Writes are idempotent within a term, so they may be retried.
        patient = Retry(ExponentialBackoff(cap=5, base=0.1), _RETRIES)
        again = [ConnectionError, TimeoutError]
        self._redis: Redis = Redis.from_url(
            url, socket_timeout=_TIMEOUT_S, retry=patient, retry_on_error=again, **given
        )
        # Connect now, so that a wrong address fails at once.
        with Redis.from_url(
            url, socket_timeout=_TIMEOUT_S, retry=Retry(NoBackoff(), 0), **given
        ) as at:
            self._ask(at.ping)

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        found = {}
        for each in partitions:
            name, _, _ = self._names(each)
            values = self._ask(self._redis.hmget, name, *Position._fields)
            if values[1] is not None:
                found[each] = _position(values)
        return found

    def claim(self, partition: int) -> Claim:
        hash_name, _, _ = self._names(partition)
        kept, *found = self._run(_CLAIM, [hash_name], [self._kept])
        if kept is not None:
            raise TargetRefused(f"prefix {self._prefix!r} has {kept.decode()}, not {self._kept}")
        term, *values = found
        return Claim(term, None if values[1] is None else _position(values))

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        hash_name, keys, _ = self._names(partition)
        puts = [cell for row in changes.items() if row[1] is not None for cell in row]
        gone = [key for key, value in changes.items() if value is None]
        self.run(partition, [hash_name, keys, keys], term, puts, gone, position)

    def replace(self, partition: int, term: int) -> RedisReplacement:
        done = self._run(_BEGIN, self._names(partition), [term])
        self._check(partition, done)
        return RedisReplacement(self, partition, term)

    def run(
        self,
        partition: int,
        names: list[str],
        term: int,
        puts: list[Any],
        gone: Iterable[Any],
        position: Position | None,
    ) -> None:
        """Run a write script."""
        moved = _NOT_MOVED if position is None else (position.topic_id or "", *position[1:])
        args = [term, self._prefix, len(puts) // 2, *puts, *gone, *moved]
        self._check(partition, self._run(_WRITE, names, args))

    def put_aside(self, partition: int, term: int, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Write rows of a replacement."""
        waiting = iter(rows)
        while some := list(islice(waiting, ROWS_AT_A_TIME)):
            puts = [cell for row in some for cell in row]
            self.run(partition, self._names(partition), term, puts, (), None)

    def end_replacement(self, partition: int, term: int, position: Position) -> None:
        """Delete keys that the replacement lacks, and update the position."""
        names = hash_name, keys, new = self._names(partition)
        cursor = 0
        while True:
            cursor, some = self._ask(self._redis.sscan, keys, cursor, count=ROWS_AT_A_TIME)
            is_new = self._ask(self._redis.smismember, new, some) if some else []
            gone = [key for key, new_too in zip(some, is_new, strict=True) if not new_too]
            self.run(partition, names, term, [], gone, None)
            if cursor == 0:
                break
        self._check(partition, self._run(_END, names, [term]))
        self.run(partition, [hash_name, keys, keys], term, [], (), position)

    def close(self) -> None:
        self._redis.close()

    def _names(self, partition: int) -> list[str]:
        name = f"drumlin:{self._prefix}:{partition}"
        return [name, f"{name}:keys", f"{name}:new"]

    def _check(self, partition: int, done: Any) -> None:
        if done == b"fenced":
            where = f"prefix {self._prefix!r}"
            raise Fenced(f"{where}: another process has taken partition {partition}")
        if isinstance(done, list):
            raise TargetRefused(
                f"the key {done[0][:100]!r} is there already, from another partition or program"
            )

    def _run(self, script: str, names: list[str], args: list[Any]) -> Any:
        # Not EVALSHA: a restarted Redis no longer knows a script by its hash.
        return self._ask(self._redis.eval, script, len(names), *names, *args)

    def _ask(self, call: Any, *given: Any, **named: Any) -> Any:
        try:
            return call(*given, **named)
        except self._failures as error:
            raise OSError(f"Redis: {error}") from error


class RedisReplacement:
    """A replacement in place, as its values are newer than the existing ones."""

    def __init__(self, target: RedisTarget, partition: int, term: int) -> None:
        self._target = target
        self._partition = partition
        self._term = term

    def add(self, rows: Iterable[tuple[Cell, Cell]]) -> None:
        self._target.put_aside(self._partition, self._term, rows)

    def commit(self, position: Position) -> None:
        self._target.end_replacement(self._partition, self._term, position)


def _position(values: list[bytes]) -> Position:
    topic_id, offset, leader_epoch, at_end = values
    return Position(topic_id.decode() or None, int(offset), int(leader_epoch), at_end.decode())
