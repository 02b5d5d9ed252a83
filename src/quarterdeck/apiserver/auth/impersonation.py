"""Acting as somebody else: the Impersonate-* headers.

1.36 first tries the constrained forms, each of which needs two permissions: `impersonate:<mode>` on the
identity and `impersonate-on:<mode>:<verb>` on what is requested. The old form needs only `impersonate`
on the identity. The first refusal is the one that is reported; the form that last worked for a user is
tried first, so such a user is told about that form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final
from urllib.parse import unquote

import msgspec

from quarterdeck.apiserver import status
from quarterdeck.apiserver.metadata import regex_error, subdomain_errors
from quarterdeck.apiserver.status import StatusError
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError

from .attributes import AccessAttributes, forbidden_error
from .rbac import Authorizer, aggregate
from .user import (
    ANONYMOUS,
    AUTHENTICATED,
    MASTERS,
    NODE_NAME,
    NODES,
    UNAUTHENTICATED,
    UserInfo,
    service_account_groups,
    split_node,
    split_service_account,
)

_EXTRA_PREFIX: Final = "impersonate-extra-"
_GROUP: Final = "authentication.k8s.io"
_MANY: Final = 4
_REMEMBERED: Final = 10_000
_PATH = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+"
_is_path = re.compile(_PATH).fullmatch


class _Mode(msgspec.Struct, frozen=True):
    """One form; `applies` says whether it can express that the first user acts as the second."""

    name: str
    applies: Callable[[UserInfo, UserInfo], bool]

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}" if self.name else "impersonate"


def _is_bare(wanted: UserInfo) -> bool:
    return not (wanted.uid or wanted.groups or wanted.extra)


def _is_own_node(requestor: UserInfo, wanted: UserInfo) -> bool:
    node = split_node(wanted.name)
    if node is None or not _is_bare(wanted) or split_service_account(requestor.name) is None:
        return False
    return requestor.extra.get(NODE_NAME) == (node,)


_OWN_NODE: Final = _Mode("associated-node", _is_own_node)
_MODES: Final = (
    _OWN_NODE,
    _Mode("arbitrary-node", lambda _, wanted: _is_bare(wanted) and split_node(wanted.name) is not None),
    _Mode(
        "serviceaccount",
        lambda _, wanted: _is_bare(wanted) and split_service_account(wanted.name) is not None,
    ),
    _Mode(
        "user-info",
        lambda _, wanted: split_node(wanted.name) is None and split_service_account(wanted.name) is None,
    ),
    _Mode("", lambda _requestor, _wanted: True),
)


class Impersonator:
    """Turns a request's Impersonate-* headers into the user the request counts as."""

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer
        self._last: dict[str, _Mode] = {}

    def impersonate(self, attributes: AccessAttributes, headers: Iterable[tuple[str, str]]) -> UserInfo:
        """The user to go on with: the requestor itself when no such header is there.

        Raises 400 for headers without a user name and 403 when the requestor may not do this.
        """
        wanted = wanted_user(headers)
        if wanted is None:
            return attributes.user
        requestor = attributes.user
        refusal: StatusError | None = None
        last = self._last.get(requestor.name)
        modes = _MODES if last is None else (last, *(mode for mode in _MODES if mode is not last))
        for mode in modes:
            if not mode.applies(requestor, wanted):
                continue
            try:
                acting = self._check(mode, attributes, wanted)
            except StatusError as error:
                refusal = refusal or error
                continue
            if len(self._last) >= _REMEMBERED:
                self._last.clear()
            self._last[requestor.name] = mode
            return acting
        assert refusal is not None  # the last mode applies to everyone
        raise refusal

    def _check(self, mode: _Mode, attributes: AccessAttributes, wanted: UserInfo) -> UserInfo:
        requestor = attributes.user
        if mode is _OWN_NODE:
            # Upstream asks for the account, not for the pod it runs in: values of extra are withheld.
            keys = {"authentication.kubernetes.io/associated-node-keys": tuple(sorted(requestor.extra))}
            requestor = msgspec.structs.replace(requestor, extra=keys)
        if mode.name:
            verb = f"impersonate-on:{mode.name}:{attributes.verb}"
            self._require(msgspec.structs.replace(attributes, user=requestor, verb=verb))
        groups = self._check_name(mode, requestor, wanted)
        if wanted.uid:
            self._require(_question(requestor, mode, _GROUP, "uids", wanted.uid))
        self._check_groups(mode, requestor, wanted.groups)
        self._check_extra(mode, requestor, wanted)
        if wanted.name == ANONYMOUS:
            groups = groups if UNAUTHENTICATED in groups else (*groups, UNAUTHENTICATED)
        elif UNAUTHENTICATED not in groups and AUTHENTICATED not in groups:
            groups = (*groups, AUTHENTICATED)
        return msgspec.structs.replace(wanted, groups=groups)

    def _check_name(self, mode: _Mode, requestor: UserInfo, wanted: UserInfo) -> tuple[str, ...]:
        """Checks the name and answers the groups that come with it."""
        groups, resource, namespace, name = wanted.groups, "users", "", wanted.name
        node = split_node(wanted.name) if mode.name else None
        account = split_service_account(wanted.name)
        if node is not None:
            # Every node is asked for at once, for the same reason as above.
            resource, name, groups = "nodes", "*" if mode is _OWN_NODE else node, (NODES,)
        elif account is not None:
            resource, (namespace, name) = "serviceaccounts", account
            groups = groups or service_account_groups(namespace)
        group = _GROUP if mode.name else ""
        self._require(_question(requestor, mode, group, resource, name, namespace=namespace))
        return groups

    def _check_groups(self, mode: _Mode, requestor: UserInfo, groups: tuple[str, ...]) -> None:
        if not groups:
            return
        api_group = _GROUP if mode.name else ""
        if mode.name:
            question = _question(requestor, mode, api_group, "groups", "")
            if "" in groups:
                raise forbidden_error(question, "impersonating the empty string group is not allowed")
            if MASTERS in groups:
                question = msgspec.structs.replace(question, name=MASTERS)
                raise forbidden_error(question, "impersonating the system:masters group is not allowed")
            if len(groups) >= _MANY:
                everyone = msgspec.structs.replace(question, name="*")
                if self._authorizer.authorize(everyone).allowed:
                    return
        for group in groups:
            self._require(_question(requestor, mode, api_group, "groups", group))

    def _check_extra(self, mode: _Mode, requestor: UserInfo, wanted: UserInfo) -> None:
        extra = wanted.extra
        if mode.name and extra:
            why = _extra_error(wanted)
            if why:
                raise forbidden_error(_question(requestor, mode, _GROUP, "userextras", ""), why)
            if len(extra) >= _MANY or sum(map(len, extra.values())) >= _MANY:
                everything = _question(requestor, mode, _GROUP, "userextras", "*", subresource="*")
                if self._authorizer.authorize(everything).allowed:
                    return
        for key, values in extra.items():
            for value in values:
                self._require(_question(requestor, mode, _GROUP, "userextras", value, subresource=key))

    def _require(self, question: AccessAttributes) -> None:
        self._authorizer.check(question)


