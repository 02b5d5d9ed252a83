"""Signed tokens: what is accepted and, above all, what is not."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.apiserver.auth import jwt
from quarterdeck.apiserver.auth.jwt import SigningKey, TokenError

ES = SigningKey.generate()
RS = SigningKey(rsa.generate_private_key(65537, 2048))


def encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def parse(text: str) -> jwt.Token:
    token = jwt.parse(text)
    assert token is not None
    return token


@pytest.mark.parametrize(("key", "algorithm"), [(ES, "ES256"), (RS, "RS256")])
def test_a_token_verifies_with_its_key_and_no_other(key: SigningKey, algorithm: str) -> None:
    text = key.sign({"b": 1, "a": [2]})
    header, payload, _ = text.split(".")
    assert decode(header) == {"alg": algorithm, "kid": key.public.key_id}
    assert decode(payload) == {"a": [2], "b": 1}
    token = parse(text)
    key.public.verify(token)
    for other in (SigningKey.generate(), ES, RS):
        if other is not key:
            with pytest.raises(TokenError, match="invalid signature"):
                other.public.verify(token)


@pytest.mark.parametrize("key", [ES, RS])
def test_a_key_survives_pem(key: SigningKey) -> None:
    again = SigningKey.from_pem(key.to_pem())
    assert again.public.key_id == key.public.key_id
    key.public.verify(parse(again.sign({})))


def test_any_changed_part_is_noticed() -> None:
    header, payload, signature = ES.sign({"sub": "x"}).split(".")
    other = ES.sign({"sub": "y"}).split(".")
    for text in (
        f"{header}.{other[1]}.{signature}",
        f"{header}.{payload}.{other[2]}",
        f"{header}.{payload}.",
        f"{header}.{payload}.{signature[:-4]}",
        f"{header}.{payload}.{encode(bytes(64))}",
        f"{encode(json.dumps({'alg': 'none'}).encode())}.{payload}.",
        f"{encode(json.dumps({'alg': 'HS256'}).encode())}.{payload}.{signature}",
        f"{encode(json.dumps({'alg': 'RS256'}).encode())}.{payload}.{signature}",
    ):
        with pytest.raises(TokenError):
            ES.public.verify(parse(text))


def test_critical_extensions_are_not_understood() -> None:
    pair = rsa.generate_private_key(65537, 2048)
    key = SigningKey(pair)
    key._header = encode(b'{"alg":"RS256","crit":["exp"]}')
    with pytest.raises(TokenError):
        key.public.verify(parse(key.sign({})))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "a.b.c.d",
        "!.e30.e30",
        "e30.e30=.e30",
        "e30+.e30.e30",
        "ZQ.e30.e30",
        "W10.e30.e30",
        "é.e30.e30",
    ],
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert jwt.parse(text) is None


@given(st.text(max_size=60))
def test_no_text_makes_the_parser_fail(text: str) -> None:
    jwt.parse(text)
    jwt.parse(f"e30.{text}.e30")


def test_weak_or_foreign_keys_are_refused() -> None:
    with pytest.raises(ValueError, match="P-256"):
        SigningKey(ec.generate_private_key(ec.SECP384R1()))
    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    with pytest.raises(ValueError, match="P-256"):
        SigningKey.from_pem(pem)


def test_nothing_secret_is_shown() -> None:
    text = ES.sign({"sub": "x"})
    signature = text.rsplit(".", 1)[1]
    shown = f"{ES!r} {ES.public!r} {parse(text)!r}"
    assert signature not in shown
    assert "PRIVATE" not in shown
    assert text.split(".")[1] not in shown
