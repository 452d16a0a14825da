"""Keys in Redis: each row is a string, whose Redis key is a prefix and the record's key.

Each partition also has a hash with position and term, `drumlin:PREFIX:PARTITION`, and a set of the
keys that came from it. A write checks the term and the keys, and then changes all in a transaction.
Redis refuses the transaction if the hash has changed since the check, or if another partition has
added keys since, which changes `drumlin:PREFIX:added`.

A replacement is written in place, as its values are newer than the existing ones. At its end, keys
that it lacks are deleted; only then is the position updated.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress, islice
from typing import Any, Final

from drumlin.serving.redis.commands import Part, begun, cells, command, pairs, prefixed, strings
from drumlin.serving.redis.connection import RedisConnection
from drumlin.serving.target import (
    Cell,
    Claim,
    Fenced,
    Position,
    TargetRefused,
    check_kept,
    check_owner,
)

#: The most records whose changes one transaction applies.
ROWS_AT_A_TIME: Final = 5000

_CLAIM: Final = """
local kept = redis.call('HGET', KEYS[1], 'kept')
if kept and kept ~= ARGV[1] then return {kept} end
redis.call('HSET', KEYS[1], 'kept', ARGV[1])
local term = redis.call('HINCRBY', KEYS[1], 'term', 1)
return {false, term, unpack(redis.call('HMGET', KEYS[1],
    'topic_id', 'offset', 'leader_epoch', 'at_end'))}
