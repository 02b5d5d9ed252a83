"""Webhook client configurations: which URL or Service the server calls."""

from __future__ import annotations

import base64
import binascii
import ssl
from collections.abc import Iterator
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.metadata import subdomain_errors
from quarterdeck.wire.fielderror import FieldError, invalid, required

from .gourl import UrlError, parse

_URL_FORM: Final = "; desired format: https://host[/path]"


def webhook_url_errors(url: str, path: str) -> Iterator[FieldError]:
    """The URL of a webhook: https, a host, nothing else but a path."""
    try:
        parsed = parse(url)
    except UrlError as error:
        yield required(path, f"url must be a valid URL: {error}{_URL_FORM}")
        return
    if parsed.scheme != "https":
        yield invalid(path, parsed.scheme, f"'https' is the only allowed URL scheme{_URL_FORM}")
    if not parsed.host:
        yield invalid(path, parsed.host, f"host must be specified{_URL_FORM}")
    if parsed.user is not None:
        yield invalid(path, parsed.user, "user information is not permitted in the URL")
    if parsed.fragment:
        yield invalid(path, parsed.fragment, "fragments are not permitted in the URL")
    if parsed.query:
        yield invalid(path, parsed.query, "query parameters are not permitted in the URL")


def webhook_service_errors(service: Json, path: str) -> Iterator[FieldError]:
    """The service reference of a conversion webhook.

    Upstream hands name and namespace over in the wrong order, so a missing name is reported as a missing
    namespace and the other way round; so do we.
    """
    for given, shown in (("namespace", "name"), ("name", "namespace")):
        if not service.get(given):
            yield required(f"{path}.{shown}")
    port = service.get("port", 443)
    if not isinstance(port, int) or not 1 <= port <= 65535:
        text_ = "port is not valid: must be between 1 and 65535, inclusive"
        yield invalid(f"{path}.port", port, text_)
    url_path = service.get("path")
    if not isinstance(url_path, str) or url_path in ("", "/"):
        return
    where = f"{path}.path"
    if url_path == "//":
        yield invalid(where, url_path, "segment[0] may not be empty")
        return
    if not url_path.startswith("/"):
        yield invalid(where, url_path, "must start with a '/'")
    for index, segment in enumerate(url_path[1:].removesuffix("/").split("/")):
        if not segment:
            yield invalid(where, url_path, f"segment[{index}] may not be empty")
            continue
        for text_ in subdomain_errors(segment):
            yield invalid(where, url_path, f"segment[{index}]: {text_}")


def ca_bundle_error(bundle: str) -> str:
    """Why a base64 encoded bundle holds no certificate; "" if it does."""
    try:
        pem = base64.b64decode(bundle, validate=False).decode("ascii")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (binascii.Error, ValueError, ssl.SSLError):
        return "unable to load root certificates: unable to parse bytes as PEM block"
    return ""
