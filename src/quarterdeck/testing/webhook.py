"""Webhooks for tests: served on loopback under a certificate made for the occasion.

Real TLS on real sockets, because that is what the API server speaks to webhooks. On virtual time the loop is
told to be patient with sockets before it moves its clock.
"""

import asyncio
import base64
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any, Final

from quarterdeck.api import DynamicObject
from quarterdeck.client import Client
from quarterdeck.client.clock import SystemClock
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.certificate import EphemeralCertificates
from quarterdeck.runtime.webhook import (
    AdmissionWebhook,
    Converter,
    UrlTarget,
    WebhookInstaller,
    WebhookOptions,
    WebhookServer,
)
from quarterdeck.testing.clock import VirtualLoop

HOST: Final = "127.0.0.1"
FIELD_MANAGER: Final = "quarterdeck-testing"
PATIENCE: Final = 0.01
"""Seconds of real time a virtual loop gives to sockets before each jump, once webhooks are served."""


class ServedWebhooks:
    """Handlers that are being served, and how to register them."""

    def __init__(self, server: WebhookServer, ca_bundle: bytes) -> None:
        self.server: Final = server
        self.ca_bundle: Final = ca_bundle

    @property
    def url(self) -> str:
        """Where they are served, without a path."""
        return f"https://{HOST}:{self.server.port}"

    async def register(self, client: Client, name: str) -> None:
        """Write their configurations, and the conversion stanzas of CRDs that exist."""
        install = WebhookInstaller(
            client,
            name,
            UrlTarget(self.url),
            webhooks=self.server.webhooks,
            conversions=self.server.conversions,
        )
        if not await install(self.ca_bundle):
            raise ConfigError("a CRD is missing: install the kinds before the webhooks that convert them")


@asynccontextmanager
async def serve_webhooks(
    *webhooks: AdmissionWebhook, conversions: Sequence[Converter] = ()
) -> AsyncIterator[ServedWebhooks]:
    """Serve handlers on a free port of loopback for the time of a block."""
    loop = asyncio.get_running_loop()
    if isinstance(loop, VirtualLoop):
        loop.patience = max(loop.patience, PATIENCE)
    # Peers check certificates by the real date, whatever the loop's.
    certificates = EphemeralCertificates((HOST, "localhost"), clock=SystemClock())
    server = WebhookServer(WebhookOptions(host=HOST, port=0), certificates=certificates)
    server.add(*webhooks)
    server.add_conversion(*conversions)
    async with server:
        yield ServedWebhooks(server, certificates.bundle)


async def install_webhooks(
    client: Client, documents: Sequence[Mapping[str, Any]], url: str, ca_bundle: bytes
) -> None:
    """Apply webhook configurations so that they call ``url``; other documents are refused."""
    for document in documents:
        await client.apply(
            DynamicObject(localized(document, url, ca_bundle)), field_manager=FIELD_MANAGER, force=True
        )


def localized(configuration: Mapping[str, Any], url: str, ca_bundle: bytes) -> dict[str, Any]:
    """A webhook configuration, or a CRD with conversion, that calls ``url`` instead of a Service.

    Paths stay; raises ``ConfigError`` for a document of another kind.
    """
    document: dict[str, Any] = deepcopy(dict(configuration))
    kind = document.get("kind", "")
    if kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        holders = document.get("webhooks") or []
    elif kind == "CustomResourceDefinition":
        holders = [document["spec"].get("conversion", {}).get("webhook", {})]
    else:
        raise ConfigError(f"{kind or 'a document without kind'} has no webhooks to rewrite")
    bundle = base64.b64encode(ca_bundle).decode()
    for holder in holders:
        config = holder.get("clientConfig")
        if config is not None:
            path = (config.get("service") or {}).get("path", "")
            holder["clientConfig"] = {"url": f"{url.rstrip('/')}{path}", "caBundle": bundle}
    return document
