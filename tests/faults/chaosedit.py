"""What somebody else does to the world of the operators: replaces what they made, takes names that they want,
edits definitions. Every act leaves the world as it could be on any cluster."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Final

from quarterdeck.api import DynamicObject, GroupVersionKind
from quarterdeck.api.k8s.apiextensions import CustomResourceDefinition
from quarterdeck.client import Client
from quarterdeck.errors import AlreadyExists, ApiError, Conflict, NotFound

__all__ = ["FOREIGN", "REPLACED", "edit_definition", "replace_object", "take_name"]

Json = dict[str, Any]
_POD_GROUP: Final = GroupVersionKind("scheduling.run.ai", "v2alpha2", "PodGroup")
_POD_GANG: Final = GroupVersionKind("scheduler.grove.io", "v1alpha1", "PodGang")
_CLIQUE: Final = GroupVersionKind("grove.io", "v1alpha1", "PodClique")
_JOB_SET: Final = GroupVersionKind("jobset.x-k8s.io", "v1alpha2", "JobSet")
_JOB: Final = GroupVersionKind("batch", "v1", "Job")
_SERVICE: Final = GroupVersionKind("", "v1", "Service")
_ACCOUNT: Final = GroupVersionKind("", "v1", "ServiceAccount")
_ROLE: Final = GroupVersionKind("rbac.authorization.k8s.io", "v1", "Role")
_DEFINITION: Final = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")

REPLACED: Final = (_POD_GROUP, _POD_GANG, _CLIQUE, _JOB_SET, _JOB, _SERVICE, _ACCOUNT, _ROLE)
"""Kinds of which an object gives way to a copy of it, under its name and another uid."""
FOREIGN: Final = (_POD_GROUP, _JOB_SET, _JOB, _SERVICE, _ACCOUNT, _ROLE)
"""Kinds of which an object that nobody made for an operator takes a name that one wants."""
_BELONGING: Final = ("labels", "ownerReferences")
_PATIENCE: Final = 20
_MADE_BY_SERVER: Final = frozenset(
    f"{prefix}{name}" for prefix in ("", "batch.kubernetes.io/") for name in ("controller-uid", "job-name")
)


async def _pick(client: Client, dice: random.Random, kinds: tuple[GroupVersionKind, ...]) -> Json | None:
    """An object that some controller made, and that nobody deletes just now."""
    found: list[Json] = []
    for kind in kinds:
        for each in (await client.list(kind)).items:
            document: Json = each.to_dict()
            metadata = document["metadata"]
            owners = metadata.get("ownerReferences") or ()
            if any(owner.get("controller") for owner in owners) and "deletionTimestamp" not in metadata:
                found.append(document)
    return dice.choice(found) if found else None


async def _swap(client: Client, old: Json, new: Json) -> DynamicObject | None:
    """Delete an object and make another of its name before anybody else does; None if somebody was faster."""
    metadata = old["metadata"]
    try:
        # as kubectl does it: the pods of a Job would be left as orphans otherwise
        await client.delete(DynamicObject.from_dict(old), uid=metadata["uid"], propagation="Background")
    except (NotFound, Conflict):
        return None
    for _ in range(_PATIENCE):
        try:
            return await client.create(DynamicObject.from_dict(new))
        except AlreadyExists:  # finalizers may keep it for a moment, or its owner has made another one
            current = await client.get(_kind(old), metadata["name"], metadata.get("namespace", ""))
            if current.metadata.uid != metadata["uid"]:
                return None
        except ApiError:  # its owner is gone, or its namespace is
            return None
        await asyncio.sleep(1.0)
    return None


def _kind(document: Json) -> GroupVersionKind:
    group, _, version = document["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, document["kind"])


def _copy(document: Json, *keys: str) -> Json:
    """An object like another, with only these parts of its metadata."""
    metadata = {key: document["metadata"][key] for key in keys if key in document["metadata"]}
    made = {key: value for key, value in document.items() if key != "status"} | {"metadata": metadata}
    if document["kind"] == "Job":  # the server makes these, by the uid
        spec = {key: value for key, value in document["spec"].items() if key != "selector"}
        metadata = spec["template"].get("metadata", {})
        labels = {
            key: value for key, value in metadata.get("labels", {}).items() if key not in _MADE_BY_SERVER
        }
        made["spec"] = {**spec, "template": {**spec["template"], "metadata": {**metadata, "labels": labels}}}
    return made


async def replace_object(client: Client, dice: random.Random) -> bool:
    """As ``kubectl replace --force`` does."""
    old = await _pick(client, dice, REPLACED)
    if old is None:
        return False
    keys = ("name", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
    return await _swap(client, old, _copy(old, *keys)) is not None


async def take_name(client: Client, dice: random.Random, seconds: float) -> str | None:
    """Let an object of nobody's have a name that an operator wants, for some time; what was done to it, empty
    if nothing. None if there was no such name."""
    old = await _pick(client, dice, FOREIGN)
    if old is None:
        return None
    foreign = await _swap(client, old, _copy(old, "name", "namespace"))
    if foreign is None:
        return None
    await asyncio.sleep(seconds)
    where = f"{old['kind']} {foreign.metadata.namespace}/{foreign.metadata.name}"
    try:
        current = await client.get(_kind(old), foreign.metadata.name, foreign.metadata.namespace)
    except NotFound:
        return f"foreign {where} was deleted"
    if current.metadata.uid != foreign.metadata.uid:
        return f"foreign {where} was deleted"
    await client.delete(current, uid=current.metadata.uid, propagation="Background")
    before, after = foreign.to_dict(), current.to_dict()
    if any(before["metadata"].get(key) != after["metadata"].get(key) for key in _BELONGING):
        return f"foreign {where} was taken: {after['metadata']}"
    if any(before.get(key) != after.get(key) for key in after if key not in ("metadata", "status")):
        return f"foreign {where} was changed"
    return ""


async def edit_definition(client: Client, dice: random.Random, number: int) -> None:
    """Change what a definition says of its kind, and what a list of it shows."""
    definitions = (await client.list(CustomResourceDefinition)).items
    chosen = dice.choice(sorted(definitions, key=lambda each: each.metadata.name))
    document: Json = (await client.get(_DEFINITION, chosen.metadata.name)).to_dict()
    for version in document["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        schema["description"] = f"Edited {number} times."
        schema["properties"]["note"] = {"type": "string"}
        columns = version.get("additionalPrinterColumns") or []
        version["additionalPrinterColumns"] = [
            *(each for each in columns if each["name"] != "Note"),
            {"name": "Note", "type": "string", "jsonPath": ".note"},
        ]
    await client.update(DynamicObject.from_dict(document))
