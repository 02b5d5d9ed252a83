"""The objects that tell the API server about the webhooks."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from quarterdeck.api import WebhookConversion
from quarterdeck.operators.nodegroup import names


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """How the API server reaches the webhooks: by Service, or by URL (a laptop, a test)."""

    ca_bundle: bytes
    """PEM certificates that sign the webhook's certificate."""
    url: str = ""
    """``https://host:port`` without path; empty means the Service."""
    service: str = names.WEBHOOK_SERVICE
    namespace: str = names.MODULE_NAMESPACE
    port: int = 443

    def client_config(self, path: str) -> dict[str, Any]:
        """The ``clientConfig`` of a webhook at ``path``."""
        bundle = base64.b64encode(self.ca_bundle).decode()
        if self.url:
            return {"url": f"{self.url}{path}", "caBundle": bundle}
        service = {"name": self.service, "namespace": self.namespace, "path": path, "port": self.port}
        return {"service": service, "caBundle": bundle}


def conversion_stanza(endpoint: Endpoint) -> WebhookConversion:
    """The ``spec.conversion`` of the definition."""
    return WebhookConversion(
        url=f"{endpoint.url}{names.CONVERT_PATH}" if endpoint.url else "",
        service=endpoint.service,
        namespace=endpoint.namespace,
        path=names.CONVERT_PATH,
        port=endpoint.port,
        ca_bundle=endpoint.ca_bundle,
    )


def validating_configuration(endpoint: Endpoint) -> dict[str, Any]:
    """The ValidatingWebhookConfiguration with both webhooks."""
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": names.VALIDATING_CONFIGURATION, "labels": dict(names.CRD_LABELS)},
        "webhooks": [
            _webhook(endpoint, names.SIMPLE_WEBHOOK, names.SIMPLE_PATH, ["CREATE", "UPDATE", "DELETE"]),
            _webhook(endpoint, names.POLICY_WEBHOOK, names.POLICY_PATH, ["CREATE", "UPDATE"]),
        ],
    }


def _webhook(endpoint: Endpoint, name: str, path: str, operations: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "clientConfig": endpoint.client_config(path),
        "rules": [
            {
                "apiGroups": [names.GROUP],
                "apiVersions": ["v1"],
                "resources": ["nodegroups"],
                "operations": operations,
                "scope": "Cluster",
            }
        ],
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 10,
    }
