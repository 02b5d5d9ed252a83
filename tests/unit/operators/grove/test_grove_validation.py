"""What a PodCliqueSet may say: every rule, in its own words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.api import UNSET, Duration
from quarterdeck.api.k8s import Container, TopologySpreadConstraint
from quarterdeck.api.k8s.resource import (
    DeviceClaim,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaimSpec,
    ResourceClaimTemplateSpec,
)
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.validation import Rules, validate, warnings_of
from quarterdeck.operators.grove.types import (
    AutoScaling,
    ClaimTemplate,
    CliqueSharing,
    GroupFilter,
    GroupSharing,
    PodCliqueSet,
    SetFilter,
    SetSharing,
)
from quarterdeck.wire.fielderror import joined_text

from .grovekit import clique, env, group, pcs, pod_spec

RULES = Rules(default_scheduler="default-scheduler", enabled_schedulers=frozenset({"default-scheduler"}))
T = "spec.template"
EXPLICIT: dict[str, Any] = {"clique_startup_type": names.EXPLICIT}


def claim(name: str, *, has_requests: bool = True) -> ClaimTemplate:
    request = DeviceRequest(name="gpu", exactly=ExactDeviceRequest(device_class_name="gpu.example.com"))
    devices = DeviceClaim(requests=(request,) if has_requests else ())
    return ClaimTemplate(
        name=name, template_spec=ResourceClaimTemplateSpec(spec=ResourceClaimSpec(devices=devices))
    )


def scaling(low: int | None, high: int) -> AutoScaling:
    return AutoScaling(min_replicas=UNSET if low is None else low, max_replicas=high)


def containers(**variables: Any) -> Any:
    return (Container(name="main", image="x", env=variables["env"]),)


LONG = "x" * 30
RULE_TABLE: dict[str, tuple[Callable[[], PodCliqueSet], list[str]]] = {
    "1 name": (
        lambda: pcs(clique("a"), name="W!"),
        ['metadata.name: Invalid value: "W!": a lowercase RFC 1123 subdomain must consist of'],
    ),
    "2 replicas": (
        lambda: pcs(clique("a"), replicas=-1),
        ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"],
    ),
    "3 startup type missing": (
        lambda: pcs(clique("a"), clique_startup_type=""),
        [f"{T}.cliqueStartupType: Required value: field is required"],
    ),
    "4 startup type unknown": (
        lambda: pcs(clique("a"), clique_startup_type="Backwards"),
        [f'{T}.cliqueStartupType: Invalid value: "Backwards": can only be one of {names.ANY_ORDER}, '],
    ),
    "5 and 6 claim template": (
        lambda: pcs(clique("a"), resource_claim_templates=(claim("", has_requests=False),)),
        [
            f"{T}.resourceClaimTemplates[0].name: Required value: template name is required",
            (
                f"{T}.resourceClaimTemplates[0].templateSpec.spec.devices.requests: Required value: "
                "at least one device request is required"
            ),
        ],
    ),
    "7 claim templates twice": (
        lambda: pcs(clique("a"), resource_claim_templates=(claim("t"), claim("t"))),
        [f'{T}.resourceClaimTemplates.name: Duplicate value: ["t"]'],
    ),
    "8 sharing without name": (
        lambda: pcs(clique("a", resource_sharing=(CliqueSharing(scope="AllReplicas"),))),
        [f"{T}.cliques[0].resourceSharing[0].name: Required value: reference name is required"],
    ),
    "9 sharing twice": (
        lambda: pcs(clique("a"), resource_sharing=(SetSharing(name="t", scope="PerReplica"),) * 2),
        [f'{T}.resourceSharing[1].name: Duplicate value: "t"'],
    ),
    "10 namespace of an internal template": (
        lambda: pcs(
            clique("a"),
            resource_claim_templates=(claim("t"),),
            resource_sharing=(SetSharing(name="t", namespace="other", scope="AllReplicas"),),
        ),
        [
            (
                f'{T}.resourceSharing[0].namespace: Invalid value: "other": namespace must be '
                "empty when name "
                "matches an internal resourceClaimTemplate"
            )
        ],
    ),
    "11 scope": (
        lambda: pcs(clique("a"), resource_sharing=(SetSharing(name="t", scope="Some"),)),
        [
            (
                f'{T}.resourceSharing[0].scope: Unsupported value: "Some": supported values: "AllReplicas", '
                '"PerReplica"'
            )
        ],
    ),
    "12 empty filter of a set": (
        lambda: pcs(
            clique("a"), resource_sharing=(SetSharing(name="t", scope="AllReplicas", filter=SetFilter()),)
        ),
        [
            (
                f"{T}.resourceSharing[0].filter: Required value: filter must specify at least one "
                "childCliqueNames or childScalingGroupNames entry"
            )
        ],
    ),
    "13 unknown names in the filter of a set": (
        lambda: pcs(
            clique("a"),
            resource_sharing=(
                SetSharing(
                    name="t",
                    scope="AllReplicas",
                    filter=SetFilter(child_clique_names=("a", "x"), child_scaling_group_names=("g",)),
                ),
            ),
        ),
        [
            f'{T}.resourceSharing[0].filter.childCliqueNames[1]: Not found: "x"',
            f'{T}.resourceSharing[0].filter.childScalingGroupNames[0]: Not found: "g"',
        ],
    ),
    "14 empty filter of a group": (
        lambda: pcs(
            clique("a"),
            groups=[
                group(
                    "g",
                    ["a"],
                    resource_sharing=(GroupSharing(name="t", scope="AllReplicas", filter=GroupFilter()),),
                )
            ],
        ),
        [
            (
                f"{T}.podCliqueScalingGroups[0].resourceSharing[0].filter: Required value: "
                "filter must specify "
                "at least one childCliqueNames entry"
            )
        ],
    ),
    "15 filter of a group beyond it": (
        lambda: pcs(
            clique("a"),
            clique("b"),
            groups=[
                group(
                    "g",
                    ["a"],
                    resource_sharing=(
                        GroupSharing(
                            name="t", scope="AllReplicas", filter=GroupFilter(child_clique_names=("b",))
                        ),
                    ),
                )
            ],
        ),
        [f'{T}.podCliqueScalingGroups[0].resourceSharing[0].filter.childCliqueNames[0]: Not found: "b"'],
    ),
    "16 no cliques": (
        lambda: pcs(),
        [f"{T}.cliques: Required value: at least one PodClique must be defined"],
    ),
    "17 no name": (
        lambda: pcs(clique("")),
        [f"{T}.cliques[0].name: Required value: field cannot be empty"],
    ),
    "18 bad name": (
        lambda: pcs(clique("b_x")),
        [
            (
                f'{T}.cliques[0].name: Invalid value: "b_x": invalid PodCliqueTemplateSpec name, '
                "must be a valid "
                "DNS subdomain"
            )
        ],
    ),
    "19 names too long": (
        lambda: pcs(clique("y" * 16), name=LONG),
        [
            (
                f'{T}.cliques[0].name: Invalid value: "{"y" * 16}": combined resource name length 46 exceeds '
                "45-character limit required for pod naming. Consider shortening: "
                f"PodCliqueSet '{LONG}' or PodClique '{'y' * 16}'"
            ),
            f'metadata.name: Invalid value: "{LONG}": combined resource name length 46',
        ],
    ),
    "20 names of a group too long": (
        lambda: pcs(clique("y" * 10), name=LONG, groups=[group("zzzzzz", ["y" * 10])]),
        [
            f'{T}.podCliqueScalingGroups[0].cliqueNames[0].name: Invalid value: "{"y" * 10}": combined',
            f'{T}.podCliqueScalingGroups[0].name: Invalid value: "{"y" * 10}": combined resource name',
            (
                f"Consider shortening: PodCliqueSet '{LONG}', PodCliqueScalingGroup 'zzzzzz', or PodClique "
                f"'{'y' * 10}'"
            ),
            f'metadata.name: Invalid value: "{LONG}"',
        ],
    ),
    "21 too many annotations": (
        lambda: pcs(clique("a", annotations={"a": "x" * 262144})),
        [f"{T}.cliques[0].annotations: Too long: may not be more than 262144 bytes"],
    ),
    "21 labels and annotations": (
        lambda: pcs(clique("a", labels={"a b": "c d"}, annotations={"/x": ""})),
        [
            f'{T}.cliques[0].labels: Invalid value: "a b": name part must consist of',
            f'{T}.cliques[0].labels: Invalid value: "c d": a valid label must be an empty string or',
            f'{T}.cliques[0].annotations: Invalid value: "/x": prefix part must be non-empty',
        ],
    ),
    "22 replicas of a clique": (
        lambda: pcs(clique("a", -1, 1)),
        [f"{T}.cliques[0].spec.replicas: Invalid value: -1: must be greater than 0"],
    ),
    "23 no minimum": (
        lambda: pcs(clique("a"), is_complete=False, termination_delay=Duration("1s")),
        [f"{T}.cliques[0].spec.minAvailable: Required value: field is required"],
    ),
    "24 minimum too small": (
        lambda: pcs(clique("a", 1, 0)),
        [f"{T}.cliques[0].spec.minAvailable: Invalid value: 0: must be greater than 0"],
    ),
    "25 minimum too big": (
        lambda: pcs(clique("a", 2, 3)),
        [
            (
                f"{T}.cliques[0].spec.minAvailable: Invalid value: 3: minAvailable must not be "
                "greater than replicas"
            )
        ],
    ),
    "26 empty dependency": (
        lambda: pcs(clique("a"), clique("b", starts_after=("",)), **EXPLICIT),
        [f"{T}.cliques[1].spec.startsAfter: Required value: clique dependency must not be empty"],
    ),
    "27 after itself": (
        lambda: pcs(clique("a", starts_after=("a",)), **EXPLICIT),
        [f'{T}.cliques[0].spec.startsAfter: Invalid value: "a": clique dependency cannot refer to itself'],
    ),
    "28 after the same twice": (
        lambda: pcs(clique("a"), clique("b", starts_after=("a", "a")), **EXPLICIT),
        [f'{T}.cliques[1].spec.startsAfter: Duplicate value: ["a"]'],
    ),
    "29 no minReplicas": (
        lambda: pcs(
            clique("a", 1, 1, auto_scaling_config=scaling(None, 3)),
            is_complete=False,
            termination_delay=Duration("1s"),
        ),
        [f"{T}.cliques[0].spec.autoScalingConfig.minReplicas: Required value: field is required"],
    ),
    "30 minReplicas below the minimum": (
        lambda: pcs(clique("a", 3, 2, auto_scaling_config=scaling(1, 3))),
        [
            (
                f"{T}.cliques[0].spec.autoScalingConfig.minReplicas: Invalid value: 1: must be "
                "greater than or "
                "equal to podCliqueSpec.minAvailable"
            )
        ],
    ),
    "31 maxReplicas below minReplicas": (
        lambda: pcs(clique("a", 4, 3, auto_scaling_config=scaling(6, 5))),
        [
            (
                f"{T}.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 5: must be "
                "greater than or "
                "equal to podCliqueSpec.minReplicas"
            )
        ],
    ),
    "32 maxReplicas below replicas": (
        lambda: pcs(clique("a", 4, 1, auto_scaling_config=scaling(1, 3))),
        [
            (
                f"{T}.cliques[0].spec.autoScalingConfig.maxReplicas: Invalid value: 3: must be "
                "greater than or "
                "equal to replicas"
            )
        ],
    ),
    "33 spread": (
        lambda: pcs(
            clique(
                "a",
                pod_spec=pod_spec(
                    topology_spread_constraints=(TopologySpreadConstraint(topology_key="zone"),)
                ),
            )
        ),
        [f"{T}.cliques[0].spec.podSpec.spec.topologySpreadConstraints: Invalid value: [", "must not be set"],
    ),
    "34 node": (
        lambda: pcs(clique("a", pod_spec=pod_spec(node_name="n1"))),
        [f'{T}.cliques[0].spec.podSpec.spec.nodeName: Invalid value: "n1": must not be set'],
    ),
    "35 variable": (
        lambda: pcs(clique("a", pod_spec=pod_spec().evolve(containers=containers(env=env(**{"1BAD": "x"}))))),
        [
            (
                f'{T}.cliques[0].spec.podSpec.spec.containers[0].env[0].name: Invalid value: "1BAD": a valid '
                "environment variable name must consist of"
            )
        ],
    ),
    "36 variable twice": (
        lambda: pcs(
            clique(
                "a",
                pod_spec=pod_spec().evolve(init_containers=containers(env=(*env(A="x"), *env(A="y")))),
            )
        ),
        [f'{T}.cliques[0].spec.podSpec.spec.initContainers[0].env: Duplicate value: ["A"]'],
    ),
    "37 cliques and roles twice": (
        lambda: pcs(clique("a"), clique("a")),
        [f'{T}.cliques.name: Duplicate value: ["a"]', f'{T}.cliques.roleName: Duplicate value: ["role-a"]'],
    ),
    "38 and 39 schedulers": (
        lambda: pcs(clique("a", pod_spec=pod_spec(scheduler_name="volcano")), clique("b")),
        [
            (
                f'{T}.cliques.spec.podSpec.schedulerName: Invalid value: "volcano, default-scheduler": the '
                "schedulerName for all pods have to be the same"
            ),
            (
                f'{T}.cliques.spec.podSpec.schedulerName: Invalid value: "volcano": schedulerName must be an '
                "enabled scheduler backend; this scheduler is not enabled in OperatorConfiguration"
            ),
        ],
    ),
    "40 unknown dependency": (
        lambda: pcs(clique("a", starts_after=("x", "y")), **EXPLICIT),
        [
            (
                f'{T}.cliques.startsAfter: Invalid value: "x,y": unknown clique names found, all clique '
                "dependencies must be defined as cliques"
            )
        ],
    ),
    "41 circle": (
        lambda: pcs(clique("a", starts_after=("b",)), clique("b", starts_after=("a",)), **EXPLICIT),
        [f'{T}.cliques: Invalid value: [["a","b"]]: clique must not have circular dependencies'],
    ),
    "42 group name": (
        lambda: pcs(clique("a"), groups=[group("G_", ["a"])]),
        [
            (
                f'{T}.podCliqueScalingGroups[0].name: Invalid value: "G_": invalid '
                "PodCliqueScalingGroupConfig "
                "name, must be a valid DNS subdomain"
            )
        ],
    ),
    "43 group of unknown cliques": (
        lambda: pcs(clique("a"), groups=[group("g", ["x", "y"])]),
        [
            (
                f'{T}.podCliqueScalingGroups[0].cliqueNames: Invalid value: "x,y": unidentified '
                "PodClique names "
                "found"
            )
        ],
    ),
    "44 replicas of a group": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"], -1)]),
        [
            f"{T}.podCliqueScalingGroups[0].replicas: Invalid value: -1: must be greater than 0",
            f"{T}.podCliqueScalingGroups[0].minAvailable: Invalid value: 1: minAvailable must not be greater",
        ],
    ),
    "45 minimum of a group": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"], 1, 0)]),
        [f"{T}.podCliqueScalingGroups[0].minAvailable: Invalid value: 0: must be greater than 0"],
    ),
    "46 minimum of a group too big": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"], 2, 4)]),
        [
            (
                f"{T}.podCliqueScalingGroups[0].minAvailable: Invalid value: 4: minAvailable "
                "must not be greater "
                "than replicas"
            )
        ],
    ),
    "47 minReplicas of a group": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"], 3, 2, scale_config=scaling(1, 3))]),
        [
            (
                f"{T}.podCliqueScalingGroups[0].scaleConfig.minReplicas: Invalid value: 1: "
                "scaleConfig.minReplicas must be greater than or equal to minAvailable"
            )
        ],
    ),
    "48 groups twice": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"]), group("g", ["a"])]),
        [
            f'{T}.podCliqueScalingGroups.name: Duplicate value: ["g"]',
            f'{T}.podCliqueScalingGroups.cliqueNames: Duplicate value: ["a"]',
        ],
    ),
    "49 own scaling inside a group": (
        lambda: pcs(clique("a", auto_scaling_config=scaling(1, 3)), groups=[group("g", ["a"])]),
        [
            (
                f'{T}.podCliqueScalingGroups: Invalid value: "a": AutoScalingConfig is not '
                "allowed to be defined "
                "for PodClique that is part of scaling group"
            )
        ],
    ),
    "50 no delay": (
        lambda: pcs(clique("a", 1, 1), is_complete=False),
        [f"{T}.terminationDelay: Required value: terminationDelay is required"],
    ),
    "50 negative delay": (
        lambda: pcs(clique("a"), termination_delay=Duration("-1s")),
        [f'{T}.terminationDelay: Invalid value: "-1s": terminationDelay must be greater than 0'],
    ),
    "50 no delay at all": (
        lambda: pcs(clique("a"), termination_delay=Duration("soon")),
        [f'{T}.terminationDelay: Invalid value: "soon": time: invalid duration "soon"'],
    ),
    "MNNVL": (
        lambda: pcs(clique("a", annotations={names.MNNVL_GROUP: "g"})),
        [
            (
                f'{T}.cliques[0].annotations.grove.io/mnnvl-group: Invalid value: "g": '
                "MNNVL is not enabled in the operator configuration. Either enable MNNVL "
                "globally or remove the "
                "grove.io/mnnvl-group annotation"
            )
        ],
    ),
    "MNNVL group without a name": (
        lambda: pcs(clique("a"), annotations={names.MNNVL_GROUP: ""}),
        [
            (
                'metadata.annotations.grove.io/mnnvl-group: Invalid value: "": '
                "mnnvl-group value must not be empty"
            )
        ],
    ),
    "MNNVL group of a wrong name": (
        lambda: pcs(clique("a"), groups=[group("g", ["a"], annotations={names.MNNVL_GROUP: "No_Label"})]),
        [
            (
                f'{T}.podCliqueScalingGroups[0].annotations.grove.io/mnnvl-group: Invalid value: "No_Label": '
                'mnnvl-group value "No_Label" is not a valid DNS-1123 label: a lowercase RFC 1123 label must'
            )
        ],
    ),
    "MNNVL group of a long name": (
        lambda: pcs(clique("a"), annotations={names.MNNVL_GROUP: "x" * 64}),
        ["is not a valid DNS-1123 label: must be no more than 63 characters"],
    ),
}


@pytest.mark.parametrize("rule", RULE_TABLE)
def test_a_broken_rule_is_told_in_its_words(rule: str) -> None:
    make, texts = RULE_TABLE[rule]
    found = joined_text(validate(make(), RULES))
    for text in texts:
        assert text in found


GOOD: dict[str, Callable[[], PodCliqueSet]] = {
    "one clique": lambda: pcs(clique("a")),
    "zero replicas": lambda: pcs(clique("a"), replicas=0),
    "longest names": lambda: pcs(clique("y" * 15), name=LONG),
    "a scheduler that is enabled": lambda: pcs(
        clique("a", pod_spec=pod_spec(scheduler_name="default-scheduler"))
    ),
    "the default scheduler, named and not": lambda: pcs(
        clique("a"), clique("b", pod_spec=pod_spec(scheduler_name="default-scheduler"))
    ),
    "a diamond": lambda: pcs(
        clique("a"),
        clique("b", starts_after=("a",)),
        clique("c", starts_after=("a",)),
        clique("d", starts_after=("b", "c")),
        **EXPLICIT,
    ),
    "startsAfter without Explicit is not looked at": lambda: pcs(clique("a", starts_after=("a", "x"))),
    "scaling between equal bounds": lambda: pcs(clique("a", 3, 2, auto_scaling_config=scaling(3, 3))),
    "opted out of MNNVL": lambda: pcs(clique("a"), annotations={names.MNNVL_GROUP: "none"}),
}


@pytest.mark.parametrize("what", GOOD)
def test_what_is_allowed_passes(what: str) -> None:
    assert validate(GOOD[what](), RULES) == []


def test_all_errors_are_told_at_once() -> None:
    made = pcs(
        clique("a", 2, 3, role_name="r"), clique("b_x", role_name="r"), termination_delay=Duration("-1s")
    )
    found = validate(made, RULES)
    assert [each.field for each in found] == [
        f"{T}.cliques[0].spec.minAvailable",
        f"{T}.cliques[1].name",
        f"{T}.cliques.roleName",
        f"{T}.terminationDelay",
    ]
    assert joined_text(found).startswith("[spec.template.cliques[0]")


def test_nodes_and_spread_of_a_set_that_exists_are_not_complained_about() -> None:
    made = pcs(clique("a", pod_spec=pod_spec(node_name="n1")))
    assert validate(made, RULES, old=made) == []


def test_the_scheduler_of_a_set_that_exists_may_be_one_that_is_no_longer_enabled() -> None:
    old = pcs(clique("a", pod_spec=pod_spec(scheduler_name="kai-scheduler")))
    assert validate(old, RULES)
    assert validate(old, RULES, old=old) == []


def test_with_mnnvl_enabled_the_annotation_is_allowed() -> None:
    rules = Rules(
        default_scheduler="default-scheduler",
        enabled_schedulers=frozenset({"default-scheduler"}),
        has_mnnvl=True,
    )
    assert validate(pcs(clique("a"), annotations={names.MNNVL_GROUP: "g"}), rules) == []


def test_an_empty_spread_is_one_that_was_set() -> None:
    found = validate(pcs(clique("a"), clique("b")), RULES, spread=(1,))
    path = f"{T}.cliques[1].spec.podSpec.spec.topologySpreadConstraints"
    assert joined_text(found) == f"{path}: Invalid value: []: must not be set"


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("", "g", "Forbidden: annotation grove.io/mnnvl-group cannot be added after creation"),
        ("g", "", "Forbidden: annotation grove.io/mnnvl-group cannot be removed after creation"),
        (
            "g",
            "h",
            (
                'Invalid value: "h": annotation grove.io/mnnvl-group is immutable and cannot be changed '
                'from "g" to "h"'
            ),
        ),
    ],
)
def test_groups_of_mnnvl_stay_whatever_the_order_of_cliques(before: str, after: str, text: str) -> None:
    def made(value: str, *, is_reversed: bool = False) -> PodCliqueSet:
        annotations = {names.MNNVL_GROUP: value} if value else {}
        cliques = [clique("a", annotations=annotations), clique("b")]
        return pcs(*(reversed(cliques) if is_reversed else cliques))

    found = validate(made(after, is_reversed=True), RULES, old=made(before))
    assert joined_text(found) == f"{T}.cliques[1].annotations.grove.io/mnnvl-group: {text}"
    assert validate(made(before, is_reversed=True), RULES, old=made(before)) == []


def test_each_clique_is_warned_about_its_restart_policy() -> None:
    made = pcs(clique("a"), clique("b"))
    assert warnings_of(made.spec.template) == ["restartPolicy will be ignored, it will be set to Always"] * 2
