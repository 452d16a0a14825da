"""Which store a URL names; what is none is refused, and named, before anything is reached."""

from __future__ import annotations

import re

import pytest

from drumlin.serving.targets import open_store


@pytest.mark.parametrize(
    "url",
    [
        "",
        "users.db",
        "mysql://h/d",
        "sqlite:/users.db",
        "sqlite://users.db",
        "sqlite:///",
        "sqlite:///users%00.db",
        "sqlite:///users.db?tabel=t",
        "redis://127.0.0.1:x/0",
        "redis://127.0.0.1:99999/0",
        "redis://127.0.0.1:6379/first",
        "redis:///0",
        "opensearch+http://127.0.0.1:x",
        "opensearch+http://127.0.0.1:9200/index",
    ],
)
def test_what_is_no_store_is_named(url: str) -> None:
    with pytest.raises(ValueError, match="expected sqlite:///PATH") as refused:
        open_store(url, "g", None)
    kind = re.match("[a-z]*(?=://h)", url)
    assert repr(kind[0] if kind else url) in str(refused.value)


def test_certificates_that_cannot_be_read_are_named() -> None:
    with pytest.raises(OSError, match=r"OpenSearch: ca=/no/file: No such file"):
        open_store("opensearch+https://127.0.0.1:1?ca=/no/file", "g", None)
