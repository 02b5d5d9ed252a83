"""Resource claims of pods: the claims themselves, and what containers say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver import errorlimit
from quarterdeck.apiserver.builtin.formats import validate_label
from quarterdeck.apiserver.metadata import invalid_json, label_errors, subdomain_errors
from quarterdeck.wire.fielderror import ErrorKind, FieldError, duplicate, forbidden, invalid, required


class ClaimNames:
    """The names of a pod's claims, for the containers that refer to them."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = frozenset(names)
        self._shown = f": {', '.join(sorted(self._names))}" if self._names else " which is empty"
        # an error names all claims, and each container may make some
        self._room = errorlimit.fitting(len(self._shown))

    def unknown(self, name: str, field: str) -> list[FieldError]:
        """The error of a container that refers to a claim the pod does not have."""
        if name in self._names or not self._room:
            return []
        self._room -= 1
        body = f'Not found: "{name}": must be one of the names in pod.spec.resourceClaims{self._shown}'
        return [FieldError(ErrorKind.NOT_FOUND, field, body)]


def validate_claim_references(claims: Sequence[Json], known: ClaimNames, field: str) -> list[FieldError]:
    """`resources.claims` of a container."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    requests: Counter[str] = Counter()  # how often a part of a claim was named, by the claim
    for index, claim in enumerate(claims):
        path = f"{field}[{index}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(required(path))
            continue
        request = claim.get("request") or ""
        if name in seen:
            errors.append(duplicate(path, name))
        else:
            key = name
            if request:
                errors += validate_label(request, f"{path}.request")
                key = f"{name}/{request}"
            if key in seen:
                errors.append(duplicate(path, key))
            else:
                if not request:
                    errors += errorlimit.repeated(duplicate(path, name), requests[name])
                seen.add(key)
                claimed, slash, _ = key.partition("/")
                if slash:
                    requests[claimed] += 1
        errors += known.unknown(name, path)
    return errors


def validate_claims(claims: Sequence[Json], field: str, *, is_mirror: bool) -> list[FieldError]:
    """`spec.resourceClaims` of a pod."""
    errors: list[FieldError] = []
    names: set[str] = set()
    for index, claim in enumerate(claims):
        if is_mirror:
            errors.append(forbidden("", "static pods do not support resource claims"))
            continue
        path = f"{field}[{index}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(required(f"{path}.name"))
        elif name in names:
            errors.append(duplicate(f"{path}.name", name))
        else:
            errors += [invalid(f"{path}.name", name, text) for text in label_errors(name)]
            names.add(name)
        errors += _source_errors(claim, name, path)
    return errors


def _source_errors(claim: Mapping[str, Any], name: str, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    direct, template = claim.get("resourceClaimName"), claim.get("resourceClaimTemplateName")
    shown = {"Name": name, "ResourceClaimName": direct, "ResourceClaimTemplateName": template}
    if direct is not None and template is not None:
        text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
        errors.append(invalid_json(path, shown, text))
    if direct is None and template is None:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        errors.append(invalid_json(path, shown, text))
    for key in ("resourceClaimName", "resourceClaimTemplateName"):
        if (value := claim.get(key)) is not None:
            errors += [invalid(f"{path}.{key}", value, text) for text in subdomain_errors(value)]
    return errors
