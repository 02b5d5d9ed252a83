"""LimitRanger: defaults and bounds of a namespace, in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from .pluginkit import MERGE, PODS, Api, pod, run

Json = dict[str, Any]
RANGES = "/api/v1/namespaces/default/limitranges"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


def limit_range(*limits: Json, name: str = "lr") -> Json:
    return {"metadata": {"name": name}, "spec": {"limits": list(limits)}}


def resources(requests: Json | None = None, limits: Json | None = None) -> Json:
    given = {"requests": requests, "limits": limits}
    return {"resources": {key: value for key, value in given.items() if value}}


def test_containers_get_what_they_leave_out() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        item = {
            "type": "Container",
            "default": {"cpu": "500m", "memory": "512Mi"},
            "defaultRequest": {"cpu": "100m", "memory": "128Mi"},
        }
        await api.create(RANGES, limit_range(item))
        made = await api.create(PODS, pod(container=resources({"memory": "64Mi"})))
        assert made["spec"]["containers"][0]["resources"] == {
            "limits": {"cpu": "500m", "memory": "512Mi"},
            "requests": {"cpu": "100m", "memory": "64Mi"},
        }
        assert made["metadata"]["annotations"]["kubernetes.io/limit-ranger"] == (
            "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c"
        )

    run(scenario)


@pytest.mark.parametrize(
    ("item", "container", "why"),
    [
        (
            {"type": "Container", "min": {"cpu": "200m"}},
            resources({"cpu": "100m"}),
            "minimum cpu usage per Container is 200m, but request is 100m",
        ),
        (
            {"type": "Pod", "min": {"cpu": "1"}},
            {},
            "minimum cpu usage per Pod is 1.  No request is specified",
        ),
        (
            {"type": "Container", "max": {"memory": "1Gi"}},
            resources(limits={"memory": "2Gi"}),
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"type": "Pod", "max": {"memory": "1Gi"}},
            {},
            "maximum memory usage per Pod is 1Gi.  No limit is specified",
        ),
        (
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}},
            resources({"cpu": "100m"}, {"cpu": "500m"}),
            "cpu max limit to request ratio per Pod is 2, but provided ratio is 5.000000",
        ),
        (
            {"type": "Pod", "maxLimitRequestRatio": {"cpu": "2"}},
            {},
            "cpu max limit to request ratio per Pod is 2, but no request is specified or request is 0",
        ),
    ],
)
def test_pods_out_of_bounds_are_refused(item: Json, container: Json, why: str) -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        await api.create(RANGES, limit_range(item))
        assert (await api.call("POST", PODS, pod(container=container))).why == why

    run(scenario)


def test_several_problems_are_told_together() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        await api.create(RANGES, limit_range({"type": "Pod", "min": {"cpu": "1"}, "max": {"memory": "1Mi"}}))
        answer = await api.call("POST", PODS, pod(container=resources({"cpu": "10m"})))
        assert answer.why == (
            "[minimum cpu usage per Pod is 1, but request is 10m, "
            "maximum memory usage per Pod is 1Mi.  No limit is specified]"
        )

    run(scenario)


def test_claims_have_bounds_and_no_defaults() -> None:
    async def scenario(api: Api) -> None:
        item = {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}, "max": {"storage": "4Gi"}}
        await api.create(RANGES, limit_range(item))

        def claim(size: str) -> Json:
            return {
                "metadata": {"name": "c"},
                "spec": {"accessModes": ["ReadWriteOnce"], **resources({"storage": size})},
            }

        answer = await api.call("POST", CLAIMS, claim("1Gi"))
        assert answer.why == "minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"
        answer = await api.call("POST", CLAIMS, claim("5Gi"))
        assert answer.why == "maximum storage usage per PersistentVolumeClaim is 4Gi, but request is 5Gi"
        assert (await api.call("POST", CLAIMS, claim("3Gi"))).code == 201

    run(scenario)


def test_updates_of_pods_are_not_measured_but_resizes_are() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        small = resources({"cpu": "100m"}, {"cpu": "100m"})
        await api.create(PODS, pod(container=small))
        await api.create(RANGES, limit_range({"type": "Container", "max": {"cpu": "200m"}}))
        patch = {"metadata": {"labels": {"a": "b"}}}
        assert (await api.call("PATCH", f"{PODS}/p", patch, media=MERGE)).code == 200
        big = {"spec": {"containers": [{"name": "c", **resources({"cpu": "300m"}, {"cpu": "300m"})}]}}
        strategic = "application/strategic-merge-patch+json"
        answer = await api.call("PATCH", f"{PODS}/p/resize", big, media=strategic)
        assert answer.why == "maximum cpu usage per Container is 200m, but limit is 300m"

    run(scenario)
