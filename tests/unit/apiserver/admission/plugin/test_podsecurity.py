"""PodSecurity: levels, versions and modes, in upstream's words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from quarterdeck.apiserver.admission.plugin.podsecurity import ConfigurationError, load_configuration
from quarterdeck.apiserver.admission.plugin.podsecurity.catalog import detail_of, violations
from quarterdeck.apiserver.admission.plugin.podsecurity.level import LATEST, LevelVersion, policy_of
from quarterdeck.apiserver.auth import UserInfo

from .pluginkit import MERGE, Api, pod, run

Json = dict[str, Any]
NAMESPACES = "/api/v1/namespaces"
PREFIX = "pod-security.kubernetes.io/"
SAFE: Json = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def labels(**modes: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "-"): value for key, value in modes.items()}


def spec(context: Json | None = None, **fields: Any) -> Json:
    container = {"name": "c", "image": "i", **({"securityContext": context} if context else {})}
    return {"containers": [{**container, **fields.pop("container", {})}], **fields}


def verdict(level: str, minor: int, pod_spec: Json, annotations: Json | None = None) -> str:
    found = violations(LevelVersion(level, minor), {"annotations": annotations or {}}, pod_spec)
    return detail_of(found)


def test_a_bare_pod_fails_the_restricted_level_in_four_ways() -> None:
    assert verdict("restricted", LATEST, spec()) == (
        'allowPrivilegeEscalation != false (container "c" must set '
        "securityContext.allowPrivilegeEscalation=false), "
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")'
    )
    assert verdict("restricted", LATEST, spec(SAFE)) == ""


@pytest.mark.parametrize(
    ("pod_spec", "expected"),
    [
        (
            spec(hostNetwork=True, hostPID=True, hostIPC=True),
            "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
        ),
        (
            spec({"privileged": True}),
            'privileged (container "c" must not set securityContext.privileged=true)',
        ),
        (
            spec({"capabilities": {"add": ["NET_RAW", "CHOWN", "BPF"]}}),
            (
                'non-default capabilities (container "c" must not include "BPF", "NET_RAW" in '
                "securityContext.capabilities.add)"
            ),
        ),
        (
            spec(volumes=[{"name": "v", "hostPath": {"path": "/"}}]),
            'hostPath volumes (volume "v")',
        ),
        (
            spec(container={"ports": [{"containerPort": 1, "hostPort": 8080}, {"hostPort": 9}]}),
            'hostPort (container "c" uses hostPorts 8080, 9)',
        ),
        (
            spec(container={"livenessProbe": {"httpGet": {"host": "example.com", "port": 1}}}),
            'probe or lifecycle host (container "c" uses probe or lifecycle host "example.com")',
        ),
        (
            spec({"procMount": "Unmasked"}),
            'procMount (container "c" must not set securityContext.procMount to "Unmasked")',
        ),
        (spec({"procMount": "Unmasked"}, hostUsers=False), ""),
        (
            spec({"seLinuxOptions": {"type": "x_t", "user": "u"}}),
            (
                'seLinuxOptions (container "c" set forbidden securityContext.seLinuxOptions: type "x_t"; '
                "user may not be set)"
            ),
        ),
        (
            spec(securityContext={"seccompProfile": {"type": "Unconfined"}}),
            'seccompProfile (pod must not set securityContext.seccompProfile.type to "Unconfined")',
        ),
        (
            spec(securityContext={"sysctls": [{"name": "kernel.msgmax"}, {"name": "net.ipv4.tcp_rmem"}]}),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            spec({"windowsOptions": {"hostProcess": True}}),
            'hostProcess (container "c" must not set securityContext.windowsOptions.hostProcess=true)',
        ),
        (
            spec({"appArmorProfile": {"type": "Unconfined"}}),
            'forbidden AppArmor profile (container "c" must not set AppArmor profile type to "Unconfined")',
        ),
    ],
)
def test_baseline_forbids_known_ways_out(pod_spec: Json, expected: str) -> None:
    assert verdict("baseline", LATEST, pod_spec) == expected


@pytest.mark.parametrize(
    ("minor", "pod_spec", "expected"),
    [
        (
            26,
            spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}),
            "forbidden sysctls",
        ),
        (27, spec(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}), ""),
        (30, spec({"seLinuxOptions": {"type": "container_engine_t"}}), "seLinuxOptions"),
        (31, spec({"seLinuxOptions": {"type": "container_engine_t"}}), ""),
        (33, spec(container={"livenessProbe": {"tcpSocket": {"host": "h"}}}), ""),
        (34, spec(container={"livenessProbe": {"tcpSocket": {"host": "h"}}}), "probe or lifecycle host"),
        (18, spec({"seccompProfile": {"type": "Unconfined"}}), ""),
        (19, spec({"seccompProfile": {"type": "Unconfined"}}), "seccompProfile"),
    ],
)
def test_versions_bring_and_relax_checks(minor: int, pod_spec: Json, expected: str) -> None:
    assert verdict("baseline", minor, pod_spec).partition(" (")[0] == expected


def test_old_restricted_versions_ask_for_less() -> None:
    assert verdict("restricted", 7, spec()).partition(" (")[0] == "runAsNonRoot != true"
    assert "allowPrivilegeEscalation" in verdict("restricted", 8, spec())
    assert "capabilities" not in verdict("restricted", 21, spec())
    windows = spec(os={"name": "windows"}, securityContext={"runAsNonRoot": True})
    assert verdict("restricted", LATEST, windows) == ""
    assert "seccompProfile" in verdict("restricted", 24, windows)


def test_volumes_of_the_restricted_level() -> None:
    assert verdict(
        "restricted", LATEST, spec(SAFE, volumes=[{"name": "a", "hostPath": {}}, {"name": "b"}])
    ) == ('restricted volume types (volumes "a", "b" use restricted volume types "hostPath", "unknown")')


def test_warn_follows_a_stricter_enforce() -> None:
    policy, errors = policy_of(labels(enforce="baseline", enforce_version="v1.30"))
    assert not errors
    assert (str(policy.enforce), str(policy.audit), str(policy.warn)) == (
        "baseline:v1.30",
        "privileged:latest",
        "baseline:v1.30",
    )


def test_a_pod_is_refused_and_what_makes_it_is_warned_about() -> None:
    async def scenario(api: Api) -> None:
        await api.create(NAMESPACES, {"metadata": {"name": "n", "labels": labels(enforce="baseline")}})
        await api.account(namespace="n")
        bad = pod(hostNetwork=True)
        answer = await api.call("POST", f"{NAMESPACES}/n/pods", bad)
        assert answer.message == (
            'pods "p" is forbidden: violates PodSecurity "baseline:latest": '
            "host namespaces (hostNetwork=true)"
        )
        template = {"metadata": {"labels": {"a": "b"}}, "spec": bad["spec"]}
        deployment = {
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
        }
        answer = await api.call("POST", "/apis/apps/v1/namespaces/n/deployments", deployment)
        assert answer.code == 201
        assert answer.warnings == [
            'would violate PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
        ]
        assert (await api.call("POST", f"{NAMESPACES}/n/pods", pod())).code == 201

    run(scenario)


def test_a_stricter_namespace_names_the_pods_that_would_not_be_let_in() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        for name in ("b", "a", "c"):
            await api.create(f"{NAMESPACES}/default/pods", pod(name, hostNetwork=True))
        patch = {"metadata": {"labels": labels(enforce="baseline")}}
        answer = await api.call("PATCH", f"{NAMESPACES}/default", patch, media=MERGE)
        assert answer.code == 200
        assert answer.warnings == [
            (
                'existing pods in namespace "default" violate the new PodSecurity enforce level '
                '"baseline:latest"'
            ),
            "a (and 2 other pods): host namespaces",
        ]

    run(scenario)


def test_labels_that_cannot_be_read_are_invalid() -> None:
    async def scenario(api: Api) -> None:
        wrong = {"metadata": {"name": "n", "labels": labels(enforce="strict", warn_version="1.2")}}
        answer = await api.call("POST", NAMESPACES, wrong)
        assert answer.code == 422
        assert answer.message == (
            'Namespace "n" is invalid: [metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: '
            '"strict": must be one of privileged, baseline, restricted, '
            "metadata.labels[pod-security.kubernetes.io/warn-version]: Invalid value: "
            '"1.2": must be "latest" or "v1.x"]'
        )

    run(scenario)


def test_only_images_and_containers_of_a_pod_are_looked_at_again() -> None:
    async def scenario(api: Api) -> None:
        await api.account()
        pods = f"{NAMESPACES}/default/pods"
        await api.create(pods, pod(hostNetwork=True))
        patch = {"metadata": {"labels": labels(enforce="baseline")}}
        await api.call("PATCH", f"{NAMESPACES}/default", patch, media=MERGE)
        answer = await api.call("PATCH", f"{pods}/p", {"metadata": {"labels": {"a": "b"}}}, media=MERGE)
        assert answer.code == 200
        strategic = "application/strategic-merge-patch+json"
        image = {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
        answer = await api.call("PATCH", f"{pods}/p", image, media=strategic)
        assert answer.why == 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'

    run(scenario)


CONFIGURATION = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline, enforce-version: v1.30}
    exemptions: {usernames: [robot], namespaces: [trusted], runtimeClasses: [gvisor]}
"""


