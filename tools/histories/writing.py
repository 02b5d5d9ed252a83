"""Deeds that write objects: create, update, patches, apply, delete, deletecollection."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from .author import NAMES, PATCHES, Author, answered, query_of
from .kind import Kind

Json = dict[str, Any]
_OWN: Final = "labelSelector=u%3D$u"


def _options(random: Random) -> str:
    options = []
    if random.random() < 0.08:
        options.append("dryRun=All")
    if random.random() < 0.2:
        options.append(f"fieldManager=m{random.randint(1, 3)}")
    if random.random() < 0.15:
        options.append(f"fieldValidation={random.choice(['Strict', 'Warn', 'Ignore'])}")
    return "&".join(options)


def create(author: Author) -> None:
    random = author.random
    kind, namespace, name = author.place()
    labels = {"app": random.choice("abc")} if random.random() < 0.6 else None
    body = author.body(kind, name, labels, **kind.make(random))
    if random.random() < 0.15:
        body["metadata"]["finalizers"] = ["example.com/hold"]
    query = _options(random)
    form = "application/yaml" if random.random() < 0.06 else None
    number = author.request("POST", kind.path(namespace), body=body, query=query, type=form)
    if "dryRun" not in query and kind.path(namespace, name) not in author.objects:
        author.wrote(kind, namespace, name, number)


def update(author: Author) -> None:
    random = author.random
    kind, namespace, name = author.known()
    path = kind.path(namespace, name)
    change = kind.change(random)
    last = author.objects.get(path)
    subresource = _subresource(random, kind, change)
    if last is None:  # PUT of what is not there
        author.request("PUT", path, body=author.body(kind, name, **_content(random, kind)))
        return
    chance = random.random()
    if chance < 0.15 and len(author.writes) > 3:
        change = _with_revision(change, answered(random.choice(author.writes), "rv"))
    elif chance < 0.35:
        change = _with_revision(change, None)
    elif chance < 0.6:
        last = author.request("GET", path)
    if kind.is_custom or kind.kind == "HorizontalPodAutoscaler":  # it may be of another version
        change = {**change, "apiVersion": kind.version}
    target = kind.path(namespace, name, subresource)
    body = {"$from": last, "$merge": change}
    number = author.request("PUT", target, body=body, query=_options(random))
    author.wrote(kind, namespace, name, number)


def _with_revision(change: Json, revision: str | None) -> Json:
    return {**change, "metadata": {**change.get("metadata", {}), "resourceVersion": revision}}


def _subresource(random: Random, kind: Kind, change: Json) -> str:
    if "status" not in change or "status" not in kind.subresources:
        return ""
    # elsewhere the real server forgets all owners of an object whose status does not fit the schema
    if random.random() < 0.8 or change["status"].get("phase") == 1:
        return "status"
    return ""


def patch(author: Author) -> None:
    random = author.random
    kind, namespace, name = author.known()
    change = kind.change(random)
    if random.random() < 0.04 and author.objects:
        change = {"metadata": {"ownerReferences": [_owner(author)]}}
    subresource = _subresource(random, kind, change)
    if "scale" in kind.subresources and random.random() < 0.1:
        # one that it does not have: else the real server stores it nevertheless, with another owner
        replicas = random.choice([10 + len(author.steps), -1])
        subresource, change = "scale", {"spec": {"replicas": replicas}}
    forms = ["json", "merge", "merge", "strategic", "apply", "apply"]
    is_webhook = author.definition is not None and bool(author.definition.conversion)
    is_lossy = kind.is_custom and (subresource == "scale" or is_webhook)
    if is_lossy or kind.kind == "HorizontalPodAutoscaler":
        forms = forms[:4]  # the real server cannot convert a part of an object, or fills it up with zeros
    form = random.choice(forms)
    body: Any = change
    options = [_options(random)]
    if form == "json":
        body = _operations(change)
        if random.random() < 0.2:
            body.insert(0, {"op": "test", "path": "/metadata/name", "value": random.choice(NAMES)})
    elif form == "apply":
        body = _configuration(author, kind, name, subresource, change)
        if "fieldManager" not in options[0]:
            options.append(f"fieldManager=m{random.randint(1, 3)}")
        if random.random() < 0.4:
            options.append("force=true")
    if form in ("merge", "strategic") and random.random() < 0.1 and author.writes:
        body = _with_revision(body, answered(random.choice(author.writes[-4:]), "rv"))
    query = query_of(*options)
    path = kind.path(namespace, name, subresource)
    number = author.request("PATCH", path, body=body, query=query, type=PATCHES[form])
    may_be_there = form == "apply" or kind.path(namespace, name) in author.objects
    if may_be_there and "dryRun" not in query and subresource != "scale":
        author.wrote(kind, namespace, name, number)


def _content(random: Random, kind: Kind) -> Json:
    """For what may be there. No Service becomes ExternalName: the real server then hides a part of it."""
    content = kind.make(random)
    return {} if content.get("spec", {}).get("type") == "ExternalName" else content


def _configuration(author: Author, kind: Kind, name: str, subresource: str, change: Json) -> Json:
    """What is applied: the change, or a whole object with it."""
    random = author.random
    # a custom object always has its map: given up, the real server makes it null and refuses that
    is_whole = not subresource and (kind.is_custom or random.random() < 0.5)
    whole = _content(random, kind) if is_whole else {}
    body = {"apiVersion": kind.version, "kind": kind.kind, **whole, **change}
    if subresource == "scale":
        body |= {"apiVersion": "autoscaling/v1", "kind": "Scale"}
    body["metadata"] = {**body.get("metadata", {}), "name": kind.name(name)}
    if not kind.is_namespaced:
        body["metadata"]["labels"] = {**(body["metadata"].get("labels") or {}), "u": "$u"}
    return dict(_without_nulls(body))


def _owner(author: Author) -> Json:
    path, number = author.random.choice(sorted(author.objects.items()))
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": path.rpartition("/")[2]}
    return {**owner, "uid": answered(number, "uid"), "blockOwnerDeletion": author.random.random() < 0.5}


def delete(author: Author) -> None:
    random = author.random
    kind, namespace, name = author.known()
    if kind.is_custom and author.cannot_convert:
        return  # the real server refuses if its cache has the object, which takes a moment
    path = kind.path(namespace, name)
    options = _delete_options(random)
    if random.random() < 0.25:
        what = random.choice(["uid", "resourceVersion"])
        number = author.objects.get(path, 0) if random.random() < 0.6 else random.choice(author.writes or [0])
        options["preconditions"] = {what: answered(number, "uid" if what == "uid" else "rv")}
    if options and random.random() < 0.15 and "preconditions" not in options:
        query = "&".join(f"{key}={'All' if key == 'dryRun' else value}" for key, value in options.items())
        number = author.request("DELETE", path, query=query)
    else:
        number = author.request("DELETE", path, body=_delete_body(options))
    if "dryRun" not in options:
        author.revisions.append(number)
        # it may have stayed, by a finalizer: both is interesting
        if random.random() < 0.7:
            author.forget(kind, namespace, name)


def _delete_options(random: Random) -> Json:
    options: Json = {}
    if random.random() < 0.4:
        options["propagationPolicy"] = random.choice(["Background", "Foreground", "Orphan"])
    if random.random() < 0.3:
        options["gracePeriodSeconds"] = random.choice([0, 0, 5])
    # with Background the real server may show an object that is empty
    if random.random() < 0.08 and options.get("propagationPolicy") != "Background":
        options["dryRun"] = ["All"]
    return options


def _delete_body(options: Json) -> Json | None:
    return {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None


def delete_collection(author: Author) -> None:
    random = author.random
    kind, namespace = author.collection()
    selectors = (
        "",
        "labelSelector=app%3Da",
        "labelSelector=app!%3Da",
        "labelSelector=app+notin+(a,all),!tier",
        "fieldSelector=metadata.name%3Done",
    )
    selector = random.choice(selectors) if kind.is_namespaced else _OWN
    options = _delete_options(random) if random.random() < 0.4 else {}
    author.request("DELETE", kind.path(namespace), query=selector, body=_delete_body(options))
    query = "" if kind.is_namespaced else _OWN
    author.revisions.append(author.admin("GET", kind.path(namespace), query=query))


def _operations(change: Json, path: str = "") -> list[Json]:
    """A merge patch as a JSON patch of whatever lies deepest."""
    found: list[Json] = []
    for key, value in change.items():
        where = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
        if isinstance(value, dict):
            found += _operations(value, where)
        elif value is None:
            found.append({"op": "remove", "path": where})
        else:
            found.append({"op": "add", "path": where, "value": value})
    return found


def _without_nulls(value: Any) -> Any:
    """Nor what has nothing else in it: the real server stores empty maps that it does not show."""
    if isinstance(value, dict):
        kept = {key: _without_nulls(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in kept.items() if item != {} or value[key] == {}}
    return value
