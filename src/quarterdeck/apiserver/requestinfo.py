"""What a request asks for: path and method turned into Kubernetes terms.

Pure parsing; whether the resource exists is the registry's business.
"""

from __future__ import annotations

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_COLLECTION_VERBS = {"GET": "list", "HEAD": "list", "DELETE": "deletecollection"}


class RequestInfo:
    """The target of a request. `resource` is empty for non-resource paths."""

    __slots__ = ("group", "name", "namespace", "path", "resource", "subresource", "verb", "version")

    def __init__(self, method: str, path: str, *, watch: bool = False) -> None:
        self.path = path
        self.group = ""
        self.version = ""
        self.namespace = ""
        self.resource = ""
        self.name = ""
        self.subresource = ""
        self.verb = method.lower()
        parts = path.split("/")[1:]
        if parts and not parts[-1]:
            parts.pop()  # a trailing slash means the same
        if len(parts) > 2 and parts[0] == "api":
            self.version = parts[1]
            self._parse_resource(method, parts[2:], watch)
        elif len(parts) > 3 and parts[0] == "apis":
            self.group = parts[1]
            self.version = parts[2]
            self._parse_resource(method, parts[3:], watch)

    def _parse_resource(self, method: str, parts: list[str], watch: bool) -> None:
        is_prefixed = parts[0] == "watch" and len(parts) > 1  # the old /watch/ paths
        if is_prefixed:
            parts = parts[1:]
            watch = True
        if parts[0] == "namespaces" and len(parts) > 1:
            if len(parts) > 2 and parts[2] not in ("status", "finalize"):
                self.namespace = parts[1]
                parts = parts[2:]
            else:
                self.namespace = parts[1]  # a namespace is authorized within itself
        self.resource = parts[0]
        if len(parts) > 1:
            self.name = parts[1]
        if len(parts) > 2:
            # What stands behind a proxy is the business of whoever is reached through it.
            self.subresource = "proxy" if parts[2] == "proxy" else "/".join(parts[2:])
        if not self.name:
            verb = _COLLECTION_VERBS.get(method) or _VERBS.get(method, "")
            self.verb = "watch" if watch and verb == "list" else verb
        else:
            self.verb = _VERBS.get(method, "")  # other methods have no verb
            if is_prefixed and self.verb == "get":
                self.verb = "watch"  # of one object
