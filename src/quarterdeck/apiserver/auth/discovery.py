"""How others verify the tokens of service accounts: OpenID Connect discovery of their issuer.

Relying parties ask for the configuration at the issuer's address, and for the keys where that says. Both are
for whoever RBAC lets read them (``system:service-account-issuer-discovery``: every service account).
"""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.wire.http import Response

from .serviceaccount import ServiceAccountTokens

CONFIGURATION_PATH: Final = "/.well-known/openid-configuration"
KEYS_PATH: Final = "/openid/v1/jwks"
_HEADERS: Final = (("Cache-Control", "public, max-age=3600"),)


def serve_discovery(path: str, tokens: ServiceAccountTokens) -> Response | None:
    """The answer to a request for the issuer's configuration or keys; None for other paths."""
    if path == CONFIGURATION_PATH:
        document = {
            "issuer": tokens.issuer,
            "jwks_uri": tokens.issuer + KEYS_PATH,  # where pods reach the server, wherever it listens
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({each.algorithm for each in tokens.keys}),
        }
        return Response(200, msgspec.json.encode(document), headers=_HEADERS)
    if path == KEYS_PATH:
        body = msgspec.json.encode({"keys": [each.to_jwk() for each in tokens.keys]})
        return Response(200, body, content_type="application/jwk-set+json", headers=_HEADERS)
    return None
