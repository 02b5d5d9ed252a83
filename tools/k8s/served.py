"""Record what a fresh real server serves and creates: resources, table columns, bootstrap objects.

    cd tools && python -m k8s.served            write src/quarterdeck/apiserver/data/resources.json
    cd tools && python -m k8s.served --check    fail if the committed file differs

It starts the real server itself (see tools/kube/server.py), so ``make kube`` must have been run. It also
proves that all discovery documents, aggregated and not, can be made from the file alone.

    {"groups": [{"group": "", "versions": [{"version": "v1", "resources": [resource, ...]}]}, ...],
     "bootstrap": {resource: [object, ...]}}

Groups, versions and resources are in the server's order, the core group first. A resource is

    {"name", "singularName", "kind", "namespaced", "verbs", "shortNames"?, "categories"?,
     "storageVersionHash"?, "subresources"?: [{"name", "kind", "verbs", "group"?, "version"?}],
     "columns"?: [[name, type, format, priority], ...]}

where columns are those of its Table. Bootstrap objects have the metadata that the server chose itself (name,
namespace, labels, annotations) and no apiVersion, kind or times; the resources are RBAC's four, priority
classes, flow schemas and priority levels.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Final

from kube.server import RealServer

OUTPUT: Final = Path(__file__).resolve().parents[2] / "src/quarterdeck/apiserver/data/resources.json"
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
TABLE: Final = "application/json;as=Table;g=meta.k8s.io;v=v1"
BOOTSTRAP: Final = {
    "clusterroles": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "roles": "/apis/rbac.authorization.k8s.io/v1/roles",
    "rolebindings": "/apis/rbac.authorization.k8s.io/v1/rolebindings",
    "priorityclasses": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "flowschemas": "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
    "prioritylevelconfigurations": "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
}

Json = dict[str, Any]


def record(server: RealServer) -> Json:
    """Everything that goes into the file."""
    groups = [{"group": "", "versions": [_version(server, "", "v1")]}]
    for group in server.get("/apis")["groups"]:
        versions = [_version(server, group["name"], each["version"]) for each in group["versions"]]
        groups.append({"group": group["name"], "versions": versions})
    return {"groups": groups, "bootstrap": {key: _objects(server, path) for key, path in BOOTSTRAP.items()}}


def _path(group: str, version: str) -> str:
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def _version(server: RealServer, group: str, version: str) -> Json:
    path = _path(group, version)
    resources: dict[str, Json] = {}
    for each in server.get(path)["resources"]:
        name, _, sub = each.pop("name").partition("/")
        if sub:
            del each["singularName"], each["namespaced"]
            resources[name].setdefault("subresources", []).append({"name": sub, **each})
            continue
        resources[name] = {"name": name, **each}
        if "list" in each["verbs"]:
            table = server.get(f"{path}/{name}", TABLE)
            resources[name]["columns"] = [
                [column["name"], column["type"], column["format"], column["priority"]]
                for column in table["columnDefinitions"]
            ]
    return {"version": version, "resources": list(resources.values())}


def _objects(server: RealServer, path: str) -> list[Json]:
    # The conditions of flow schemas come a moment after readiness.
    deadline = time.monotonic() + 30
    while True:
        items: list[Json] = server.get(path)["items"]
        if not path.endswith("/flowschemas") or all(item["status"].get("conditions") for item in items):
            return [_plain(item) for item in items]
        if time.monotonic() > deadline:
            raise TimeoutError(f"no conditions in {path}")
        time.sleep(0.2)


def _plain(item: Json) -> Json:
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in ("name", "namespace", "labels", "annotations") if key in metadata}
    for condition in item.get("status", {}).get("conditions", []):
        del condition["lastTransitionTime"]
    return {**item, "metadata": kept}


def unreproducible(server: RealServer, data: Json) -> list[str]:
    """The discovery documents that cannot be made from the data, which should be none."""
    problems = []

    def compare(path: str, made: Any, accept: str = "application/json") -> None:
        if server.get(path, accept) != made:
            problems.append(f"{path} ({accept}) cannot be made from the data")

    aggregated = []
    for group in data["groups"]:
        name = group["group"]
        for version in group["versions"]:
            api_version = f"{name}/{version['version']}" if name else version["version"]
            compare(_path(name, version["version"]), _resource_list(api_version, version["resources"]))
        if name:
            compare(f"/apis/{name}", {"kind": "APIGroup", "apiVersion": "v1", **_group(group)})
        versions = [
            {
                "version": version["version"],
                "resources": [_discovery(resource) for resource in version["resources"]],
                "freshness": "Current",
            }
            for version in group["versions"]
        ]
        aggregated.append({"metadata": {"name": name} if name else {}, "versions": versions})
    head = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}}
    compare("/api", {**head, "items": aggregated[:1]}, AGGREGATED)
    compare("/apis", {**head, "items": aggregated[1:]}, AGGREGATED)
    compare(
        "/apis",
        {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(each) for each in data["groups"][1:]]},
    )
    return problems


def _group(group: Json) -> Json:
    versions = [
        {"groupVersion": f"{group['group']}/{each['version']}", "version": each["version"]}
        for each in group["versions"]
    ]
    return {"name": group["group"], "versions": versions, "preferredVersion": versions[0]}


def _resource_list(api_version: str, resources: list[Json]) -> Json:
    entries = []
    for resource in resources:
        entries.append({k: v for k, v in resource.items() if k not in ("subresources", "columns")})
        for sub in resource.get("subresources", []):
            scope = {"singularName": "", "namespaced": resource["namespaced"]}
            entries.append({**sub, **scope, "name": f"{resource['name']}/{sub['name']}"})
    head = {"kind": "APIResourceList", "groupVersion": api_version, "resources": entries}
    return head if api_version == "v1" else {**head, "apiVersion": "v1"}


def _discovery(resource: Json) -> Json:
    def kind(entry: Json) -> Json:
        # Empty means: as the enclosing group version.
        return {
            "group": entry.get("group", ""),
            "version": entry.get("version", ""),
            "kind": entry["kind"],
        }

    result = {
        "resource": resource["name"],
        "responseKind": kind(resource),
        "scope": "Namespaced" if resource["namespaced"] else "Cluster",
        "singularResource": resource["singularName"],
        "verbs": resource["verbs"],
    }
    result |= {key: resource[key] for key in ("shortNames", "categories") if key in resource}
    if "subresources" in resource:
        result["subresources"] = [
            {"subresource": sub["name"], "responseKind": kind(sub), "verbs": sub["verbs"]}
            for sub in resource["subresources"]
        ]
    return result


def encode(data: Json) -> str:
    """One resource or object per line: small, and a change shows as a small difference."""

    def line(value: Any) -> str:
        return json.dumps(value, separators=(",", ":"))

    def rows(values: list[Any]) -> str:
        return "[\n" + ",\n".join(line(value) for value in values) + "\n]"

    groups = (
        f'{{"group":{line(group["group"])},"versions":['
        + ",".join(
            f'{{"version":{line(each["version"])},"resources":{rows(each["resources"])}}}'
            for each in group["versions"]
        )
        + "]}"
        for group in data["groups"]
    )
    bootstrap = (f"{line(key)}:{rows(objects)}" for key, objects in data["bootstrap"].items())
    return '{"groups":[' + ",\n".join(groups) + '],\n"bootstrap":{' + ",\n".join(bootstrap) + "}}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="record what a fresh real server serves and creates")
    parser.add_argument("--check", action="store_true", help="only compare with the committed file")
    options = parser.parse_args()
    with RealServer(fsync=False) as server:
        data = record(server)
        problems = unreproducible(server, data)
    text = encode(data)
    if not options.check:
        OUTPUT.write_text(text)
    elif not OUTPUT.exists() or OUTPUT.read_text() != text:
        problems.append(f"{OUTPUT.name} is out of date: run make kubernetes")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
