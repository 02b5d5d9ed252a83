"""What must hold for any input: an answer in time, no internal error, nothing changed by what was refused.

The internal errors that the real server gives by design are listed here with where they are described.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

from .client import PATIENCE, Client, Request, Response

#: messages that come with a 500 on the real server too (sections of the server's description)
KNOWN: Final = [
    re.compile(pattern)
    for pattern in (
        r"^resourceVersion should not be set on objects to be created",  # 3
        r"resourceVersion: Invalid value|strconv\.ParseUint",  # 4: on get, watch and update
        r"^failed to create typed patch object",  # 10.5
        r"^failed to create manager for existing fields|^failed to create typed live object",  # 10.5
        r"the spec replicas field \".*\" (does not exist|cannot be a non-integer)",  # 14.4
        r"^conversion webhook for ",  # 14.4
        r"failed calling webhook",  # 16
        # strategic merge patches, seen on the real one
        r"^expected a (map\[string\]|\[\])interface \{\}, but received a|does not contain declared merge key",
        r"^list element types are not identical",
        r"^rpc error: code = ResourceExhausted desc = trying to send message larger than max ",  # etcd
        r"^etcdserver: request is too large",
        r"^target\.(name|kind): ",  # a Binding's own validation, seen on the real one
    )
]
#: the server cannot keep a revision from the future, and says so after three seconds
TIMEOUTS: Final = re.compile(r"^Timeout: Too large resource version")
_COLLECTION: Final = re.compile(r"^(/api/v1|/apis/[^/]+/[^/]+)(/namespaces/[^/]+)?/([^/]+)")


def check(request: Request, response: Response, *, real: int | None = None) -> str:
    """What is wrong with an answer, or nothing. real: the status the real server gave to the same request."""
    if response.seconds > PATIENCE:
        return f"took {response.seconds:.1f} s"
    if request.expect and response.status not in request.expect:
        return f"status {response.status} instead of {request.expect}: {response.message[:200]}"
    if response.status >= 500 and response.status != real and not _is_known(response):
        return f"status {response.status}: {response.message[:300]}"
    if response.content_type.startswith("application/json") and "watch" not in request.path and response.body:
        try:
            document = json.loads(response.body)
        except RecursionError:
            return ""
        except ValueError:
            return f"status {response.status} with a body that is not JSON: {response.body[:100]!r}"
        if response.status >= 400 and (document.get("kind"), document.get("code")) != (
            "Status",
            response.status,
        ):
            return f"status {response.status} without a Status of that code: {response.body[:100]!r}"
    return ""


def _is_known(response: Response) -> bool:
    if response.status == 504:
        return bool(TIMEOUTS.search(response.message))
    return response.status == 500 and any(pattern.search(response.message) for pattern in KNOWN)


class Snapshot:
    """Names and revisions of the objects beside the one a request aims at."""

    def __init__(self, client: Client, request: Request) -> None:
        found = _COLLECTION.match(request.path.split("?")[0])
        self._client = client
        self._path = found[0] if found else ""
        # The server itself writes the status of definitions, at a time of its own.
        self._only_names = "customresourcedefinitions" in self._path
        self._state = self._read() if request.is_write and self._path else None

    def changes(self) -> str:
        """What is different now, or nothing. Only for requests that were refused."""
        if self._state is None or (now := self._read()) is None:
            return ""
        changed = sorted({name for name, _ in self._state.items() ^ now.items()})
        return f"refused, but changed {', '.join(changed[:5])} of {self._path}" if changed else ""

    def _read(self) -> dict[str, str] | None:
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        response = self._client.call("GET", self._path, accept=accept)
        if response.status != 200:
            return None
        items = response.json().get("items") or []
        return {
            f"{item['metadata'].get('namespace', '')}/{item['metadata']['name']}": ""
            if self._only_names
            else item["metadata"]["resourceVersion"]
            for item in items
        }


def resident(pid: int) -> int:
    """The memory a process holds, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0
