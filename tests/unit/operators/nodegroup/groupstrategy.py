"""Hypothesis strategies for NodeGroups: schema-valid documents that use every field of their version."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from quarterdeck.operators.nodegroup import names

Json = dict[str, Any]
Strategy = st.SearchStrategy[Any]

word = st.text(alphabet="abcxyz019-", min_size=1, max_size=8).map(lambda text: f"a{text}z")
counts = st.integers(0, 9)
label_maps = st.dictionaries(st.sampled_from(["a", "a/b", "x~y", "role", ""]), word, max_size=3)
times = st.sampled_from(["1:00", "01:30", "23:59", "8:15"])
stamps = st.sampled_from(["2024-01-01T00:00:00Z", "2025-06-30T12:34:56Z"])
sizes = st.sampled_from(["50Mi", "1Gi", "10k"])


def some(required: Json | None = None, **optional: Strategy) -> Strategy:
    """Objects with all of `required` and any of `optional`."""
    return st.fixed_dictionaries(dict(required or {}), optional=optional)


windows = st.lists(
    some({"from": times, "to": times}, days=st.lists(st.sampled_from(names.DAYS), max_size=2)), max_size=2
)
disruptions = st.one_of(
    some({"approvalMode": st.just("Manual")}),
    some(
        {"approvalMode": st.just("Automatic")},
        automatic=some(drainBeforeApproval=st.booleans(), windows=windows),
    ),
    some({"approvalMode": st.just("RollingUpdate")}, rollingUpdate=some(windows=windows)),
)
node_template = some(
    labels=label_maps,
    annotations=label_maps,
    taints=st.lists(
        some(effect=st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]), key=word, value=word),
        max_size=2,
    ),
)
downloads = some(maxConcurrentDownloads=counts)
docker = some(maxConcurrentDownloads=counts, manage=st.booleans())
not_managed = some(criSocketPath=word)
holder: Json = {
    "notHeldResources": some(
        cpu=st.one_of(counts, st.just("500m")), memory=st.one_of(counts, st.sampled_from(["1Gi", "1.5G"]))
    )
}
instances: Json = {
    "zones": st.lists(word, max_size=2),
    "maxUnavailablePerZone": counts,
    "maxSurgePerZone": counts,
    "standby": st.one_of(counts, st.just("10%")),
}
required_instances: Json = {
    "classReference": some(kind=st.sampled_from(names.INSTANCE_CLASS_KINDS), name=word),
    "minPerZone": counts,
    "maxPerZone": counts,
}
kubelet: Json = {
    "maxPods": counts,
    "rootDir": word,
    "containerLogMaxSize": sizes,
    "containerLogMaxFiles": st.integers(1, 20),
    "seccompDefault": st.booleans(),
}
shared: Json = {
    "nodeTemplate": node_template,
    "operatingSystem": some(manageKernel=st.booleans()),
    "disruptions": disruptions,
}
status: Json = {
    "engine": st.sampled_from(["None", "MCM", "CAPI"]),
    **dict.fromkeys(("ready", "nodes", "instances", "desired", "min", "max", "upToDate", "standby"), counts),
    "error": st.sampled_from(["", "broken"]),
    "kubernetesVersion": st.just("1.33"),
    "lastMachineFailures": st.lists(
        some(
            name=word,
            providerID=word,
            ownerRef=word,
            lastOperation=some(description=word, lastUpdateTime=stamps, state=word, type=word),
        ),
        max_size=1,
    ),
    "conditionSummary": some(statusMessage=word, ready=st.sampled_from(["True", "False"])),
}
checkpoint = some(lastTimestamp=stamps, checkSum=word)

v1_cri = st.one_of(
    some(
        {"type": st.sampled_from(names.CRI_TYPES)},
        containerd=downloads,
        containerdV2=downloads,
        docker=docker,
        notManaged=not_managed,
    )
)
v1_instances = some(
    required_instances,
    **instances,
    priority=counts,
    quickShutdown=st.booleans(),
    standbyHolder=some(**holder, overprovisioningRate=st.integers(1, 80)),
)
expressions = st.one_of(
    some({"key": word, "operator": st.sampled_from(["Exists", "DoesNotExist"])}),
    some({"key": word, "operator": st.sampled_from(["In", "NotIn"]), "values": st.lists(word, max_size=2)}),
)
v1_static = some(
    labelSelector=some(matchLabels=label_maps, matchExpressions=st.lists(expressions, max_size=1)),
    count=counts,
)
reservation = st.one_of(
    some({"mode": st.sampled_from(["Off", "Auto"])}),
    some(
        {
            "mode": st.just("Static"),
            "static": some({"cpu": st.one_of(counts, st.just("500m"))}, memory=sizes, ephemeralStorage=sizes),
        }
    ),
)
v1_kubelet = some(
    **kubelet,
    resourceReservation=reservation,
    topologyManager=some(
        enabled=st.booleans(),
        scope=st.sampled_from(["Container", "Pod"]),
        policy=st.sampled_from(["None", "BestEffort", "Restricted", "SingleNumaNode"]),
    ),
    memorySwap=st.one_of(
        some({"swapBehavior": st.just("NoSwap")}, swappiness=counts),
        some({"swapBehavior": st.just("LimitedSwap"), "limitedSwap": st.just({"size": "2G"})}),
    ),
)
gpu = st.one_of(
    some(
        {"sharing": st.just("TimeSlicing")},
        timeSlicing=some(partitionCount=st.one_of(st.integers(1, 100), st.just(2.5))),
    ),
    some({"sharing": st.just("Exclusive")}, exclusive=st.just({})),
    some({"sharing": st.just("MIG")}, mig=some(partedConfig=st.just("all-1g.5gb"))),
    st.just(
        {
            "sharing": "MIG",
            "mig": {
                "partedConfig": "custom",
                "customConfigs": [{"index": 0, "slices": [{"profile": "1g.10gb", "count": 7}]}],
            },
        }
    ),
)
v1_common: Json = {
    **shared,
    "cri": v1_cri,
    "gpu": gpu,
    "chaos": some(
        mode=st.sampled_from(["Disabled", "DrainAndDelete"]), period=st.sampled_from(["6h", "1h30m"])
    ),
    "kubelet": v1_kubelet,
    "update": some(maxConcurrent=st.one_of(st.integers(1, 9), st.just("20%"))),
    "fencing": some({"mode": st.just("Watchdog")}, watchdog=st.just({"timeout": "90s"})),
    "nodeDrainTimeoutSecond": counts,
}
v1_sections: Json = {**v1_common, "cloudInstances": v1_instances, "staticInstances": v1_static}
v1_spec = st.one_of(
    some({"nodeType": st.just("CloudEphemeral"), "cloudInstances": v1_instances}, **v1_common),
    some({"nodeType": st.just("CloudPermanent")}, **v1_common, cloudInstances=v1_instances),
    some({"nodeType": st.sampled_from(["Static", "CloudStatic"])}, **v1_common, staticInstances=v1_static),
)
v1_status: Json = {
    **status,
    "conditions": st.lists(
        some({"type": word, "status": st.just("True")}, lastTransitionTime=stamps, message=word), max_size=2
    ),
    "deckhouse": some(synced=st.just("True"), observed=checkpoint, processed=checkpoint),
}

old_common: Json = {
    **shared,
    "cloudInstances": some(required_instances, **instances, standbyHolder=some(**holder)),
    "chaos": some(mode=st.just("Disabled"), period=st.just("6h")),
    "kubelet": some(**kubelet),
}
a2_sections: Json = {
    **old_common,
    "cri": some(
        {"type": st.sampled_from(names.OLD_CRI_TYPES)},
        containerd=downloads,
        docker=docker,
        notManaged=not_managed,
    ),
}
a1_sections: Json = {
    **old_common,
    "cri": some(type=st.sampled_from(names.OLD_CRI_TYPES), containerd=downloads),
    "docker": docker,
    "kubernetesVersion": st.sampled_from(names.KUBERNETES_VERSIONS),
    "static": some(internalNetworkCIDRs=st.lists(word, max_size=1)),
}
a2_spec = some({"nodeType": st.sampled_from(names.OLD_NODE_TYPES)}, **a2_sections)
a1_spec = some({"nodeType": st.sampled_from(names.OLD_NODE_TYPES)}, **a1_sections)


def _groups(version: str, spec: Strategy, group_status: Strategy) -> Strategy:
    metadata = some(
        {"name": st.sampled_from(["master", "worker", "listed", "gpu"])},
        labels=label_maps.filter(bool),
        annotations=label_maps.filter(bool),
    )
    return some(
        {
            "apiVersion": st.just(version),
            "kind": st.just(names.KIND),
            "metadata": metadata,
            "spec": spec,
        },
        status=group_status,
    )


v1_groups = _groups(names.V1, v1_spec, some(**v1_status))
a2_groups = _groups(names.V1ALPHA2, a2_spec, some(**status))
a1_groups = _groups(names.V1ALPHA1, a1_spec, some(**status))
old_versions = st.sampled_from([names.V1ALPHA1, names.V1ALPHA2])
