"""What an event is about, and what it is called."""

import threading
import uuid
from typing import Final

from quarterdeck.api import Writable
from quarterdeck.api.k8s.reference import ObjectReference
from quarterdeck.api.label import check_dns1123_subdomain

DEFAULT_NAMESPACE: Final = "default"


def reference_to(obj: Writable) -> ObjectReference:
    """The reference by which an event, a status or a volume names an object."""
    metadata = obj.metadata
    return ObjectReference(
        kind=obj.kind,
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        api_version=obj.api_version,
        resource_version=metadata.resource_version,
    )


def namespace_of(reference: ObjectReference) -> str:
    """Where events about an object live: with it, or in ``default`` if it is cluster-scoped."""
    return reference.namespace or DEFAULT_NAMESPACE


class EventNames:
    """Names of events: ``<object name>.<nanoseconds since 1970 in hexadecimal>``, never the same twice."""

    def __init__(self) -> None:
        self._last = 0
        self._lock: Final = threading.Lock()  # recorders are called on any thread

    def make(self, subject: str, seconds: float) -> str:
        """A name for an event at a time; a UUID where the object's name cannot be part of one."""
        with self._lock:
            moment = self._last = max(int(seconds * 1e9), self._last + 1)
        name = f"{subject}.{moment:x}"
        return str(uuid.uuid4()) if check_dns1123_subdomain(name) else name
