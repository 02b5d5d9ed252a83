"""The CA bundle in the cluster: in webhook configurations and in the conversion stanzas of CRDs.

``BundlePublisher`` is the ``publish`` of ``SelfSigned`` for objects that exist already (applied by Helm,
say). It changes nothing but ``caBundle``, with a JSON patch that tests the object's version, so that it never
works on an outdated list of webhooks. Configurations that we generate ourselves carry the bundle when they
are applied; see ``quarterdeck.runtime.webhook.configuration``.
"""

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.client import Client, JsonPatch
from quarterdeck.errors import Conflict, Invalid, NotFound
from quarterdeck.runtime.log.field import get_logger

_log: Final = get_logger(__name__)
MUTATING: Final = GroupVersionKind("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration")
VALIDATING: Final = GroupVersionKind("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration")
DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


class BundleTarget(msgspec.Struct, frozen=True):
    """An object that carries the bundle."""

    kind: GroupVersionKind
    name: str

    @classmethod
    def mutating(cls, name: str) -> "BundleTarget":
        """A MutatingWebhookConfiguration."""
        return cls(MUTATING, name)

    @classmethod
    def validating(cls, name: str) -> "BundleTarget":
        """A ValidatingWebhookConfiguration."""
        return cls(VALIDATING, name)

    @classmethod
    def definition(cls, name: str) -> "BundleTarget":
        """A CustomResourceDefinition with conversion by webhook."""
        return cls(DEFINITION, name)


class BundlePublisher:
    """Keeps ``caBundle`` of some objects equal to ours; call it with the bundle."""

    def __init__(self, client: Client, targets: Iterable[BundleTarget]) -> None:
        self._client: Final = client
        self._targets: Final = tuple(targets)

    async def __call__(self, bundle: bytes) -> bool:
        """Write the bundle where it is missing; returns whether all targets have it now.

        A target that does not exist yet counts as missing. Raises ``ApiError`` and ``TransportError``.
        """
        done = [await self._publish(target, bundle) for target in self._targets]
        return all(done)

    async def _publish(self, target: BundleTarget, bundle: bytes) -> bool:
        try:
            found = await self._client.get(target.kind, target.name)
        except NotFound:
            return False
        operations = bundle_patch(found, bundle)
        if not operations:
            return True
        try:
            await self._client.patch(found, JsonPatch(operations))
        except (Conflict, Invalid, NotFound) as error:
            # Changed or removed since we looked: the next round sees what became of it.
            _log.debug("CA bundle not written yet", kind=target.kind.kind, name=target.name, error=str(error))
            return False
        _log.info("wrote CA bundle", kind=target.kind.kind, name=target.name)
        return True


def bundle_patch(obj: DynamicObject, bundle: bytes) -> list[dict[str, Any]]:
    """The operations that put a bundle into an object; none when it is there or has no place."""
    encoded = b64encode(bundle).decode()
    places: list[tuple[str, Any]] = []
    if obj.gvk == DEFINITION:
        config = obj.at("spec", "conversion", "webhook", "clientConfig")
        if config is not None:
            places.append(("/spec/conversion/webhook/clientConfig/caBundle", config.get("caBundle")))
    else:
        for index, webhook in enumerate(obj.at("webhooks") or ()):
            known = (webhook.get("clientConfig") or {}).get("caBundle")
            places.append((f"/webhooks/{index}/clientConfig/caBundle", known))
    writes = [{"op": "add", "path": path, "value": encoded} for path, known in places if known != encoded]
    if not writes:
        return []
    version = obj.metadata.resource_version
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": version}, *writes]
