"""One API request with its resource, user and options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from copy import copy
from functools import lru_cache

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.auth.user import UserInfo
from quarterdeck.apiserver.document.negotiate import Output
from quarterdeck.apiserver.registry.warning import Warnings
from quarterdeck.apiserver.requestinfo import RequestInfo
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError
from quarterdeck.wire.gonumber import parse_int
from quarterdeck.wire.http import Request, parse_query

_META_GROUP = "meta.k8s.io"
_FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")
_UNSET = ("",)


class ApiRequest:
    """A request for a known resource. `warnings` become `Warning: 299` headers of the answer."""

    __slots__ = ("http", "info", "output", "resource", "user", "warnings")

    def __init__(
        self, http: Request, info: RequestInfo, resource: Resource, user: UserInfo, output: Output
    ) -> None:
        self.http = http
        self.info = info
        self.resource = resource
        self.user = user
        self.output = output
        self.warnings = Warnings()

    def for_object(self, namespace: str, name: str) -> ApiRequest:
        """The same request about one object of the collection; warnings are shared."""
        info = copy(self.info)
        info.namespace, info.name = namespace, name
        scoped = ApiRequest(self.http, info, self.resource, self.user, self.output)
        scoped.warnings = self.warnings
        return scoped

    def warn(self, text: str) -> None:
        self.warnings.add(text)

    def param(self, name: str) -> str:
        return self.http.param(name)

    def flag(self, name: str) -> bool | None:
        """A boolean query parameter as Go's conversion reads it; None when absent."""
        if not self.http.raw_query or name not in self.http.query:
            return None
        return is_set(self.http.query[name])

    def integer(self, name: str) -> int | None:
        """A number in the query; None when absent, but an empty text is no number."""
        if not self.http.raw_query or name not in self.http.query:
            return None
        value = self.http.param(name)
        if (number := parse_int(value, -(2**63), 2**63 - 1)) is None:
            why = "value out of range" if re.fullmatch(r"[+-]?[0-9]+", value) else "invalid syntax"
            raise status.bad_request(f"strconv.ParseInt: parsing {gostyle.quote(value)}: {why}")
        return number


def is_set(values: Sequence[str] | None) -> bool:
    """A boolean query parameter as Go's conversion reads it: all words but these two mean yes."""
    return values is not None and values[0].lower() not in ("false", "0")


class WriteOptions:
    """dryRun, fieldManager, fieldValidation and force of a write; shared by requests that say the same."""

    __slots__ = (
        "dry_run",
        "field_manager",
        "field_validation",
        "force",
        "manager_given",
        "validation_given",
    )

    @staticmethod
    def of(request: ApiRequest, kind: str, *, is_apply: bool = False) -> WriteOptions:
        """The options of a request; raises StatusError."""
        http = request.http
        return _write_options(http.raw_query, http.headers.get("user-agent", ""), kind, is_apply)

    def __init__(self, raw_query: str, user_agent: str, kind: str, is_apply: bool) -> None:
        errors: list[FieldError] = []
        query = parse_query(raw_query)
        self.dry_run = "dryRun" in query and check_dry_run(query["dryRun"], errors)
        self.manager_given = query.get("fieldManager", _UNSET)[0]
        check_field_manager(self.manager_given, errors)
        self.validation_given = validation = query.get("fieldValidation", _UNSET)[0]
        if validation not in _FIELD_VALIDATION:
            errors.append(fielderror.not_supported("fieldValidation", validation, _FIELD_VALIDATION))
        self.field_validation = validation or "Warn"
        self.force = is_set(query["force"]) if "force" in query else None
        if kind == "PatchOptions":
            if is_apply:
                if not self.manager_given:
                    errors.insert(0, fielderror.required("fieldManager", "is required for apply patch"))
            elif self.force is not None:
                errors.insert(0, fielderror.forbidden("force", "may not be specified for non-apply patch"))
        if errors:
            raise status.invalid(kind, _META_GROUP, "", errors)
        self.field_manager = self.manager_given or default_manager(user_agent)

    def document(self, kind: str) -> Json:
        """The options as admission shows them."""
        body: Json = {"kind": kind, "apiVersion": "meta.k8s.io/v1"}
        if self.dry_run:
            body["dryRun"] = ["All"]
        if self.manager_given:
            body["fieldManager"] = self.manager_given
        if self.validation_given:
            body["fieldValidation"] = self.validation_given
        return body


#: programs write with a handful of options, thousands of times
_write_options = lru_cache(maxsize=256)(WriteOptions)


def check_dry_run(values: Sequence[str], errors: list[FieldError]) -> bool:
    if any(value != "All" for value in values):
        errors.append(fielderror.not_supported("dryRun", list(values), ["All"]))
    return bool(values)


def check_field_manager(manager: str, errors: list[FieldError]) -> None:
    if len(manager.encode()) > 128:
        errors.append(fielderror.too_long("fieldManager", 128))
    for index, char in enumerate(manager):
        if not char.isprintable():
            errors.append(
                fielderror.invalid(
                    "fieldManager",
                    manager,
                    f"invalid character U+{ord(char):04X} (at position {index})",
                )
            )
            break


def default_manager(user_agent: str) -> str:
    """The program's name in its User-Agent."""
    name = user_agent.partition("/")[0]
    name = "".join(char for char in name if char.isprintable())
    return name.encode()[:128].decode("utf-8", "ignore") or "unknown"
