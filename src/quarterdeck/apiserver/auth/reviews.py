"""The review resources: questions about identity and access, answered in the status of what was posted.

All functions are pure given what they ask (`Authorizer`, `Authenticator`). They take the document as decoded
and answer the document to send with 201. Managed fields, which upstream adds to most of them, are the
business of the pipeline; they are passed through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import status
from quarterdeck.apiserver.document.internalform import ordered_metadata
from quarterdeck.apiserver.metadata import label_value_errors, qualified_name_errors
from quarterdeck.wire import fielderror, gostyle
from quarterdeck.wire.fielderror import FieldError

from .attributes import AccessAttributes, field_requirements, path_attributes
from .authenticate import INVALID_TOKEN, Authenticator
from .jwt import TokenError
from .rbac import Authorizer
from .user import UserInfo

AUTHORIZATION: Final = "authorization.k8s.io"
AUTHENTICATION: Final = "authentication.k8s.io"
_SYSTEM_FIELDS: Final = frozenset(
    {"uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"}
)
_CLEARED: Final = _SYSTEM_FIELDS | {"namespace"}  # of cluster-scoped objects

Document = Mapping[str, Any]


def subject_access_review(document: Document, authorizer: Authorizer) -> Json:
    """Whether the named user may do something; 422 when the question is not well put."""
    spec, metadata = _parts(document)
    errors = _spec_errors(spec, needs_user=True)
    errors += _metadata_errors(metadata, "must be empty")
    return _access_answer("SubjectAccessReview", spec, metadata, errors, _subject(spec), authorizer)


def self_subject_access_review(document: Document, user: UserInfo, authorizer: Authorizer) -> Json:
    """Whether the requestor may do something (`kubectl auth can-i`)."""
    spec, metadata = _parts(document)
    errors = _spec_errors(spec, needs_user=False)
    errors += _metadata_errors(metadata, "must be empty")
    return _access_answer("SelfSubjectAccessReview", spec, metadata, errors, user, authorizer)


def local_subject_access_review(document: Document, namespace: str, authorizer: Authorizer) -> Json:
    """Whether the named user may do something in the namespace of the request."""
    spec, metadata = _parts(document, cleared=_SYSTEM_FIELDS)
    own = metadata.setdefault("namespace", namespace)
    if own != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    errors = _spec_errors(spec, needs_user=True)
    errors += _metadata_errors(metadata, "must be empty except for namespace", ignored="namespace")
    resource = spec.get("resourceAttributes")
    if resource is not None and resource.get("namespace", "") != namespace:
        detail = "must match metadata.namespace"
        value = resource.get("namespace", "")
        errors.append(fielderror.invalid("spec.resourceAttributes.namespace", value, detail))
    path = spec.get("nonResourceAttributes")
    if path is not None:
        detail = "disallowed on this kind of request"
        errors.append(fielderror.invalid("spec.nonResourceAttributes", _internal(path), detail))
    return _access_answer("LocalSubjectAccessReview", spec, metadata, errors, _subject(spec), authorizer)


def self_subject_rules_review(document: Document, user: UserInfo, authorizer: Authorizer) -> Json:
    """Everything the requestor may do in a namespace (`kubectl auth can-i --list`)."""
    namespace = (document.get("spec") or {}).get("namespace") or ""
    if not namespace:
        raise status.bad_request("no namespace on request")
    held = authorizer.rules_for(user, namespace)
    answer: Json = {
        "resourceRules": [
            _present(
                verbs=rule.verbs,
                apiGroups=rule.groups,
                resources=rule.resources,
                resourceNames=rule.names,
            )
            for rule in held.rules
            if rule.resources
        ],
        "nonResourceRules": [
            _present(verbs=rule.verbs, nonResourceURLs=rule.paths) for rule in held.rules if rule.paths
        ],
        "incomplete": False,
    }
    if held.error:
        answer["evaluationError"] = held.error
    return _document("SelfSubjectRulesReview", AUTHORIZATION, {}, spec={}, status=answer)


def token_review(document: Document, authenticator: Authenticator) -> Json:
    """Whose token this is, if anybody's."""
    spec, metadata = _parts(document)
    token = spec.get("token") or ""
    if not token:
        raise status.bad_request("token is required for TokenReview in authentication")
    answer: Json
    try:
        found = authenticator.authenticate_token(token, spec.get("audiences") or ())
    except TokenError as error:
        text = str(error)
        answer = {"user": {}, "error": text if text == INVALID_TOKEN else f"[{INVALID_TOKEN}, {text}]"}
    else:
        answer = {"authenticated": True, "user": found.user.to_json()}
        if found.audiences:
            answer["audiences"] = list(found.audiences)
    return _document("TokenReview", AUTHENTICATION, metadata, spec=spec, status=answer)


def self_subject_review(user: UserInfo, now: str) -> Json:
    """Who the requestor is (`kubectl auth whoami`); `now` in RFC 3339."""
    answer = {"userInfo": user.to_json()}
    return _document("SelfSubjectReview", AUTHENTICATION, {"creationTimestamp": now}, status=answer)


def _document(kind: str, group: str, metadata: Json, **parts: Any) -> Json:
    return {"kind": kind, "apiVersion": f"{group}/v1", "metadata": metadata, **parts}


def _parts(document: Document, *, cleared: frozenset[str] = _CLEARED) -> tuple[Document, Json]:
    """spec, and metadata without what the server always clears on creation."""
    given = document.get("metadata") or {}
    metadata = {key: value for key, value in given.items() if key not in cleared and value}
    return document.get("spec") or {}, metadata