def test_a_file_sets_default_levels_and_exemptions(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(CONFIGURATION)
    robot = UserInfo("robot", groups=("system:masters",))

    async def scenario(api: Api) -> None:
        await api.account()
        await api.create(NAMESPACES, {"metadata": {"name": "trusted"}})
        await api.account(namespace="trusted")
        bad = pod(hostNetwork=True)
        answer = await api.call("POST", f"{NAMESPACES}/default/pods", bad)
        assert answer.why == 'violates PodSecurity "baseline:v1.30": host namespaces (hostNetwork=true)'
        assert (await api.call("POST", f"{NAMESPACES}/default/pods", bad, as_user=robot)).code == 201
        assert (await api.call("POST", f"{NAMESPACES}/trusted/pods", bad)).code == 201
        answer = await api.call(
            "POST", NAMESPACES, {"metadata": {"name": "n", "labels": labels(enforce="privileged")}}
        )
        assert answer.code == 201
        await api.account(namespace="n")
        assert (await api.call("POST", f"{NAMESPACES}/n/pods", bad)).code == 201
        patch = {"metadata": {"labels": labels(enforce="restricted")}}
        answer = await api.call("PATCH", f"{NAMESPACES}/trusted", patch, media=MERGE)
        assert answer.warnings == [
            (
                'namespace "trusted" is exempt from Pod Security, and the policy (enforce=restricted:v1.30) '
                "will be ignored"
            )
        ]

    run(scenario, pod_security=load_configuration(file))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("enforce: baseline", "enforce: strict"), "Invalid enum value 'strict'"),
        (("v1.30", "v2.0"), 'defaults.enforce-version: "v2.0" must be "latest" or "v1.x"'),
        (("name: PodSecurity", "name: EventRateLimit"), "plugin EventRateLimit has no configuration here"),
        (("usernames", "users"), "unknown field `users`"),
    ],
)
def test_a_file_that_cannot_be_used_is_told(tmp_path: Path, change: tuple[str, str], problem: str) -> None:
    file = tmp_path / "admission.yaml"
    file.write_text(CONFIGURATION.replace(*change))
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(file)
    assert str(file) in str(caught.value)
    assert problem in str(caught.value)
