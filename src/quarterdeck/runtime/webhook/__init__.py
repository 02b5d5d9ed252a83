"""Webhooks: validate, default and convert objects for the API server."""

from quarterdeck.runtime.webhook.admission import MAX_WARNING, Admission, Denied, Operation
from quarterdeck.runtime.webhook.conversion import Conversion, Convertible, Spoke, Unconvertible
from quarterdeck.runtime.webhook.handler import (
    AdmissionHandler,
    AdmissionWebhook,
    Chain,
    Defaulter,
    Validator,
)
from quarterdeck.runtime.webhook.path import CONVERT_PATH, webhook_path
from quarterdeck.runtime.webhook.registration import Rule, Settings, SettingsOptions
from quarterdeck.runtime.webhook.server import DEFAULT_PORT, WebhookOptions, WebhookServer

__all__ = [
    "CONVERT_PATH",
    "DEFAULT_PORT",
    "MAX_WARNING",
    "Admission",
    "AdmissionHandler",
    "AdmissionWebhook",
    "Chain",
    "Conversion",
    "Convertible",
    "Defaulter",
    "Denied",
    "Operation",
    "Rule",
    "Settings",
    "SettingsOptions",
    "Spoke",
    "Unconvertible",
    "Validator",
    "WebhookOptions",
    "WebhookServer",
    "webhook_path",
]
