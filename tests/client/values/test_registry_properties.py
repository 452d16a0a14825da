"""A schema registry in a file of properties."""

from __future__ import annotations

import pytest

from drumlin.client.values.registry_properties import registry_in
from drumlin.peer.security.settings import revealed

_URL = {"schema.registry.url": "http://127.0.0.1:8081/"}


def test_an_address_alone() -> None:
    assert registry_in(_URL).url == "http://127.0.0.1:8081"


def test_logins_with_and_without_prefix() -> None:
    source = {"basic.auth.credentials.source": "USER_INFO"}
    for prefix in ("", "schema.registry."):
        found = registry_in({**_URL, **source, f"{prefix}basic.auth.user.info": "a:b:c"})
        assert found.username == "a" and found.password is not None
        assert revealed(found.password) == "b:c"
        assert "b:c" not in repr(found)
        found = registry_in({**_URL, f"{prefix}bearer.auth.token": "t0ken"})
        assert found.token is not None and revealed(found.token) == "t0ken"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"basic.auth.user.info": "s3cret"}, "basic.auth.user.info: expected USER:PASSWORD"),
        ({"basic.auth.user.inof": "a:s3cret"}, "basic.auth.user.inof: unknown"),
        ({"basic.auth.credentials.source": "URL"}, "USER_INFO is all that is known"),
        ({"ssl.truststore.password": "s3cret"}, "ssl.truststore.password"),
        ({"schema.registry.url": "ftp://a:s3cret@b"}, "url"),
    ],
)
def test_what_is_refused_by_name(more: dict[str, str], told: str) -> None:
    with pytest.raises(ValueError, match=told) as refused:
        registry_in({**_URL, **more})
    assert "s3cret" not in str(refused.value)


def test_no_address() -> None:
    with pytest.raises(ValueError, match=r"schema\.registry\.url is missing"):
        registry_in({"bearer.auth.token": "t0ken"})
