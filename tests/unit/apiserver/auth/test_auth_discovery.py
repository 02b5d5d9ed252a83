"""Others verify our tokens with what discovery tells them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from quarterdeck.apiserver.auth import ServiceAccountTokens, SigningKey
from quarterdeck.apiserver.auth.discovery import CONFIGURATION_PATH, KEYS_PATH, serve_discovery

ES = SigningKey.generate()
RS = SigningKey(rsa.generate_private_key(65537, 2048))


def number(text: str) -> int:
    return int.from_bytes(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), "big")


def verify(token: str, key: dict[str, Any]) -> None:
    """As a relying party does it, which has the key's numbers alone."""
    signed, _, signature = token.rpartition(".")
    whole = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    if key["kty"] == "RSA":
        public = rsa.RSAPublicNumbers(number(key["e"]), number(key["n"])).public_key()
        public.verify(whole, signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return
    point = ec.EllipticCurvePublicNumbers(number(key["x"]), number(key["y"]), ec.SECP256R1()).public_key()
    halves = (int.from_bytes(whole[:32], "big"), int.from_bytes(whole[32:], "big"))
    point.verify(encode_dss_signature(*halves), signed.encode(), ec.ECDSA(hashes.SHA256()))


def answer(path: str, tokens: ServiceAccountTokens) -> Any:
    response = serve_discovery(path, tokens)
    assert response is not None
    assert response.status == 200
    return json.loads(response.body)


@pytest.mark.parametrize("key", [ES, RS])
def test_the_keys_verify_what_we_sign(key: SigningKey) -> None:
    tokens = ServiceAccountTokens(key)
    (found,) = answer(KEYS_PATH, tokens)["keys"]
    assert (found["kid"], found["use"], found["alg"]) == (key.public.key_id, "sig", key.public.algorithm)
    verify(key.sign({"sub": "me"}), found)


def test_the_configuration_says_where_the_keys_are() -> None:
    tokens = ServiceAccountTokens(ES, earlier_keys=[RS.public])
    found = answer(CONFIGURATION_PATH, tokens)
    assert found["issuer"] == tokens.issuer
    assert found["jwks_uri"] == f"{tokens.issuer}/openid/v1/jwks"
    assert found["id_token_signing_alg_values_supported"] == ["ES256", "RS256"]
    assert len(answer(KEYS_PATH, tokens)["keys"]) == 2


def test_other_paths_are_not_its_own() -> None:
    assert serve_discovery("/openid/v2", ServiceAccountTokens(ES)) is None
