"""`subscribePattern` means what Java says: compared with Java itself, on names of topics."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from drumlin.spark.options.java_pattern import TOPIC_CHARACTERS, python_pattern
from rig.depth import so_many

NAMES = [
    *("".join(each) for size in (1, 2, 3) for each in itertools.product("aB1-_.", repeat=size)),
    *sorted(TOPIC_CHARACTERS),
    "flights",
    "flights-2013",
    "FLIGHTS",
]

PATTERNS = [
    "flights.*",
    "flights|weather",
    r"\p{L}+",
    r"\p{Lu}\P{Lu}*",
    r"\pL\PN?",
    r"[\p{Alpha}&&[^B]]+",
    r"[^\p{IsDigit}]+",
    r"[\p{javaLowerCase}_]+",
    r"(?<first>[aB]).\k<first>",
    r"(a)(B)?\1",
    "a*+a",
    "[aB]++.",
    "(?>a|aB)1",
    "(?i)flights|b.a",
    "(?i)[^b]+",
    "(?i:a)B",
    r"\Qa.B\E.*",
    r"a\.\w\z",
    r"\Aa[.\-]\d\Z",
    "[a[B1]]+",
    "[a-zA-Z&&[^a]]+",
    "[^a[B]]",
    "[]a]+",
    "[a-]+",
    r"[\w&&[^\d]]{2,3}",
    r"[\Q.-\E]+",
    "a{2}",
    "(?!a).+",
    "(?<=a)B|a(?=B)B",
    r"\bflights\b",
    r"[\s]|a",
    r"[\S]+",
    r"\D\W",
    "",
]


@pytest.mark.spark
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_same_names_match_as_in_java(spark: SparkSession, pattern: str) -> None:
    ours = re.compile(python_pattern(pattern))
    assert [each for each in NAMES if ours.fullmatch(each)] == _matches(spark, pattern, NAMES)


@pytest.mark.spark
@settings(
    max_examples=so_many(60, 150), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    pattern=st.lists(
        st.sampled_from(
            [*"aB1.|()[]^-&?*+", "&&", "[^", r"\p{L}", r"\P{Lu}", r"\d", r"\W", "{1,2}", r"\Q-\E"]
        ),
        min_size=1,
        max_size=9,
    ).map("".join)
)
def test_any_pattern_is_translated_or_refused(spark: SparkSession, pattern: str) -> None:
    try:
        ours = re.compile(python_pattern(pattern))
    except ValueError:
        return
    names = NAMES[:50]
    theirs = _matches(spark, pattern, names)
    assert theirs is None or [each for each in names if ours.fullmatch(each)] == theirs


def _matches(spark: SparkSession, pattern: str, names: list[str]) -> list[str] | None:
    """What Java matches; None where it refuses the pattern."""
    jvm: Any = spark._jvm
    try:
        compiled = jvm.java.util.regex.Pattern.compile(pattern)
    except IllegalArgumentException:
        return None
    text = jvm.java.util.ArrayList(_java_list(spark, names))
    text.removeIf(compiled.asMatchPredicate().negate())
    return list(text)


def _java_list(spark: SparkSession, names: list[str]) -> Any:
    jvm: Any = spark._jvm
    return jvm.java.util.Arrays.asList(jvm.PythonUtils.toArray(names))


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        "[a",
        "a{",
        r"\p{Greek}",
        r"\x{41}",
        "(?x)a b",
        "(?U)a",
        r"\R",
        r"(?<=a+)b",
        "a\\",
        "[b-a]",
    ],
)
def test_what_cannot_be_said_is_refused(pattern: str) -> None:
    with pytest.raises(
        ValueError, match=r"cannot be translated|not a supported regular expression"
    ):
        python_pattern(pattern)
