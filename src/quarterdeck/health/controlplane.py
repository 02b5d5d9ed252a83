"""What can be wrong with what makes a cluster work: webhooks, definitions, Leases, namespaces; and events."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import Final

from .examined import Examined
from .field import Json, condition, items, moment, of
from .problem import Finding, Subject

_EXPIRY: Final = 7 * 86400.0
_NODE_LEASES: Final = "kube-node-lease"
_LATELY: Final = 600.0
_GONE: Final = 300.0
_SERVICE: Final = "kubernetes.io/service-name"
_WEBHOOK: Final = re.compile(r'failed calling webhook "([^"]+)"')


def examine_webhooks(kind: str, obj: Json) -> Iterator[Finding]:
    """Certificates that webhooks are trusted by."""
    config = Examined(kind, obj)
    ends = {
        end
        for each in items(obj, "webhooks")
        if (end := _expiry(str(of(each, "clientConfig").get("caBundle") or "")))
    }
    for end in sorted(ends)[:1]:
        day = end.partition("T")[0]
        yield config.found("certificate-expired", f"its certificate was valid until {day}", since=end)
        text = f"its certificate is valid until {day}"
        yield config.found("certificate-expiring", text, since=end, after=-_EXPIRY, until=0.0)


def _expiry(bundle: str) -> str:
    """When the last certificate of a bundle ends: until then one of them can be used."""
    from cryptography import x509  # slow to load

    try:
        found = x509.load_pem_x509_certificates(base64.b64decode(bundle))
    except (ValueError, binascii.Error):
        return ""
    return max(each.not_valid_after_utc for each in found).isoformat()


def webhook_services(obj: Json) -> list[tuple[str, bool]]:
    """The Services behind webhooks, and whether requests are refused without them."""
    found = []
    for each in items(obj, "webhooks"):
        if service := of(of(each, "clientConfig"), "service"):
            key = f"{service.get('namespace', '')}/{service.get('name', '')}"
            found.append((key, each.get("failurePolicy") != "Ignore"))
    return found


def ready_endpoints(obj: Json) -> tuple[str, int]:
    """The Service of an EndpointSlice, and how many of its endpoints are ready."""
    metadata = of(obj, "metadata")
    service = of(metadata, "labels").get(_SERVICE, "")
    ready = sum(of(each, "conditions").get("ready") is not False for each in items(obj, "endpoints"))
    return f"{metadata.get('namespace', '')}/{service}", ready


def examine_definition(obj: Json) -> Iterator[Finding]:
    """A definition that is not served."""
    definition = Examined("CustomResourceDefinition", obj)
    for kind, bad in (("Established", "False"), ("NamesAccepted", "False"), ("NonStructuralSchema", "True")):
        found = condition(obj, kind)
        if found.get("status") == bad:
            text = str(found.get("message") or found.get("reason") or f"{kind} is {bad}")
            since = str(found.get("lastTransitionTime") or "")
            yield definition.found("definition-refused", text, since=since, after=10.0)


def examine_lease(obj: Json) -> Iterator[Finding]:
    """A Lease that nobody renews; those of nodes are told by the nodes."""
    lease = Examined("Lease", obj)
    if lease.metadata.get("namespace") == _NODE_LEASES:
        return
    renewed = str(lease.spec.get("renewTime") or "")
    length = float(lease.spec.get("leaseDurationSeconds") or 15.0)
    holder = str(lease.spec.get("holderIdentity") or "")
    if renewed:
        text = "its holder has stopped renewing it" if holder else "its holder has left and nobody took over"
        yield lease.found("not-leading", text, since=renewed, after=2 * length)


def examine_namespace(obj: Json) -> Iterator[Finding]:
    """A namespace that does not go."""
    namespace = Examined("Namespace", obj)
    if deleted := namespace.metadata.get("deletionTimestamp"):
        told = [
            str(each.get("message") or each.get("reason") or "")
            for each in items(namespace.status, "conditions")
            if each.get("status") == "True"
        ]
        text = next((each for each in told if each), "something in it is not gone")
        yield namespace.found("namespace-terminating", text, since=deleted, after=_GONE)


def examine_event(obj: Json) -> Iterator[Finding]:
    """Trouble that only an event tells: evictions by the scheduler, and requests that a webhook failed."""
    about = of(obj, "involvedObject") or of(obj, "regarding")
    series, metadata = of(obj, "series"), of(obj, "metadata")
    since = str(
        series.get("lastObservedTime")
        or obj.get("lastTimestamp")
        or obj.get("eventTime")
        or metadata.get("creationTimestamp")
        or ""
    )
    if moment(since) is None:
        return
    message, reason = str(obj.get("message") or obj.get("note") or ""), obj.get("reason")
    subject = Subject(
        kind=str(about.get("kind") or ""),
        namespace=str(about.get("namespace") or ""),
        name=str(about.get("name") or ""),
    )
    if reason == "Evict" and subject.kind == "PodGroup":
        notes = of(metadata, "annotations")
        who = str(notes.get("evictor-pod-group-name") or "")
        text = (
            f"it was evicted for {notes.get('evictor-pod-group-namespace', '')}/{who}"
            if who
            else "it was evicted"
        )
        yield Finding(situation="gang-evicted", subject=subject, reason=text, since=since, until=_LATELY)
    elif match := _WEBHOOK.search(message):
        text = f"webhook {match[1]} fails"
        yield Finding(situation="webhook-failing", subject=subject, reason=text, since=since, until=_LATELY)
