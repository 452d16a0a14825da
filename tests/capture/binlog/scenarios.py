"""What is done to two tables, and the records, or the error, that it makes.

`item` and `other` of the schema `shop` are captured; `free` and the schema `apart` are not. Before
each scenario they are made anew, and `item` has the rows 1 and 2.
"""

from __future__ import annotations

from typing import NamedTuple

from drumlin.capture.changes import OnTruncate

BEFORE = (
    "DROP DATABASE IF EXISTS shop",
    "DROP DATABASE IF EXISTS apart",
    "CREATE DATABASE shop CHARACTER SET utf8mb4",
    "CREATE DATABASE apart CHARACTER SET utf8mb4",
    "USE shop",
    "CREATE TABLE item (id INT PRIMARY KEY, name VARCHAR(20))",
    """CREATE TABLE other (a VARCHAR(10) CHARACTER SET latin1, b DECIMAL(5,2), c INT,
     PRIMARY KEY (b, a))""",
    "CREATE TABLE free (id INT PRIMARY KEY)",
    "CREATE TABLE trad (id INT PRIMARY KEY) ENGINE=MyISAM",
    "CREATE TABLE apart.far (id INT PRIMARY KEY)",
    "INSERT INTO item VALUES (1, 'one'), (2, 'two')",
)


class Scenario(NamedTuple):
    name: str
    statements: tuple[str, ...]
    records: tuple[tuple[str, str | None], ...] = ()  # keys and values
    error: str = ""  # a part of it
    on_truncate: OnTruncate = OnTruncate.STOP


def _item(number: int, name: str | None = None) -> tuple[str, str]:
    shown = "null" if name is None else f'"{name}"'
    return f'{{"id":{number}}}', f'{{"id":{number},"name":{shown}}}'


def _gone(number: int) -> tuple[str, None]:
    return f'{{"id":{number}}}', None