"""
#: Returns how many of these keys are new, or one that belongs to another partition or program.
#: KEYS: the set of keys, and the set that replaces it (or the same). ARGV: the prefix, the keys.
_COUNT_NEW: Final = """
local prefix, most, count = ARGV[1], 4000, 0
for first = 2, #ARGV, most do
    local last = math.min(first + most - 1, #ARGV)
    local old = redis.call('SMISMEMBER', KEYS[1], unpack(ARGV, first, last))
    local new = KEYS[1] == KEYS[2] and old
        or redis.call('SMISMEMBER', KEYS[2], unpack(ARGV, first, last))
    local strange = {}
    for i = 1, #old do
        if new[i] == 0 then
            count = count + 1
            if old[i] == 0 then strange[#strange + 1] = prefix .. ARGV[first + i - 1] end
        end
    end
    if #strange > 0 and redis.call('EXISTS', unpack(strange)) > 0 then
        for i = 1, #strange do
            if redis.call('EXISTS', strange[i]) == 1 then return {strange[i]} end
        end
    end
end
return count
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


class RedisTarget:
    """The keys under one prefix. `kept` describes their topic, group and format."""

    def __init__(self, url: str, password: str | None, prefix: str, kept: str) -> None:
        """
        Raises:
            ModuleNotFoundError: redis is not installed; the message says what to do.
            OSError: Redis cannot be reached, or refuses the login.
        """
        self._prefix = prefix
        self._kept = kept
        self._where = f"prefix {prefix!r}"
        self._redis = RedisConnection(url, password)

    def positions(self, partitions: Collection[int]) -> dict[int, Position]:
        found = {}
        for each in partitions:
            name = self._names(each)[0]
            kept, *values = self._redis.call("HMGET", name, "kept", *Position._fields)
            if kept is not None:
                check_owner(self._where, kept.decode(), self._kept)
            if values[1] is not None:
                found[each] = _position(values)
        return found

    def claim(self, partition: int) -> Claim:
        kept, *found = self._run(_CLAIM, self._names(partition)[:1], self._kept)
        if kept is not None:
            check_kept(self._where, kept.decode(), self._kept)
        term, *values = found
        return Claim(term, None if values[1] is None else _position(values))

    def apply(
        self, partition: int, term: int, changes: Mapping[Cell, Cell | None], position: Position
    ) -> None:
        puts = {key: value for key, value in changes.items() if value is not None}
        gone = [key for key, value in changes.items() if value is None]
        keys = self._names(partition)[1]
        self._redis.run(lambda: self._write(partition, term, keys, puts, gone, position))

    def replace(self, partition: int, term: int) -> RedisReplacement:
        done = self._run(_BEGIN, self._names(partition), term)
        self._check_ours(partition, done == b"ok")
        return RedisReplacement(self, partition, term)

    def put_aside(self, partition: int, term: int, rows: Iterable[tuple[Cell, Cell]]) -> None:
        """Write rows of a replacement."""
        new, waiting = self._names(partition)[2], iter(rows)
        while some := dict(islice(waiting, ROWS_AT_A_TIME)):
            self._redis.run(
                lambda some=some: self._write(partition, term, new, some, (), None)  # type: ignore[misc]
            )

    def end_replacement(self, partition: int, term: int, position: Position) -> None:
        """Delete keys that the replacement lacks, and update the position."""
        names = _, keys, new = self._names(partition)
        cursor = 0
        while True:
            cursor, some = self._redis.call("SSCAN", keys, cursor, "COUNT", ROWS_AT_A_TIME)
            is_new = self._redis.call("SMISMEMBER", new, *some) if some else []
            gone = [key for key, new_too in zip(some, is_new, strict=True) if not new_too]
            self._redis.run(
                lambda gone=gone: self._write(partition, term, keys, {}, gone, None)  # type: ignore[misc]
            )
            if int(cursor) == 0:
                break
        self._check_ours(partition, self._run(_END, names, term) == b"ok")
        self._redis.run(lambda: self._write(partition, term, keys, {}, (), position))

    def close(self) -> None:
        self._redis.close()

    # -- one write -------------------------------------------------------------------------

    def _write(
        self,
        partition: int,
        term: int,
        into: str,
        puts: Mapping[Cell, Cell],
        gone: Sequence[Cell],
        position: Position | None,
    ) -> None:
        """Change rows in one transaction. The keys of those that are put go into the set `into`.

        It may be repeated with the same term.
        """
        hash_name, keys, _ = self._names(partition)
        rows = _Rows(self._prefix, puts)
        while True:
            self._watch(partition, term)
            changes = rows.puts()
            if self._count_new(keys, into, rows):
                changes += rows.adds(into)
                changes.append([command("INCR", self._added)])
            ours = cells(self._of_this_partition(keys, gone))
            if len(ours):
                changes.append([begun(len(ours), "SREM", keys), strings(ours)])
                changes.append([begun(len(ours), "DEL"), strings(prefixed(self._prefix, ours))])
            if position is not None:
                moved = (
                    word for field in zip(Position._fields, position, strict=True) for word in field
                )
                changes.append(
                    [command("HSET", hash_name, *("" if w is None else w for w in moved))]
                )
            if self._transact(changes):
                return

    def _watch(self, partition: int, term: int) -> None:
        """Have a transaction refused if the partition is claimed, or keys are added meanwhile."""
        name = self._names(partition)[0]
        watch = command("WATCH", name, self._added)
        _, found = self._redis.ask(2, watch, command("HGET", name, "term"))
        self._check_ours(partition, found == b"%d" % term)

    def _count_new(self, keys: str, into: str, rows: _Rows) -> int:
        """The number of keys that are not yet in the set `into`.

        Raises:
            TargetRefused: a key belongs to another partition or program.
        """
        if not rows.count:
            return 0
        if into != keys:
            # In a replacement all keys should be new, and a check for that alone is faster.
            (existing,) = self._redis.ask(1, begun(rows.count, "EXISTS"), rows.packed_names)
            if not existing:
                return rows.count
        find = begun(rows.count, "EVAL", _COUNT_NEW, 2, keys, into, self._prefix)
        (found,) = self._redis.ask(1, find, rows.packed_keys)
        if isinstance(found, list):
            raise TargetRefused(
                f"the key {found[0][:100]!r} is there already, from another partition or program"
            )
        return int(found)

    def _of_this_partition(self, keys: str, some: Sequence[Cell]) -> list[Cell]:
        if not some:
            return []
        find = begun(len(some), "SMISMEMBER", keys)
        (are_members,) = self._redis.ask(1, find, strings(cells(some)))
        return list(compress(some, are_members))

    def _transact(self, changes: list[list[Part]]) -> bool:
        """Whether Redis has made these changes, each of them one command."""
        parts: list[Part] = [command("MULTI")]
        for each in changes:
            parts += each
        *_, done = self._redis.ask(len(changes) + 2, *parts, command("EXEC"))
        for reply in done or ():
            if isinstance(reply, Exception):
                raise reply
        return done is not None

    # -- names -----------------------------------------------------------------------------

    @property
    def _added(self) -> str:
        """Changes whenever keys are added under this prefix."""
        return f"drumlin:{self._prefix}:added"

    def _names(self, partition: int) -> list[str]:
        """The hash, the set of keys, and the set that replaces it."""
        name = f"drumlin:{self._prefix}:{partition}"
        return [name, f"{name}:keys", f"{name}:new"]

    def _check_ours(self, partition: int, is_ours: bool) -> None:
        if not is_ours:
            raise Fenced(f"{self._where}: another process has taken partition {partition}")

    def _run(self, script: str, names: list[str], *args: object) -> Any:
        # Not EVALSHA: a restarted Redis no longer knows a script by its hash.
        return self._redis.call("EVAL", script, len(names), *names, *args)


class _Rows:
    """Rows to put, packed once, as a transaction may be refused several times."""

    def __init__(self, prefix: str, rows: Mapping[Cell, Cell]) -> None:
        keys = cells(list(rows))
        names = prefixed(prefix, keys)
        self.count = len(rows)
        self.packed_keys = strings(keys)
        self.packed_names = strings(names)
        self._packed_rows = pairs(names, cells(list(rows.values())))

    def puts(self) -> list[list[Part]]:
        """The commands that set the rows."""
        return [[begun(2 * self.count, "MSET"), self._packed_rows]] if self.count else []

    def adds(self, into: str) -> list[list[Part]]:
        """The commands that add the keys to a set."""
        return [[begun(self.count, "SADD", into), self.packed_keys]]


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
