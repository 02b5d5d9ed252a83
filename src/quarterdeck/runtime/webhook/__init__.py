"""Webhooks: validate, default and convert objects for the API server."""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
from quarterdeck.runtime.webhook.admission import MAX_WARNING, Admission, Denied, Operation
from quarterdeck.runtime.webhook.configuration import (
    ServiceTarget,
    Target,
    UrlTarget,
    WebhookInstaller,
    conversion_stanza,
    webhook_configurations,
)
from quarterdeck.runtime.webhook.conversion import (
    Conversion,
    Converter,
    Convertible,
    ReviewConversion,
    ReviewFailed,
    Spoke,
    Unconvertible,
)
from quarterdeck.runtime.webhook.handler import (
    AdmissionHandler,
    AdmissionWebhook,
    Chain,
    Defaulter,
    Validator,
)
from quarterdeck.runtime.webhook.path import CONVERT_PATH, webhook_path
from quarterdeck.runtime.webhook.registration import SettingsOptions, WebhookRule, WebhookSettings
from quarterdeck.runtime.webhook.roundtrip import assert_roundtrip
from quarterdeck.runtime.webhook.server import DEFAULT_PORT, WebhookOptions, WebhookServer
from quarterdeck.runtime.webhook.stash import STASH_ANNOTATION, stash, unstash

__all__ = [
    "CONVERT_PATH",
    "DEFAULT_PORT",
    "MAX_WARNING",
    "STASH_ANNOTATION",
    "Admission",
    "AdmissionHandler",
    "AdmissionWebhook",
    "Chain",
    "Conversion",
    "Converter",
    "Convertible",
    "Defaulter",
    "Denied",
    "Operation",
    "ReviewConversion",
    "ReviewFailed",
    "ServiceTarget",
    "SettingsOptions",
    "Spoke",
    "Target",
    "Unconvertible",
    "UrlTarget",
    "Validator",
    "WebhookInstaller",
    "WebhookOptions",
    "WebhookRule",
    "WebhookServer",
    "WebhookSettings",
    "assert_roundtrip",
    "conversion_stanza",
    "stash",
    "unstash",
    "webhook_configurations",
    "webhook_path",
]

if not TYPE_CHECKING:
    __getattr__ = _moved_names(
        __name__, {"runtime.webhook.registration": "Rule=WebhookRule Settings=WebhookSettings"}
    )
