"""What a request wants to do, as the authorizer sees it.

Whether the resource exists plays no part here: authorization comes before routing.
"""

from __future__ import annotations

from typing import Final

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.metadata import path_segment_errors
from quarterdeck.apiserver.requestinfo import RequestInfo
from quarterdeck.wire import gostyle

from .user import UserInfo

_HTML: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class AccessAttributes(msgspec.Struct, frozen=True):
    """One access question. Either a resource (`is_resource`) or a `path` is asked for."""

    user: UserInfo
    verb: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    is_resource: bool = True
    field_selector: str = ""
    label_selector: str = ""

    @property
    def object_name(self) -> str:
        """The name that resourceNames rules are compared with.

        A list or watch narrowed by `metadata.name=X` counts as asking for X.
        """
        if self.name or not self.field_selector or self.verb not in ("list", "watch"):
            return self.name
        return name_in_field_selector(self.field_selector)


def path_attributes(user: UserInfo, verb: str, path: str) -> AccessAttributes:
    """A question about a non-resource path such as `/metrics`."""
    return AccessAttributes(user=user, verb=verb, path=path, is_resource=False)


def forbidden_error(attributes: AccessAttributes, reason: str = "") -> status.StatusError:
    """403 in upstream's words; `reason` is what the authorizer had to say, if anything."""
    why = _refusal(attributes).translate(_HTML)
    if reason:
        why = f"{why}: {reason}"
    if not attributes.is_resource:
        return status.forbidden("", "", "", why)
    return status.forbidden(attributes.resource, attributes.group, attributes.object_name, why)


def _refusal(attributes: AccessAttributes) -> str:
    who = f"User {gostyle.quote(attributes.user.name)} cannot {attributes.verb}"
    if not attributes.is_resource:
        return f"{who} path {gostyle.quote(attributes.path)}"
    resource = attributes.resource
    if attributes.subresource:
        resource = f"{resource}/{attributes.subresource}"
    what = f"{who} resource {gostyle.quote(resource)} in API group {gostyle.quote(attributes.group)}"
    if attributes.namespace:
        return f"{what} in the namespace {gostyle.quote(attributes.namespace)}"
    return f"{what} at the cluster scope"


def request_attributes(
    user: UserInfo, info: RequestInfo, *, field_selector: str = "", label_selector: str = ""
) -> AccessAttributes:
    """The question a request asks. Selectors count for list, watch and deletecollection."""
    if not info.resource:
        return path_attributes(user, info.verb, info.path)
    selects = not info.name and info.verb in ("list", "watch", "deletecollection")
    return AccessAttributes(
        user=user,
        verb=info.verb,
        group=info.group,
        version=info.version,
        resource=info.resource,
        subresource=info.subresource.partition("/")[0],
        namespace=info.namespace,
        name=info.name,
        path=info.path,
        field_selector=field_selector if selects else "",
        label_selector=label_selector if selects else "",
    )


def name_in_field_selector(selector: str) -> str:
    """X of a selector that demands `metadata.name=X`; "" when it does not, or cannot be read."""
    for field, operator, value in field_requirements(selector) or ():
        if field == "metadata.name" and operator != "!=":
            return "" if path_segment_errors(value) else value
    return ""


def field_requirements(selector: str) -> list[tuple[str, str, str]] | None:
    """A field selector as (field, operator, value); None when it cannot be read."""
    requirements = []
    for term in _split_unescaped(selector):
        if not term:
            continue
        field, operator, escaped = _split_term(term)
        value = _unescape(escaped)
        if not operator or value is None:
            return None
        requirements.append((field, operator, value))
    return requirements


def _split_unescaped(selector: str) -> list[str]:
    terms, start, position = [], 0, 0
    while position < len(selector):
        if selector[position] == "\\":
            position += 1
        elif selector[position] == ",":
            terms.append(selector[start:position])
            start = position + 1
        position += 1
    terms.append(selector[start:])
    return terms


def _split_term(term: str) -> tuple[str, str, str]:
    for position, char in enumerate(term):
        if char not in "!=":
            continue
        for operator in ("!=", "==", "="):
            if term.startswith(operator, position):
                return term[:position], operator, term[position + len(operator) :]
    return "", "", ""


def _unescape(value: str) -> str | None:
    if "\\" not in value and "," not in value and "=" not in value:
        return value
    result, position = [], 0
    while position < len(value):
        char = value[position]
        if char == "\\":
            position += 1
            if position == len(value) or value[position] not in "\\,=":
                return None
            result.append(value[position])
        elif char in ",=":
            return None
        else:
            result.append(char)
        position += 1
    return "".join(result)
