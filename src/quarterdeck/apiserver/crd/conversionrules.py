"""The conversion of a CRD: its webhook and the reviews it understands."""

from __future__ import annotations

from collections.abc import Iterator

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.clientconfig import (
    ca_bundle_error,
    webhook_service_errors,
    webhook_url_errors,
)
from quarterdeck.apiserver.metadata import dns1035_errors
from quarterdeck.apiserver.schema.lenient import strings, text
from quarterdeck.wire.fielderror import FieldError, forbidden, invalid, required

from .internalspec import enum_errors, struct
from .strictness import REVIEW_VERSIONS, Strictness


def conversion_errors(conversion: object, strict: Strictness) -> Iterator[FieldError]:
    if not isinstance(conversion, dict):
        return
    path = "spec.conversion"
    strategy = text(conversion, "strategy")
    yield from enum_errors(f"{path}.strategy", strategy, ("None", "Webhook"))
    webhook = struct(conversion, "webhook")
    client = webhook.get("clientConfig")
    versions = strings(webhook, "conversionReviewVersions")
    if strategy != "Webhook":
        text_ = "should not be set when strategy is not set to Webhook"
        if client is not None:
            yield forbidden(f"{path}.webhookClientConfig", text_)
        if versions:
            yield forbidden(f"{path}.conversionReviewVersions", text_)
        return
    if not isinstance(client, dict):
        yield required(f"{path}.webhookClientConfig", "required when strategy is set to Webhook")
    else:
        yield from _client_errors(client, f"{path}.webhookClientConfig", strict)
    yield from _review_version_errors(versions, f"{path}.conversionReviewVersions", strict)


def _client_errors(client: Json, path: str, strict: Strictness) -> Iterator[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        yield required(path, "exactly one of url or service is required")
    elif url is not None:
        yield from webhook_url_errors(str(url), f"{path}.url")
    elif isinstance(service, dict):
        yield from webhook_service_errors(service, f"{path}.service")
    bundle = client.get("caBundle")
    if isinstance(bundle, str) and bundle and strict.check_ca_bundle:
        problem = ca_bundle_error(bundle)
        if problem:
            yield invalid(f"{path}.caBundle", bundle, problem)


def _review_version_errors(versions: list[str], path: str, strict: Strictness) -> Iterator[FieldError]:
    if not versions:
        yield required(path)
        return
    seen: set[str] = set()
    for index, version in enumerate(versions):
        if version in seen:
            yield invalid(f"{path}[{index}]", version, "duplicate version")
            continue
        seen.add(version)
        for text_ in dns1035_errors(version):
            yield invalid(f"{path}[{index}]", version, text_)
    if strict.require_known_review_version and not seen & set(REVIEW_VERSIONS):
        yield invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}")
