"""What the server decides about an object's metadata, whatever clients and webhooks sent."""

from __future__ import annotations

import msgspec

from quarterdeck.api.jsonobject import Json
from quarterdeck.apiserver.registry.request import ApiRequest
from quarterdeck.apiserver.registry.write.context import Context
from quarterdeck.apiserver.resource.resource import Resource
from quarterdeck.apiserver.uid import new_uid
from quarterdeck.wire import gostyle

_encode = msgspec.json.Encoder().encode


def wipe_system_metadata(meta: Json) -> None:
    """What a client may not decide about a new object is gone before anybody sees it."""
    for key in ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        meta.pop(key, None)


def fill_system_metadata(resource: Resource, request: ApiRequest, obj: Json, context: Context) -> None:
    """What the server decides about a new object's metadata, whatever client and webhooks sent."""
    meta = obj["metadata"]
    wipe_system_metadata(meta)
    meta["uid"] = new_uid()
    meta["creationTimestamp"] = context.now
    if resource.strategy.has_generation:
        meta["generation"] = 1
    if resource.namespaced:
        meta["namespace"] = request.info.namespace
    else:
        meta.pop("namespace", None)


def restore_system_metadata(meta: Json, old: Json) -> None:
    """On update these come from the stored object; a differing deletionTimestamp is left for validation."""
    for key in ("name", "namespace", "uid", "creationTimestamp", "generation"):
        if key in old:
            meta[key] = old[key]
        else:
            meta.pop(key, None)
    for key in ("deletionTimestamp", "deletionGracePeriodSeconds"):
        if key in old and key not in meta:
            meta[key] = old[key]
    meta.pop("selfLink", None)


def restore_status(new: Json, old: Json) -> None:
    if "status" in old:
        new["status"] = old["status"]
    else:
        new.pop("status", None)


def is_finished_deletion(meta: Json) -> bool:
    """The write removed the last finalizer of an object that waits for nothing else."""
    return (
        "deletionTimestamp" in meta
        and not meta.get("finalizers")
        and not meta.get("deletionGracePeriodSeconds")
    )


def drop_duplicate_owners(obj: Json, context: Context, *, is_patch: bool) -> None:
    """Owner references with the same uid are kept once, with a warning."""
    owners = obj["metadata"].get("ownerReferences")
    if not owners or len(owners) < 2:
        return
    seen: set[str] = set()
    kept = []
    doubled = False
    for owner in owners:
        key = _encode(owner).decode()
        if key in seen:
            doubled = True
            continue
        seen.add(key)
        kept.append(owner)
    if doubled:
        obj["metadata"]["ownerReferences"] = kept
        uids = ", ".join(owner.get("uid", "") for owner in kept)
        # upstream looks at a patched object only after admission
        when = " after mutating admission happens" if is_patch else ""
        context.warn(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references "
            "in 1.20+, and may reject such requests as early as 1.24; please fix your requests; "
            f"duplicate UID(s) observed: {gostyle.quote(uids)[1:-1]}"
        )
