"""A login by a delegation token: SCRAM with a name that is the token's id."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from typing import Any

from rig.data.raw import RawClient

_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_nonces = itertools.count()


def log_in_by_token(
    client: RawClient, token_id: str, password: bytes, mechanism: str = "SCRAM-SHA-256"
) -> Any:
    """The answer to the proof, or to the first message if it is refused."""
    hash_name = _HASHES[mechanism]
    client.ask("sasl_handshake", 1, mechanism=mechanism)
    first = f"n={token_id},r=nonce{next(_nonces)},tokenauth=true"
    answer = client.ask("sasl_authenticate", 2, auth_bytes=f"n,,{first}".encode())
    if answer.error_code:
        return answer
    server_first = answer.auth_bytes.decode()
    fields = dict(each.split("=", 1) for each in server_first.split(","))
    salted = hashlib.pbkdf2_hmac(
        hash_name, base64.b64encode(password), base64.b64decode(fields["s"]), int(fields["i"])
    )
    final = f"c=biws,r={fields['r']}"
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    stored_key = hashlib.new(hash_name, client_key).digest()
    signature = hmac.digest(stored_key, f"{first},{server_first},{final}".encode(), hash_name)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(client_key, signature, strict=True)))
    message = f"{final},p={proof.decode()}".encode()
    return client.ask("sasl_authenticate", 2, auth_bytes=message)
