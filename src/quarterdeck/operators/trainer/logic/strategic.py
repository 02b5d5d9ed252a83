"""How pod templates and JobSets merge, as far as overrides and patches reach into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarterdeck.api.jsonobject import Json
from quarterdeck.wire.patch import FieldRule, strategic_merge

_MERGE_KEYS: Final[Mapping[str, str]] = {
    "replicatedJobs": "name",
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "schedulingGates": "name",
    "volumeMounts": "mountPath",
}


class _ByFieldName:
    """Lists with a known name merge by their key, other lists are replaced."""

    def map_field(self, key: str) -> FieldRule:
        return FieldRule(self)

    def list_field(self, key: str) -> FieldRule:
        merge_key = _MERGE_KEYS.get(key, "")
        return FieldRule(self, "merge" if merge_key else "", merge_key)


_SCHEMA: Final = _ByFieldName()


def merge_template(original: Json, patch: Json) -> Json:
    """``original`` with ``patch`` merged in; parts may be shared with ``original``.

    >>> merge_template({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "B", "value": "2"}]})
    {'env': [{'name': 'B', 'value': '2'}, {'name': 'A', 'value': '1'}]}
    """
    return strategic_merge(original, patch, _SCHEMA)