def _present(**values: Sequence[str]) -> Json:
    return {key: list(value) for key, value in values.items() if value or key == "verbs"}


def _subject(spec: Document) -> UserInfo:
    return UserInfo(
        name=spec.get("user") or "",
        uid=spec.get("uid") or "",
        groups=tuple(spec.get("groups") or ()),
        extra={key: tuple(values) for key, values in (spec.get("extra") or {}).items()},
    )


def _access_answer(
    kind: str,
    spec: Document,
    metadata: Json,
    errors: list[FieldError],
    user: UserInfo,
    authorizer: Authorizer,
) -> Json:
    if errors:
        raise status.invalid("", AUTHORIZATION, "", errors)  # upstream leaves the kind out
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes") or {}
    if resource is None:
        question = path_attributes(user, path.get("verb", ""), path.get("path", ""))
    else:
        question = AccessAttributes(
            user=user,
            verb=resource.get("verb", ""),
            group=resource.get("group", ""),
            version=resource.get("version") or "*",
            resource=resource.get("resource", ""),
            subresource=resource.get("subresource", ""),
            namespace=resource.get("namespace", ""),
            name=resource.get("name", ""),
        )
    decision = authorizer.authorize(question)
    answer: Json = {"allowed": decision.allowed}
    if decision.reason:
        answer["reason"] = decision.reason
    ignored = _selector_problems(resource or {})
    if ignored:
        answer["evaluationError"] = "; ".join(ignored)
    return _document(kind, AUTHORIZATION, metadata, spec=spec, status=answer)


def _spec_errors(spec: Document, *, needs_user: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        errors.append(fielderror.invalid("spec.nonResourceAttributes", _internal(path), detail))
    if resource is None and path is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        errors.append(fielderror.invalid("spec.resourceAttributes", None, detail))
    if needs_user and not spec.get("user") and not spec.get("groups"):
        detail = "at least one of user or group must be specified"
        errors.append(fielderror.invalid("spec.user", "", detail))
    for kind in ("fieldSelector", "labelSelector"):
        selector = (resource or {}).get(kind)
        if selector is not None:
            errors += _selector_errors(selector, f"spec.resourceAttributes.{kind}", is_label=kind[0] == "l")
    return errors


def _internal(path: Document) -> Json:
    """nonResourceAttributes with the names its Go type has, which the texts show."""
    return {"Path": path.get("path", ""), "Verb": path.get("verb", "")}


def _metadata_errors(metadata: Json, detail: str, *, ignored: str = "") -> list[FieldError]:
    if metadata.keys() <= {"managedFields", ignored}:
        return []
    shown = msgspec.Raw(gostyle.escaped(msgspec.json.encode(ordered_metadata(metadata))))
    return [fielderror.invalid("metadata", shown, detail)]


def _selector_errors(selector: Document, field: str, *, is_label: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or ()
    if raw and requirements:
        detail = "may not specified at the same time as requirements"
        errors.append(fielderror.invalid(f"{field}.rawSelector", raw, detail))
    if not raw and not requirements:
        detail = f"when {field} is specified, requirements or rawSelector is required"
        errors.append(fielderror.required(f"{field}.requirements", detail))
    for index, requirement in enumerate(requirements):
        errors += _requirement_errors(requirement, f"{field}.requirements[{index}]", is_label=is_label)
    return errors


def _requirement_errors(requirement: Document, field: str, *, is_label: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    key, values = requirement.get("key") or "", requirement.get("values") or ()
    if not is_label and not key:
        errors.append(fielderror.required(f"{field}.key", "must be specified"))
    operator = requirement.get("operator")
    if operator in ("In", "NotIn") and not values:
        detail = "must be specified when `operator` is 'In' or 'NotIn'"
        errors.append(fielderror.required(f"{field}.values", detail))
    if operator in ("Exists", "DoesNotExist") and values:
        detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        errors.append(fielderror.forbidden(f"{field}.values", detail))
    if is_label:
        errors += (fielderror.invalid(f"{field}.key", key, text) for text in qualified_name_errors(key))
        for index, value in enumerate(values):
            path = f"{field}.values[{index}]"
            errors += (fielderror.invalid(path, value, text) for text in label_value_errors(value))
    return errors


def _selector_problems(resource: Document) -> list[str]:
    problems = []
    for kind in ("fieldSelector", "labelSelector"):
        selector = resource.get(kind) or {}
        raw, requirements = selector.get("rawSelector"), selector.get("requirements") or ()
        understood = [_is_understood(requirement, kind) for requirement in requirements]
        if (raw and not _is_selector(raw, kind)) or not all(understood):
            how = "partially ignored" if any(understood) else "ignored"
            problems.append(f"spec.resourceAttributes.{kind} {how} due to parse error")
    return problems


def _is_understood(requirement: Document, kind: str) -> bool:
    operator, values = requirement.get("operator"), requirement.get("values") or ()
    if kind == "fieldSelector":
        return operator in ("In", "NotIn") and len(values) == 1
    return operator in ("In", "NotIn", "Exists", "DoesNotExist")


def _is_selector(raw: str, kind: str) -> bool:
    if kind == "fieldSelector":
        return field_requirements(raw) is not None
    # The registry imports this package: the parser can only be had when it is needed.
    from quarterdeck.api.selector import Selector
    from quarterdeck.errors import SchemaError

    try:
        Selector.parse(raw)
    except SchemaError:
        return False
    return True
