"""What may be changed of a PodCliqueSet, what is filled in, and the rules of topology constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from quarterdeck.api import UNSET, Duration, ObjectMeta
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.defaulting import with_defaults
from quarterdeck.operators.grove.logic.validation import (
    Rules,
    check_domains,
    resolve_topology,
    topology_changes,
    unknown_topology,
    validate_update,
    warnings_of,
)
from quarterdeck.operators.grove.types import (
    AutoScaling,
    CliqueSharing,
    HeadlessServiceConfig,
    Pack,
    PodCliqueSet,
    TopologyConstraint,
    TopologyLevel,
)
from quarterdeck.wire.fielderror import joined_text

from .grovekit import clique, group, pcs, pod_spec

T = "spec.template"
LEVELS = tuple(TopologyLevel(domain=each, key=f"k/{each}") for each in ("zone", "block", "rack", "host"))


def near(
    required: str = "", preferred: str = "", *, name: str = "topo", old_word: str = ""
) -> TopologyConstraint:
    pack = Pack(required=required or UNSET, preferred=preferred or UNSET) if required or preferred else UNSET
    return TopologyConstraint(topology_name=name, pack=pack, pack_domain=old_word or UNSET)


def test_everything_that_is_not_said_is_filled_in() -> None:
    made = with_defaults(pcs(clique("a", 0), is_complete=False)).spec.template
    spec = made.cliques[0].spec
    assert (spec.replicas, spec.min_available) == (1, 1)
    assert spec.pod_spec.restart_policy == "Always"
    assert spec.pod_spec.termination_grace_period_seconds == 30
    assert str(made.termination_delay) == "4h0m0s"
    assert made.headless_service_config == HeadlessServiceConfig(publish_not_ready_addresses=True)


def test_what_is_said_stays() -> None:
    own = pod_spec(restart_policy="Never", termination_grace_period_seconds=0)
    given = pcs(
        clique("a", 5, 2, pod_spec=own, auto_scaling_config=AutoScaling(min_replicas=3, max_replicas=9)),
        is_complete=False,
        termination_delay=Duration("10s"),
        headless_service_config=HeadlessServiceConfig(publish_not_ready_addresses=False),
    )
    assert with_defaults(given) is given


def test_a_delay_gets_the_form_that_go_gives_it() -> None:
    made = pcs(clique("a"), termination_delay=Duration("90m"))
    assert str(made.spec.template.termination_delay) == "1h30m0s"
    assert with_defaults(made) is made


def test_scaling_begins_at_the_replicas_of_what_is_scaled() -> None:
    given = pcs(
        clique("a", 4, auto_scaling_config=AutoScaling(max_replicas=9)),
        clique("b"),
        groups=[group("g", ["b"], 3, scale_config=AutoScaling(max_replicas=9))],
        is_complete=False,
    )
    template = with_defaults(given).spec.template
    assert template.cliques[0].spec.auto_scaling_config.min_replicas == 4
    assert template.pod_clique_scaling_groups[0].scale_config.min_replicas == 3


def test_a_set_without_namespace_is_in_the_default_one() -> None:
    given = pcs(clique("a"), is_complete=False).evolve(metadata=ObjectMeta(name="w"))
    assert with_defaults(given).metadata.namespace == "default"


BASE: dict[str, Any] = {"groups": [group("g", ["b"], 2, 1)]}


def base(**changes: Any) -> PodCliqueSet:
    return pcs(clique("a", 2, 1), clique("b"), **{**BASE, **changes})


FORBIDDEN: dict[str, tuple[Callable[[], PodCliqueSet], list[str]]] = {
    "a clique less": (
        lambda: pcs(clique("b"), **BASE),
        [f"{T}.cliques: Forbidden: not allowed to change clique composition"],
    ),
    "another clique": (
        lambda: pcs(clique("a", 2, 1), clique("c"), **BASE),
        [f"{T}.cliques.name: Forbidden: not allowed to change clique composition, new clique name 'c'"],
    ),
    "role": (
        lambda: pcs(clique("a", 2, 1, role_name="x"), clique("b"), **BASE),
        [f'{T}.cliques.spec.roleName: Invalid value: "x": field is immutable'],
    ),
    "minimum": (
        lambda: pcs(clique("a", 2, 2), clique("b"), **BASE),
        [f"{T}.cliques.spec.minAvailable: Invalid value: 2: field is immutable"],
    ),
    "order of start": (
        lambda: pcs(clique("a", 2, 1, starts_after=("b",)), clique("b"), **BASE),
        [f'{T}.cliques.spec.startsAfter: Invalid value: ["b"]: field is immutable'],
    ),
    "scheduler": (
        lambda: pcs(clique("a", 2, 1, pod_spec=pod_spec(scheduler_name="x")), clique("b"), **BASE),
        [f'{T}.cliques.spec.podSpec.schedulerName: Invalid value: "x": field is immutable'],
    ),
    "sharing of a clique": (
        lambda: pcs(
            clique("a", 2, 1), clique("b", resource_sharing=(CliqueSharing(name="t", scope="x"),)), **BASE
        ),
        [f"{T}.cliques[1].resourceSharing: Invalid value"],
    ),
    "startup type": (
        lambda: base(clique_startup_type=names.IN_ORDER),
        [f'{T}.cliqueStartupType: Invalid value: "{names.IN_ORDER}": field is immutable'],
    ),
    "a group less": (
        lambda: base(groups=[]),
        [f"{T}.podCliqueScalingGroups: Forbidden: not allowed to add or remove PodCliqueScalingGroupConfigs"],
    ),
    "another group": (
        lambda: base(groups=[group("h", ["b"], 2, 1)]),
        [
            (
                f"{T}.podCliqueScalingGroups.name: Forbidden: not allowed to change scaling group "
                "composition, new"
            ),
            "scaling group name 'h' is not allowed",
        ],
    ),
    "cliques of a group": (
        lambda: base(groups=[group("g", ["a"], 2, 1)]),
        [f'{T}.podCliqueScalingGroups.cliqueNames: Invalid value: ["a"]: field is immutable'],
    ),
    "minimum of a group": (
        lambda: base(groups=[group("g", ["b"], 2, 2)]),
        [f"{T}.podCliqueScalingGroups.minAvailable: Invalid value: 2: field is immutable"],
    ),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_what_a_gang_was_promised_cannot_be_changed(what: str) -> None:
    make, texts = FORBIDDEN[what]
    found = joined_text(validate_update(base(), make()))
    for text in texts:
        assert text in found


ALLOWED: dict[str, Callable[[], PodCliqueSet]] = {
    "replicas": lambda: base(replicas=3),
    "replicas of a clique": lambda: pcs(clique("a", 7, 1), clique("b"), **BASE),
    "pods": lambda: pcs(clique("a", 2, 1, pod_spec=pod_spec("other:1")), clique("b"), **BASE),
    "labels": lambda: pcs(clique("a", 2, 1, labels={"x": "y"}), clique("b"), **BASE),
    "priority": lambda: base(priority_class_name="high"),
    "delay": lambda: base(termination_delay=Duration("1m")),
    "replicas of a group": lambda: base(groups=[group("g", ["b"], 5, 1)]),
    "order, where it means nothing": lambda: pcs(clique("b"), clique("a", 2, 1), **BASE),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_all_else_can_be_changed(what: str) -> None:
    assert validate_update(base(), ALLOWED[what]()) == []


@pytest.mark.parametrize("kind", [names.IN_ORDER, names.EXPLICIT])
def test_cliques_that_start_in_order_keep_it(kind: str) -> None:
    before = pcs(clique("a"), clique("b"), clique_startup_type=kind)
    after = pcs(clique("b"), clique("a"), clique_startup_type=kind)
    assert (
        "clique order cannot be changed when StartupType is InOrder or Explicit. Expected 'b' at position 0, "
        "got 'b'"
    ) in joined_text(validate_update(before, after))


OFF = Rules(default_scheduler="d", enabled_schedulers=frozenset())
ON = Rules(default_scheduler="d", enabled_schedulers=frozenset(), has_topology=True)
SEED = Rules(
    default_scheduler="d", enabled_schedulers=frozenset(), has_topology=True, has_default_topology=True
)


def resolved(made: PodCliqueSet, rules: Rules = ON) -> tuple[str, str]:
    verdict = resolve_topology(made.spec.template, rules)
    return verdict.name, joined_text(verdict.errors) if verdict.errors else ""


def test_without_constraints_there_is_nothing_to_check() -> None:
    assert resolved(pcs(clique("a")), OFF) == ("", "")


def test_constraints_are_refused_where_topology_is_off() -> None:
    made = pcs(
        clique("a", topology_constraint=near("rack")),
        groups=[group("g", ["a"], topology_constraint=near("rack"))],
        topology_constraint=near("zone"),
    )
    name, text = resolved(made, OFF)
    assert name == ""
    for path in ("", ".cliques[0]", ".podCliqueScalingGroups[0]"):
        assert f"{T}{path}.topologyConstraint: Invalid value" in text
    assert "topology constraints are not allowed when Topology Aware Scheduling is disabled" in text


def test_a_name_is_inherited_from_the_group_and_from_the_set() -> None:
    nameless = near("host", name="")
    in_group = pcs(
        clique("a", topology_constraint=nameless),
        groups=[group("g", ["a"], topology_constraint=near("rack"))],
    )
    assert resolved(in_group) == ("topo", "")
    in_set = pcs(clique("a", topology_constraint=nameless), topology_constraint=near("zone"))
    assert resolved(in_set) == ("topo", "")


def test_a_standalone_clique_inherits_nothing_from_a_group() -> None:
    made = pcs(
        clique("a"),
        clique("b", topology_constraint=near("host", name="")),
        groups=[group("g", ["a"], topology_constraint=near("rack"))],
    )
    assert f"{T}.cliques[1].topologyConstraint.topologyName: Required value" in resolved(made)[1]


def test_names_of_one_set_are_the_same() -> None:
    made = pcs(clique("a", topology_constraint=near("host", name="other")), topology_constraint=near("zone"))
    name, text = resolved(made)
    assert name == ""
    assert text.startswith(f'{T}.cliques[0].topologyConstraint.topologyName: Invalid value: "other": all ')
    strangers = pcs(
        clique("a", topology_constraint=near("host", name="other")),
        clique("b", topology_constraint=near("host")),
    )
    name, text = resolved(strangers)
    assert name == ""
    for place, named in enumerate(("other", "topo")):
        assert f'{T}.cliques[{place}].topologyConstraint.topologyName: Invalid value: "{named}"' in text


def test_the_old_word_is_refused_on_new_sets_unless_levels_are_configured() -> None:
    made = pcs(clique("a"), topology_constraint=near(old_word="rack", name=""))
    for rules in (ON, OFF):
        assert (
            f"{T}.topologyConstraint.packDomain: Forbidden: packDomain is deprecated and cannot be used on "
            "new workloads; use pack.required"
        ) in resolved(made, rules)[1]
    assert resolved(made, SEED) == (names.DEFAULT_TOPOLOGY, "")
    assert warnings_of(made.spec.template)[-1] == (
        f"{T}.topologyConstraint.packDomain is deprecated; use {T}.topologyConstraint.pack.required instead"
    )


def test_a_topology_that_does_not_exist_is_named() -> None:
    assert str(unknown_topology("x")) == (
        f'{T}.topologyConstraint.topologyName: Invalid value: "x": ClusterTopologyBinding "x" not found'
    )


def domains(made: PodCliqueSet) -> str:
    errors = check_domains(made.spec.template, LEVELS)
    return joined_text(errors) if errors else ""


def test_domains_must_be_levels_of_the_topology() -> None:
    made = pcs(clique("a", topology_constraint=near("region")), topology_constraint=near("zone", "numa"))
    text = domains(made)
    assert (
        f"{T}.topologyConstraint.pack.preferred: Invalid value: \"numa\": topology domain 'numa' "
        "does not exist "
        "in cluster topology [zone block rack host]"
    ) in text
    assert f"{T}.cliques[0].topologyConstraint.pack.required" in text
    old = pcs(clique("a"), topology_constraint=near(old_word="numa"))
    assert f"{T}.topologyConstraint.packDomain: Invalid value" in domains(old)


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (near("zone"), near("host"), ""),
        (near("rack"), near("rack"), ""),
        (near("host"), near("zone"), f'{T}.topologyConstraint: Invalid value: "host": PodCliqueSet topology'),
        (
            near("zone", "host"),
            near("host", "rack"),
            f'{T}.topologyConstraint.pack.preferred: Invalid value: "host"',
        ),
        (near("zone"), near(preferred="zone"), ""),
    ],
)
def test_what_is_inside_is_not_wider(
    outer: TopologyConstraint, inner: TopologyConstraint, expected: str
) -> None:
    made = pcs(clique("a", topology_constraint=inner), topology_constraint=outer)
    text = domains(made)
    assert text.startswith(expected) if expected else text == ""


def test_groups_stand_between_set_and_clique() -> None:
    made = pcs(
        clique("c", topology_constraint=near("zone")),
        groups=[group("g", ["c"], topology_constraint=near("rack"))],
        topology_constraint=near("host"),
    )
    text = domains(made)
    assert "PodCliqueSet topology constraint domain 'host' is narrower than PodCliqueScalingGroup 'g'" in text
    assert (
        f'{T}.podCliqueScalingGroups[0].topologyConstraint: Invalid value: "rack": '
        "PodCliqueScalingGroup 'g' "
        "topology constraint domain 'rack' is narrower than PodClique 'c' topology constraint domain 'zone'"
    ) in text


def test_a_preference_wider_than_the_demand_is_warned_about() -> None:
    made = pcs(clique("a"), topology_constraint=near("rack", "zone"))
    path = f"{T}.topologyConstraint"
    assert f"{path}.pack.preferred is coarser than {path}.pack.required and is redundant" in warnings_of(
        made.spec.template, LEVELS
    )


def changed(before: Any, after: Any, place: str = "set") -> str:
    def make(constraint: Any) -> PodCliqueSet:
        if place == "set":
            return pcs(clique("a"), topology_constraint=constraint)
        if place == "clique":
            return pcs(clique("a", topology_constraint=constraint))
        return pcs(clique("a"), groups=[group("g", ["a"], topology_constraint=constraint)])

    errors = topology_changes(make(before).spec.template, make(after).spec.template)
    return joined_text(errors) if errors else ""


KEPT = "topology constraint cannot be"
CHANGES: dict[str, tuple[Any, Any, str, str]] = {
    "nothing": (near("rack"), near("rack"), "set", ""),
    "added": (UNSET, near("rack"), "group", f"PodCliqueScalingGroup 'g' {KEPT} added after creation"),
    "removed": (near("rack"), UNSET, "clique", f"PodClique 'a' {KEPT} removed after creation"),
    "domain": (
        near("rack"),
        near("zone"),
        "set",
        f'PodCliqueSet {KEPT} changed from required="rack" preferred="" to required="zone" preferred=""',
    ),
    "name": (
        near("rack"),
        near("rack", name="b"),
        "set",
        f'{T}.topologyConstraint.topologyName: Forbidden: topologyName cannot be changed from "topo" to "b"',
    ),
    "name of a clique": (
        near("rack"),
        near("rack", name="b"),
        "clique",
        "PodClique 'a' topology constraint topologyName cannot be changed from 'topo' to 'b'",
    ),
    "added to the set": (
        UNSET,
        near("rack"),
        "set",
        f'{T}.topologyConstraint.topologyName: Forbidden: topologyName cannot be changed from "" to "topo"',
    ),
    "migration to another domain": (
        near(old_word="rack"),
        near("zone"),
        "clique",
        (
            "PodClique 'a' deprecated packDomain migration can only move packDomain to pack.required without "
            'changing the required or preferred topology domain (old required="rack" preferred="", new '
            'required="zone" preferred="")'
        ),
    ),
    "repair": (near(old_word="rack", name=""), near(old_word="rack"), "set", ""),
    "migration": (near(old_word="rack"), near("rack"), "set", ""),
    "the old word again": (near("rack"), near(old_word="rack"), "set", f"PodCliqueSet {KEPT} changed"),
    "repair and migration at once": (
        near(old_word="rack", name=""),
        near("rack"),
        "set",
        f"{T}.topologyConstraint.topologyName: Forbidden",
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_constraints_stay_except_for_repairs(what: str) -> None:
    before, after, place, text = CHANGES[what]
    found = changed(before, after, place)
    assert text in found if text else found == ""


def test_a_clique_that_is_new_has_no_constraint_to_keep() -> None:
    before, after = pcs(clique("a")), pcs(clique("a"), clique("b", topology_constraint=near("rack")))
    (error,) = topology_changes(before.spec.template, after.spec.template)
    assert "PodClique 'b' topology constraint cannot be added after creation" in str(error)