_TOMBSTONES = OnTruncate.TOMBSTONES
_IGNORE = OnTruncate.IGNORE
SCENARIOS = (
    Scenario(
        "insert", ("INSERT INTO item VALUES (3, 'é😀'), (4, NULL)",), (_item(3, "é😀"), _item(4))
    ),
    Scenario("update", ("UPDATE item SET name = 'x'",), (_item(1, "x"), _item(2, "x"))),
    Scenario("delete", ("DELETE FROM item WHERE id = 2",), (_gone(2),)),
    Scenario(
        "changed keys",
        ("UPDATE item SET id = id + 1 ORDER BY id DESC",),
        (_gone(2), _item(3, "two"), _gone(1), _item(2, "one")),
    ),
    Scenario(
        "key of two columns",
        ("INSERT INTO other VALUES ('ÿ€', 1.5, 7)", "DELETE FROM other"),
        (
            ('{"b":"1.50","a":"ÿ€"}', '{"a":"ÿ€","b":"1.50","c":7}'),
            ('{"b":"1.50","a":"ÿ€"}', None),
        ),
    ),
    Scenario(
        "transaction",
        (
            "BEGIN",
            "INSERT INTO item VALUES (3, 'a')",
            "INSERT INTO free VALUES (1)",
            "SAVEPOINT s",
            "INSERT INTO item VALUES (4, 'b')",
            "ROLLBACK TO s",
            "UPDATE item SET name = 'c' WHERE id = 3",
            "COMMIT",
        ),
        (_item(3, "a"), _item(3, "c")),
    ),
    Scenario("rolled back", ("BEGIN", "DELETE FROM item", "ROLLBACK"), ()),
    Scenario(
        "rolled back with a table without transactions",
        ("BEGIN", "INSERT INTO item VALUES (3, 'a')", "INSERT INTO trad VALUES (1)", "ROLLBACK"),
        (),
    ),
    Scenario(
        "rolled back after one statement in tables of both kinds",
        (
            """CREATE TRIGGER t AFTER INSERT ON trad FOR EACH ROW
             INSERT INTO item VALUES (NEW.id, 'by trigger')""",
            "BEGIN",
            "INSERT INTO item VALUES (3, 'a')",
            "INSERT INTO trad VALUES (8)",
            "ROLLBACK",
            "INSERT INTO item VALUES (4, 'b')",
        ),
        (_item(4, "b"),),
    ),
    Scenario("replace", ("REPLACE INTO item VALUES (1, 'uno')",), (_item(1, "uno"),)),
    Scenario(
        "other tables",
        (
            "INSERT INTO free VALUES (1)",
            "INSERT INTO apart.far VALUES (1)",
            "TRUNCATE free",
            "DROP TABLE free",
            "DROP DATABASE apart",
        ),
        (),
    ),
    Scenario(
        "compressed",
        (
            "SET GLOBAL log_bin_compress = 1",
            "SET GLOBAL log_bin_compress_min_len = 10",
            "INSERT INTO item VALUES (3, 'aaaaaaaaaaaaaaaaaaaa')",
            "UPDATE item SET name = 'bbbbbbbbbbbbbbbbbbbb' WHERE id = 3",
            "DELETE FROM item WHERE id = 3",
            "CREATE TABLE apart.this_is_long (id INT PRIMARY KEY)",
            "SET GLOBAL log_bin_compress = 0",
        ),
        (_item(3, "a" * 20), _item(3, "b" * 20), _gone(3)),
    ),
    Scenario(
        "columns come and go",
        (
            "ALTER TABLE item ADD more INT UNSIGNED FIRST",
            "INSERT INTO item VALUES (7, 3, 'x')",
            "ALTER TABLE item DROP name, RENAME COLUMN more TO extra",
            "DELETE FROM item WHERE id = 3",
        ),
        (('{"id":3}', '{"more":7,"id":3,"name":"x"}'), _gone(3)),
    ),
    Scenario(
        "key is wider",
        ("ALTER TABLE item MODIFY id BIGINT", "INSERT INTO item VALUES (3, 'x')"),
        (_item(3, "x"),),
    ),
    Scenario(
        "key is of another type",
        ("ALTER TABLE item MODIFY id VARCHAR(9)", "DELETE FROM item"),
        error="table shop.item: the type of 'id' has changed",
    ),
    Scenario(
        "other key",
        ("ALTER TABLE item DROP PRIMARY KEY, ADD PRIMARY KEY (name)", "DELETE FROM item"),
        error="captured by the key (id) and now has the key (name)",
    ),
    Scenario(
        "no key",
        ("ALTER TABLE item DROP PRIMARY KEY", "DELETE FROM item"),
        error="captured by the key (id) and now has no key",
    ),
    Scenario("truncated", ("TRUNCATE item",), error="table shop.item was truncated"),
    Scenario(
        "truncated, ignored",
        ("TRUNCATE TABLE shop.item", "INSERT INTO item VALUES (1, 'x')"),
        (_item(1, "x"),),
        on_truncate=_IGNORE,
    ),
    Scenario(
        "truncated, tombstones",
        ("INSERT INTO item VALUES (3, 'c')", "TRUNCATE `item`", "INSERT INTO item VALUES (1, 'x')"),
        (_item(3, "c"), _gone(1), _gone(2), _gone(3), _item(1, "x")),
        on_truncate=_TOMBSTONES,
    ),
    Scenario(
        "dropped and made anew",
        (
            "DROP TABLE free, item",
            "CREATE TABLE item (id INT PRIMARY KEY)",
            "INSERT INTO item VALUES (9)",
        ),
        (_gone(1), _gone(2), ('{"id":9}', '{"id":9}')),
        on_truncate=_TOMBSTONES,
    ),
    Scenario(
        "replaced",
        ("CREATE OR REPLACE TABLE item (id INT PRIMARY KEY) AS SELECT 5 AS id",),
        (_gone(1), _gone(2), ('{"id":5}', '{"id":5}')),
        on_truncate=_TOMBSTONES,
    ),
    Scenario("database dropped", ("DROP DATABASE shop",), error="truncated or dropped"),
    Scenario("renamed", ("/* a comment */ RENAME TABLE item TO gone",), error="item was renamed"),
    Scenario(
        "renamed by alter",
        ("ALTER TABLE free RENAME TO x", "ALTER TABLE item RENAME x2"),
        error="item was renamed",
    ),
    Scenario(
        "given its name",
        ("RENAME TABLE other TO o, free TO other",),
        error="other was renamed",
        on_truncate=_IGNORE,
    ),
    Scenario(
        "partition dropped",
        (
            """ALTER TABLE item PARTITION BY RANGE (id) (PARTITION p VALUES LESS THAN (2),
             PARTITION q VALUES LESS THAN (9))""",
            "ALTER TABLE item DROP PARTITION p",
        ),
        error="rows came or went",
    ),
    Scenario(
        "temporary table",
        (
            "CREATE TEMPORARY TABLE item (id INT PRIMARY KEY)",
            "INSERT INTO item VALUES (7)",
            "DROP TEMPORARY TABLE item",
        ),
        (),
    ),
    Scenario(
        "statement",
        ("SET SESSION binlog_format = STATEMENT", "UPDATE item SET name = 'secret'"),
        error="a statement (UPDATE ...)",
    ),
    Scenario(
        "statement elsewhere",
        (
            "SET SESSION binlog_format = STATEMENT",
            "USE apart",
            "REPLACE INTO far VALUES (1)",
            "DELETE FROM apart.far",
            "USE shop",
        ),
        (),
    ),
    Scenario(
        "part of a row",
        ("SET SESSION binlog_row_image = MINIMAL", "UPDATE item SET name = 'x'"),
        error="without all columns",
    ),
    Scenario(
        "no names of columns",
        (
            "SET GLOBAL binlog_row_metadata = MINIMAL",
            "DELETE FROM item",
            "SET GLOBAL binlog_row_metadata = FULL",
        ),
        error="without the names of columns",
    ),
    Scenario(
        "XA",
        ("XA START 'x'", "DELETE FROM item", "XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'"),
        error="changed by an XA transaction",
    ),
    Scenario(
        "XA elsewhere",
        (
            "XA START 'x'",
            "INSERT INTO free VALUES (1)",
            "XA END 'x'",
            "XA PREPARE 'x'",
            "XA COMMIT 'x'",
            "XA START 'y'",
            "INSERT INTO free VALUES (2)",
            "XA END 'y'",
            "XA PREPARE 'y'",
            "XA ROLLBACK 'y'",
        ),
        (),
    ),
    Scenario(
        "XA of one phase",
        ("XA START 'x'", "DELETE FROM item WHERE id = 1", "XA END 'x'", "XA COMMIT 'x' ONE PHASE"),
        (_gone(1),),
    ),
    Scenario(
        "trigger",
        (
            """CREATE TRIGGER t AFTER INSERT ON free FOR EACH ROW
             INSERT INTO item VALUES (NEW.id, 'by trigger')""",
            "INSERT INTO free VALUES (8)",
        ),
        (_item(8, "by trigger"),),
    ),
    Scenario(
        "without checksums",
        (
            "SET GLOBAL binlog_checksum = NONE",
            "INSERT INTO item VALUES (3, 'x')",
            "SET GLOBAL binlog_checksum = CRC32",
            "INSERT INTO item VALUES (4, 'y')",
        ),
        (_item(3, "x"), _item(4, "y")),
    ),
    Scenario(
        "other domain",
        (
            "SET SESSION gtid_domain_id = 5",
            "INSERT INTO item VALUES (3, 'x')",
            "SET SESSION gtid_domain_id = 0",
            "INSERT INTO item VALUES (4, 'y')",
        ),
        (_item(3, "x"), _item(4, "y")),
    ),
)
