"""The work of ``benchmarks.widgetoperator`` on kopf, for ``benchmarks.reconcile --kopf``.

kopf has no queue with a number of workers: it has a task per object, all at work at once. (There is a limit
for these tasks, but each keeps its place for seconds after its work: ten places are two objects a second.)
Children are created with kopf's own client; the status goes into the patch that kopf writes when a handler
has ended. It does not watch the children.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
from typing import Any, cast

import kopf
import uvloop
from kopf._cogs.clients import creating
from kopf._cogs.structs import references

GROUP = "bench.quarterdeck.dev"
_CONFIG_MAPS = references.Resource("", "v1", "configmaps", kind="ConfigMap", namespaced=True)


def make_registry(objects: int, settings: kopf.OperatorSettings) -> kopf.OperatorRegistry:
    """The handlers; one line is printed when all objects have been seen with their status."""
    registry = kopf.get_default_registry()
    settled: set[str] = set()
    runs = 0

    @kopf.on.resume(GROUP, "v1", "widgets", registry=registry)
    @kopf.on.create(GROUP, "v1", "widgets", registry=registry)
    async def make(
        name: str, namespace: Any, spec: Any, meta: Any, patch: Any, logger: Any, **_: Any
    ) -> None:
        nonlocal runs
        runs += 1
        owner = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "name": name, "uid": meta["uid"]}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}]},
            "data": {"size": str(spec["size"]), "text": spec["text"]},
        }
        await creating.create_obj(
            settings=settings,
            resource=_CONFIG_MAPS,
            namespace=references.NamespaceName(namespace),
            name=name,
            body=cast("Any", body),
            logger=logger,
        )
        patch.status["child"] = name
        patch.status["size"] = spec["size"]

    @kopf.on.event(GROUP, "v1", "widgets", registry=registry)
    def seen(name: str, spec: Any, status: Any, **_: Any) -> None:
        if status.get("child") != name or status.get("size") != spec["size"]:
            return
        before = len(settled)
        settled.add(name)
        if before < len(settled) == objects:
            print(json.dumps({"reconciles": runs, "errors": 0}), flush=True)

    return registry


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.widget_kopf", description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--objects", type=int, required=True)
    parser.add_argument("--workers", type=int, help="taken and ignored")
    options = parser.parse_args()
    os.environ["KUBECONFIG"] = options.kubeconfig
    logging.getLogger("kopf").setLevel(logging.ERROR)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False  # no events about every handler
    uvloop.run(
        kopf.operator(
            registry=make_registry(options.objects, settings),
            settings=settings,
            standalone=True,
            namespaces=["default"],
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