def wanted_user(headers: Iterable[tuple[str, str]]) -> UserInfo | None:
    """The user the Impersonate-* headers ask for, exactly as asked; None when there are none."""
    name = uid = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}
    asked = False
    for header, value in headers:
        key = header.lower()
        if not key.startswith("impersonate-"):
            continue
        if key == "impersonate-user":
            name = name or value
        elif key == "impersonate-uid":
            uid = uid or value
        elif key == "impersonate-group":
            groups.append(value)
            asked = True
        elif key.startswith(_EXTRA_PREFIX):
            extra.setdefault(_extra_key(key.removeprefix(_EXTRA_PREFIX)), []).append(value)
            asked = True
    wanted = UserInfo(name, uid, tuple(groups), {key: tuple(values) for key, values in extra.items()})
    if name:
        return wanted
    if asked or uid:
        raise status.bad_request(f"requested {_go_syntax(wanted)} without impersonating a user name")
    return None


def _question(
    requestor: UserInfo,
    mode: _Mode,
    group: str,
    resource: str,
    name: str,
    *,
    namespace: str = "",
    subresource: str = "",
) -> AccessAttributes:
    return AccessAttributes(
        user=requestor,
        verb=mode.verb,
        group=group,
        version="v1",
        resource=resource,
        subresource=subresource,
        namespace=namespace,
        name=name,
    )


def _extra_key(encoded: str) -> str:
    """Keys are percent-encoded; one that is not stays as it is."""
    if re.search(r"%(?![0-9a-fA-F]{2})", encoded):
        return encoded
    return unquote(encoded)


def _extra_error(wanted: UserInfo) -> str:
    for key, values in wanted.extra.items():
        if not key:
            return "impersonating the empty string key in extra is not allowed"
        problems = _extra_key_errors(key)
        if problems:
            texts = aggregate(str(problem) for problem in problems)
            return f"impersonating an invalid key in extra is not allowed: {texts}"
        if key != key.lower():
            return f"impersonating a non-lowercase key in extra is not allowed: {gostyle.quote(key)}"
        if "" in values:
            return "impersonating the empty string value in extra is not allowed"
    return ""


def _extra_key_errors(key: str) -> list[FieldError]:
    field = "extra.key"
    host, _, path = key.partition("/")
    if not host or not path:
        return [fielderror.invalid(field, key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = [fielderror.invalid(field, host, text) for text in subdomain_errors(host)]
    if not _is_path(path):
        errors.append(fielderror.invalid(field, path, regex_error("Invalid path", _PATH)))
    return errors


def _go_syntax(user: UserInfo) -> str:
    """The user as Go's `%#v` prints it, which is what upstream's text shows."""

    def strings(values: Iterable[str]) -> str:
        return "{" + ", ".join(gostyle.quote(value) for value in values) + "}"

    groups = f"[]string{strings(user.groups)}" if user.groups else "[]string(nil)"
    pairs = (f"{gostyle.quote(key)}:[]string{strings(values)}" for key, values in sorted(user.extra.items()))
    extra = "map[string][]string{" + ", ".join(pairs) + "}" if user.extra else "map[string][]string(nil)"
    return (
        f"&user.DefaultInfo{{Name:{gostyle.quote(user.name)}, UID:{gostyle.quote(user.uid)}, "
        f"Groups:{groups}, Extra:{extra}}}"
    )
