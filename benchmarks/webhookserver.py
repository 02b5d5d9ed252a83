"""The servers that ``benchmarks.webhook`` measures, as processes of their own: ours and kopf's.

    python -m benchmarks.webhookserver quarterdeck|kopf --cert-dir DIR --port N

Both run the same check; ours runs the same conversion as the Go peer (``tools/kube/peers/webhook``).
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import sys
from pathlib import Path
from typing import Any, Final, cast

import uvloop

from quarterdeck.api import UNSET, Condition, Maybe, Model, Resource, omitempty
from quarterdeck.api.model import EMPTY_MAP, Map, Seq
from quarterdeck.operators.kai.webhooks import pod_group_webhook
from quarterdeck.runtime.certificate import FileCertificates
from quarterdeck.runtime.webhook import (
    Conversion,
    Denied,
    Spoke,
    WebhookOptions,
    WebhookServer,
)

Json = dict[str, Any]


def check_tree(groups: Any) -> None:
    """Duplicates, dangling parents, cycles and minimums, as the Go peer checks them; for kopf.

    Ours is the webhook of the kai operator, which checks the same.
    """
    parents: dict[str, str | None] = {}
    for group in groups:
        name, parent = group.name, group.parent
        if name != name.lower():
            raise Denied(f'subgroup name "{name}" must be lowercase')
        if parent is not UNSET and parent != parent.lower():
            raise Denied(f'parent of subgroup "{name}": subgroup name "{parent}" must be lowercase')
        if name in parents:
            raise Denied(f"duplicate subgroup name {name}")
        if group.min_member is not UNSET and group.min_member < 1:
            raise Denied(f"minMember of subgroup {name} must be at least 1")
        parents[name] = parent or None
    for name, parent in parents.items():
        if parent is not None and parent not in parents:
            raise Denied(f"parent {parent} of {name} was not found")
    checked: dict[str | None, bool] = {None: True}
    for start in parents:
        path = []
        above: str | None = start
        while above not in checked:
            checked[above] = False
            path.append(above)
            above = parents[above]  # type: ignore[index]  # the root is among the checked
        if not checked[above]:
            raise Denied("cycle detected in subgroups")
        for name in path:
            checked[name] = True


class ClassReference(Model):
    kind: str = omitempty("")
    name: str = omitempty("")


class CloudInstances(Model):
    min_per_zone: Maybe[int] = UNSET
    max_per_zone: Maybe[int] = UNSET
    zones: Seq[str] = omitempty(())
    class_reference: Maybe[ClassReference] = UNSET


class Taint(Model):
    key: str = omitempty("")
    value: str = omitempty("")
    effect: str = omitempty("")


class NodeTemplate(Model):
    labels: Map[str, str] = omitempty(EMPTY_MAP)
    annotations: Map[str, str] = omitempty(EMPTY_MAP)
    taints: Seq[Taint] = omitempty(())


class Kubelet(Model):
    max_pods: Maybe[int] = UNSET
    root_dir: str = omitempty("")


class Disruptions(Model):
    approval_mode: str = omitempty("")


class Docker(Model):
    max_concurrent_downloads: Maybe[int] = UNSET


class Cri(Model):
    type: str = omitempty("")
    max_concurrent_downloads: Maybe[int] = UNSET


class NodeGroupStatus(Model):
    ready: int = omitempty(0)
    nodes: int = omitempty(0)
    instances: int = omitempty(0)
    desired: int = omitempty(0)
    up_to_date: int = omitempty(0)
    conditions: Seq[Condition] = omitempty(())


class OldSpec(Model):
    node_type: str
    docker: Maybe[Docker] = UNSET
    kubernetes_version: str = omitempty("")
    cloud_instances: Maybe[CloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    kubelet: Maybe[Kubelet] = UNSET
    disruptions: Maybe[Disruptions] = UNSET


class Spec(Model):
    node_type: str
    cri: Maybe[Cri] = UNSET
    cloud_instances: Maybe[CloudInstances] = UNSET
    node_template: Maybe[NodeTemplate] = UNSET
    kubelet: Maybe[Kubelet] = UNSET
    disruptions: Maybe[Disruptions] = UNSET


class OldNodeGroup(Resource, group="deckhouse.io", version="v1alpha1", kind="NodeGroup", scope="Cluster"):
    spec: OldSpec
    status: NodeGroupStatus = omitempty(NodeGroupStatus())


class NodeGroup(Resource, group="deckhouse.io", version="v1", scope="Cluster"):
    spec: Spec
    status: NodeGroupStatus = omitempty(NodeGroupStatus())


DROPPED_VERSION: Final = "node.deckhouse.io/kubernetes-version"
TO_NEW: Final = {"Cloud": "CloudEphemeral", "Hybrid": "CloudStatic", "Static": "Static"}
TO_OLD: Final = {new: old for old, new in TO_NEW.items()}


def to_new(old: OldNodeGroup) -> NodeGroup:
    spec, metadata = old.spec, old.metadata
    if spec.kubernetes_version:
        annotations = {**metadata.annotations, DROPPED_VERSION: spec.kubernetes_version}
        metadata = metadata.evolve(annotations=annotations)
    docker = spec.docker
    return NodeGroup(
        metadata=metadata,
        spec=Spec(
            node_type=TO_NEW[spec.node_type],
            cri=Cri(type="Docker", max_concurrent_downloads=docker.max_concurrent_downloads)
            if docker
            else UNSET,
            cloud_instances=spec.cloud_instances,
            node_template=spec.node_template,
            kubelet=spec.kubelet,
            disruptions=spec.disruptions,
        ),
        status=old.status,
    )


def to_old(new: NodeGroup) -> OldNodeGroup:
    spec, metadata = new.spec, new.metadata
    version = metadata.annotations.get(DROPPED_VERSION, "")
    if version:
        kept = {key: value for key, value in metadata.annotations.items() if key != DROPPED_VERSION}
        metadata = metadata.evolve(annotations=kept)
    cri = spec.cri
    return OldNodeGroup(
        metadata=metadata,
        spec=OldSpec(
            node_type=TO_OLD[spec.node_type],
            docker=Docker(max_concurrent_downloads=cri.max_concurrent_downloads)
            if cri and cri.type == "Docker"
            else UNSET,
            kubernetes_version=version,
            cloud_instances=spec.cloud_instances,
            node_template=spec.node_template,
            kubelet=spec.kubelet,
            disruptions=spec.disruptions,
        ),
        status=new.status,
    )


async def serve_ours(certs: Path, port: int) -> None:
    server = WebhookServer(WebhookOptions(host="127.0.0.1", port=port), certificates=FileCertificates(certs))
    server.add(pod_group_webhook())
    server.add_conversion(Conversion(NodeGroup, Spoke(OldNodeGroup, to_new, to_old)))
    async with server:
        print("ready", flush=True)
        await asyncio.Event().wait()


async def serve_kopf(certs: Path, port: int) -> None:
    """kopf's own server and admission engine; it has no conversion."""
    import kopf
    from kopf._cogs.structs import references
    from kopf._core.engines import admission
    from kopf._core.intents.registries import OperatorRegistry
    from kopf._core.reactor.inventory import ResourceMemories

    registry = OperatorRegistry()

    @kopf.on.validate("scheduling.run.ai", "v2alpha2", "podgroups", id="check", registry=registry)
    def check(spec: Any, **_: Any) -> None:
        try:
            check_tree([_Attributes(group) for group in spec.get("subGroups", [])])
        except Denied as error:
            raise kopf.AdmissionError(str(error)) from error

    insights = references.Insights()
    insights.webhook_resources.add(
        references.Resource(
            "scheduling.run.ai", "v2alpha2", "podgroups", kind="PodGroup", namespaced=True,
            verbs=frozenset({"list", "watch", "patch"}),
        )
    )  # fmt: skip
    serve: Any = functools.partial(
        admission.serve_admission_request,
        settings=kopf.OperatorSettings(),
        memories=ResourceMemories(),
        memobase=cast("Any", kopf.Memo()),
        registry=registry,
        insights=insights,
        indices={},
    )
    server = kopf.WebhookServer(
        addr="127.0.0.1", port=port, certfile=str(certs / "tls.crt"), pkeyfile=str(certs / "tls.key")
    )
    async for _ in server(serve):
        print("ready", flush=True)


class _Attributes:
    def __init__(self, group: Json) -> None:
        self.name = group["name"]
        self.parent = group.get("parent", UNSET)
        self.min_member = group.get("minMember", UNSET)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.webhookserver", description=__doc__)
    parser.add_argument("server", choices=["quarterdeck", "kopf"])
    parser.add_argument("--cert-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    serve = serve_ours if options.server == "quarterdeck" else serve_kopf
    uvloop.run(serve(options.cert_dir, options.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
