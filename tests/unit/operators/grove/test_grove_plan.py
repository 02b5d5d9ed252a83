"""Children: names, hashes, order of start, and what each of them is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.api import UNSET, ObjectMeta
from quarterdeck.api.k8s import Container, Pod
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic import childplan, naming
from quarterdeck.operators.grove.logic.cliqueplan import (
    group_config_of,
    plan_group_cliques,
    plan_scaling_groups,
    plan_standalone_cliques,
)
from quarterdeck.operators.grove.logic.gangplan import gang_object, mirrored, plan_gangs
from quarterdeck.operators.grove.logic.membership import clique_name_of
from quarterdeck.operators.grove.logic.podplan import PodSurroundings, finished_pod, gated_pod
from quarterdeck.operators.grove.logic.startorder import Parent, parents_of
from quarterdeck.operators.grove.logic.templatehash import clique_hashes, generation_hash
from quarterdeck.operators.grove.logic.topology import TopologyView
from quarterdeck.operators.grove.types import (
    AutoScaling,
    HeadlessServiceConfig,
    Pack,
    PodClique,
    PodCliqueScalingGroup,
    PodCliqueSet,
    TopologyConstraint,
)

from .grovekit import NS, clique, env, group, pcs, pcsg, pod_spec, variables, workload


def cliques_of(made: PodCliqueSet) -> dict[str, PodClique]:
    """All PodCliques of a set, by name."""
    hashes = clique_hashes(made)
    found = plan_standalone_cliques(made, hashes)
    for each in plan_scaling_groups(made):
        found += plan_group_cliques(made, each, hashes)
    return {each.metadata.name: each for each in found}


def test_everything_has_its_name() -> None:
    assert set(cliques_of(workload(replicas=2))) == {
        "w-0-pc-a",
        "w-0-sg-x-0-pc-b",
        "w-0-sg-x-0-pc-c",
        "w-0-sg-x-1-pc-b",
        "w-0-sg-x-1-pc-c",
    }
    assert naming.headless_address("w", 1, "ns") == "w-1.ns.svc.cluster.local"
    assert naming.role("w") == "grove.io:pcs:w"
    assert naming.token_secret("w") == "w-ic-sat"


@pytest.mark.parametrize(
    ("host", "index"),
    [("c-0", 0), ("c-12", 12), ("c-x", None), ("d-1", None), ("c", None), ("", None), ("c-", None)],
)
def test_the_index_of_a_pod_is_the_end_of_its_host_name(host: str, index: int | None) -> None:
    assert naming.pod_index("c", host) == index


def test_cliques_whose_names_end_alike_are_not_confused() -> None:
    made = pcs(clique("er"), clique("worker"), groups=[group("work", ["er"])])
    found = {name: clique_name_of(each) for name, each in cliques_of(made).items()}
    assert found == {"w-0-worker": "worker", "w-0-work-0-er": "er"}


def test_a_hash_changes_with_what_pods_are_made_of_and_with_nothing_else() -> None:
    before = pcs(clique("a", 2, 1), clique("b"))
    same = [
        pcs(clique("a", 5, 1), clique("b"), replicas=7),
        pcs(clique("a", 2, 2), clique("b")),
        pcs(clique("a", 2, 1), clique("b"), labels={"x": "y"}, clique_startup_type=names.IN_ORDER),
    ]
    other = [
        pcs(clique("a", 2, 1, pod_spec=pod_spec("other:1")), clique("b")),
        pcs(clique("a", 2, 1, labels={"x": "y"}), clique("b")),
        pcs(clique("a", 2, 1, annotations={"x": "y"}), clique("b")),
        pcs(clique("a", 2, 1), clique("b"), priority_class_name="high"),
    ]
    assert {generation_hash(each) for each in same} == {generation_hash(before)}
    assert len({generation_hash(each) for each in (before, *other)}) == 1 + len(other)
    assert clique_hashes(other[0])["b"] == clique_hashes(before)["b"]
    assert clique_hashes(other[0])["a"] != clique_hashes(before)["a"]


def test_a_hash_has_letters_that_are_not_mistaken() -> None:
    assert set(generation_hash(workload())) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_leaving_out_and_saying_nothing_is_the_same_to_a_hash() -> None:
    plain = pcs(clique("a", pod_spec=pod_spec()))
    empty = pcs(clique("a", pod_spec=pod_spec(node_selector={}, tolerations=())))
    assert generation_hash(plain) == generation_hash(empty)


def starts(made: PodCliqueSet) -> dict[str, list[str]]:
    return {name: list(each.spec.starts_after) for name, each in cliques_of(made).items()}


def test_in_any_order_nobody_waits() -> None:
    assert set(map(tuple, starts(workload()).values())) == {()}


def test_in_order_each_clique_waits_for_all_replicas_of_the_one_before() -> None:
    found = starts(workload(clique_startup_type=names.IN_ORDER))
    both = ["w-0-sg-x-0-pc-b", "w-0-sg-x-1-pc-b"]
    assert found == {
        "w-0-pc-a": [],
        "w-0-sg-x-0-pc-b": ["w-0-pc-a"],
        "w-0-sg-x-1-pc-b": ["w-0-pc-a"],
        "w-0-sg-x-0-pc-c": both,
        "w-0-sg-x-1-pc-c": both,
    }


def test_a_scaled_gang_waits_for_itself_only() -> None:
    found = starts(workload((1, 1, 1), 1, clique_startup_type=names.IN_ORDER))
    assert found["w-0-sg-x-0-pc-c"] == ["w-0-sg-x-0-pc-b"]
    assert found["w-0-sg-x-1-pc-b"] == []
    assert found["w-0-sg-x-1-pc-c"] == ["w-0-sg-x-1-pc-b"]


def test_explicit_order_is_followed() -> None:
    found = starts(workload(clique_startup_type=names.EXPLICIT, after={"b": ["pc-c"], "c": ["pc-a"]}))
    assert found["w-0-sg-x-0-pc-b"] == ["w-0-sg-x-0-pc-c", "w-0-sg-x-1-pc-c"]
    assert found["w-0-sg-x-0-pc-c"] == ["w-0-pc-a"]


def test_a_parent_is_waited_for_as_far_as_its_minimum() -> None:
    made = workload((1, 1, 2), 1, clique_startup_type=names.EXPLICIT, after={"a": ["pc-c"]})
    assert parents_of(made, "pc-a", replica=0) == [Parent("w-0-sg-x-0-pc-c", 2)]


def test_a_standalone_clique_belongs_to_the_set() -> None:
    made = pcs(
        clique(
            "fe",
            3,
            labels={"team": "x", names.PODGANG: "evil"},
            annotations={"a": "b", names.TOPOLOGY_NAME: "t"},
        )
    )
    (found,) = plan_standalone_cliques(made, clique_hashes(made))
    owner = found.metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.controller, owner.block_owner_deletion) == (
        "PodCliqueSet",
        "w",
        True,
        True,
    )
    assert found.metadata.finalizers == (names.CLIQUE_FINALIZER,)
    assert dict(found.metadata.annotations) == {"a": "b"}
    assert dict(found.metadata.labels) == {
        "team": "x",
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "w",
        names.COMPONENT: "pcs-podclique",
        names.NAME: "w-0-fe",
        names.SET_INDEX: "0",
        names.PODGANG: "w-0",
        names.TEMPLATE_HASH: clique_hashes(made)["fe"],
    }


def test_cliques_of_a_group_know_their_gang() -> None:
    found = cliques_of(workload((1, 1, 1), 1))
    base, scaled = (found[f"w-0-sg-x-{index}-pc-b"].metadata for index in (0, 1))
    assert base.labels[names.PODGANG] == "w-0"
    assert names.BASE_PODGANG not in base.labels
    assert (scaled.labels[names.PODGANG], scaled.labels[names.BASE_PODGANG]) == ("w-0-sg-x-0", "w-0")
    assert scaled.labels[names.SCALING_GROUP_INDEX] == "1"
    assert base.labels[names.COMPONENT] == "pcsg-podclique"
    assert base.owner_references[0].kind == "PodCliqueScalingGroup"


def test_pods_of_a_group_are_told_about_it() -> None:
    found = cliques_of(workload())["w-0-sg-x-0-pc-b"].spec.pod_spec.containers[0]
    assert variables(found) == ["GROVE_PCSG_NAME", "GROVE_PCSG_TEMPLATE_NUM_PODS", "GROVE_PCSG_INDEX"]
    assert found.env[1].value == "4"


def test_a_group_is_made_as_the_template_says() -> None:
    made = pcs(clique("a"), groups=[group("g", ["a"], 3, 2, annotations={"x": "y"})], replicas=2)
    first, second = plan_scaling_groups(made)
    assert (first.metadata.name, second.metadata.name) == ("w-0-g", "w-1-g")
    assert (first.spec.replicas, first.spec.min_available, first.spec.clique_names) == (3, 2, ("a",))
    assert dict(first.metadata.annotations) == {"x": "y"}
    assert first.metadata.finalizers == (names.GROUP_FINALIZER,)
    assert group_config_of(made, second) == made.spec.template.pod_clique_scaling_groups[0]


def test_a_group_of_a_set_with_a_similar_name_is_not_found() -> None:
    made = pcs(clique("a"), groups=[group("g", ["a"])])
    stranger = pcsg("x-0-g")
    assert group_config_of(made, stranger) is None


def gangs(made: PodCliqueSet, **replicas: int) -> dict[str, list[tuple[str, int]]]:
    plans = plan_gangs(made, {key.replace("_", "-"): value for key, value in replicas.items()})
    return {plan.name: [(each.name, each.min_replicas) for each in plan.groups] for plan in plans}


def test_a_set_whose_groups_have_their_minimum_is_one_gang() -> None:
    assert gangs(workload()) == {
        "w-0": [
            ("w-0-pc-a", 2),
            ("w-0-sg-x-0-pc-b", 1),
            ("w-0-sg-x-0-pc-c", 3),
            ("w-0-sg-x-1-pc-b", 1),
            ("w-0-sg-x-1-pc-c", 3),
        ]
    }


def test_replicas_beyond_the_minimum_are_gangs_of_their_own() -> None:
    assert gangs(workload((1, 1, 1), 1)) == {
        "w-0": [("w-0-pc-a", 1), ("w-0-sg-x-0-pc-b", 1), ("w-0-sg-x-0-pc-c", 1)],
        "w-0-sg-x-0": [("w-0-sg-x-1-pc-b", 1), ("w-0-sg-x-1-pc-c", 1)],
    }


def test_a_group_that_exists_says_itself_how_many_it_has() -> None:
    made = pcs(clique("c"), groups=[group("s", ["c"], 3, 2)])
    assert set(gangs(made)) == {"w-0", "w-0-s-0"}
    assert set(gangs(made, w_0_s=6)) == {"w-0", "w-0-s-0", "w-0-s-1", "w-0-s-2", "w-0-s-3"}
    assert set(gangs(made, w_0_s=1)) == {"w-0"}


@given(
    replicas=st.integers(0, 4),
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=3),
    standalone=st.integers(0, 3),
)
def test_every_clique_is_in_exactly_one_gang(
    replicas: int, sizes: list[tuple[int, int]], standalone: int
) -> None:
    cliques = [clique(f"s{index}") for index in range(standalone)]
    groups = []
    for number, (count, least) in enumerate(sizes):
        cliques += [clique(f"g{number}a"), clique(f"g{number}b")]
        groups.append(group(f"g{number}", [f"g{number}a", f"g{number}b"], max(count, least), least))
    made = pcs(*cliques, replicas=replicas, groups=groups)
    listed = [each.name for plan in plan_gangs(made, {}) for each in plan.groups]
    assert sorted(listed) == sorted(cliques_of(made))
    for name, each in cliques_of(made).items():
        gang = each.metadata.labels[names.PODGANG]
        assert any(
            plan.name == gang and name in {g.name for g in plan.groups} for plan in plan_gangs(made, {})
        )


VIEW = TopologyView("topo", {"zone": "k/zone", "rack": "k/rack", "host": "k/host"})


def near(required: str, preferred: str = "") -> TopologyConstraint:
    return TopologyConstraint(
        topology_name="topo", pack=Pack(required=required, preferred=preferred or UNSET)
    )


def constrained() -> PodCliqueSet:
    return pcs(
        clique("c", topology_constraint=near("host")),
        groups=[group("s", ["c"], 2, 1, topology_constraint=near("rack"))],
        topology_constraint=near("zone", "host"),
    )


def test_constraints_reach_gangs_as_keys_of_node_labels() -> None:
    base, scaled = plan_gangs(constrained(), {}, VIEW)
    pack = base.constraint.pack_constraint
    assert (pack.required, pack.preferred) == ("k/zone", "k/host")
    (near_group,) = base.group_constraints
    assert (near_group.name, near_group.pod_group_names) == ("w-0-s-0", ("w-0-s-0-c",))
    assert near_group.topology_constraint.pack_constraint.required == "k/rack"
    assert base.groups[0].constraint.pack_constraint.required == "k/host"
    assert scaled.constraint.pack_constraint.required == "k/rack"
    assert scaled.group_constraints == ()
    assert base.topology_name == "topo"


def test_a_domain_that_is_gone_is_dropped() -> None:
    base, scaled = plan_gangs(constrained(), {}, TopologyView("topo", {"host": "k/host"}))
    assert base.constraint.pack_constraint.required == ""
    assert base.constraint.pack_constraint.preferred == "k/host"
    assert base.group_constraints == ()
    assert scaled.constraint == base.constraint  # the set's, because the group's is gone


def test_without_topology_a_gang_has_no_constraint_and_no_annotation() -> None:
    base, _ = plan_gangs(constrained(), {})
    made = gang_object(constrained(), base, scheduler="d", pods={})
    assert made.spec.topology_constraint is UNSET
    assert names.TOPOLOGY_NAME not in made.metadata.annotations


def test_the_object_of_a_gang_mirrors_its_set() -> None:
    made = pcs(
        clique("a", 2, 1),
        labels={"team": "x", "grove.io/evil": "1", names.MANAGED_BY: "me"},
        annotations={"note": "n", names.HASH_VERSION: "1", names.RECONCILE_TRIGGER: "now"},
        priority_class_name="high",
    )
    (plan,) = plan_gangs(made, {})
    found = gang_object(made, plan, scheduler="kai-scheduler", pods={"w-0-a": ["w-0-a-z", "w-0-a-b"]})
    assert dict(found.metadata.labels) == {
        "team": "x",
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "w",
        names.COMPONENT: "podgang",
        names.SCHEDULER_NAME: "kai-scheduler",
    }
    assert dict(found.metadata.annotations) == {"note": "n"}
    assert [each.name for each in found.spec.podgroups[0].pod_references] == ["w-0-a-b", "w-0-a-z"]
    assert found.spec.priority_class_name == "high"
    assert mirrored({"a": "b", "grove.io/x": "y"}) == {"a": "b"}


def test_rights_of_init_containers() -> None:
    made = pcs(clique("a"))
    role, binding = childplan.plan_role(made), childplan.plan_role_binding(made)
    assert role.metadata.labels[names.NAME] == "grove.io-pcs-w"
    assert (role.rules[0].resources, role.rules[0].verbs) == (
        ("pods", "pods/status"),
        ("get", "list", "watch"),
    )
    assert (binding.role_ref.name, binding.subjects[0].name, binding.subjects[0].namespace) == (
        role.metadata.name,
        "w",
        NS,
    )
    secret = childplan.plan_token_secret(made)
    assert secret.type == "kubernetes.io/service-account-token"
    assert secret.metadata.annotations["kubernetes.io/service-account.name"] == "w"
    assert childplan.plan_account(made).automount_service_account_token is True


def test_one_headless_service_for_each_replica() -> None:
    made = pcs(
        clique("a"),
        replicas=2,
        headless_service_config=HeadlessServiceConfig(publish_not_ready_addresses=False),
    )
    first, second = childplan.plan_services(made)
    assert (first.metadata.name, second.metadata.name) == ("w-0", "w-1")
    assert (second.spec.cluster_ip, second.spec.publish_not_ready_addresses) == ("None", False)
    assert dict(second.spec.selector) == {
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "w",
        names.SET_INDEX: "1",
    }
    assert second.spec.ports == ()


def test_autoscalers_of_cliques_and_groups() -> None:
    made = pcs(
        clique("a", auto_scaling_config=AutoScaling(max_replicas=5)),
        clique("b"),
        groups=[group("g", ["b"], 2, scale_config=AutoScaling(max_replicas=9))],
    )
    of_clique, of_group = childplan.plan_autoscalers(made)
    assert (of_clique.metadata.name, of_clique.spec.scale_target_ref.kind) == ("w-0-a", "PodClique")
    assert (of_clique.spec.min_replicas, of_clique.spec.max_replicas) == (1, 5)
    assert of_group.spec.scale_target_ref.kind == "PodCliqueScalingGroup"
    assert (of_group.metadata.name, of_group.spec.min_replicas) == ("w-0-g", 2)


def build(made: PodCliqueSet, name: str = "w-0-a", **around: Any) -> Pod:
    pclq = cliques_of(made)[name]
    pclq = pclq.evolve(metadata=pclq.metadata.evolve(uid="u"))
    surroundings = PodSurroundings(set_name="w", **around)
    return finished_pod(gated_pod(pclq, surroundings, 2), pclq, surroundings, 2)


def test_a_pod_is_gated_and_knows_where_it_belongs() -> None:
    pod = build(pcs(clique("a", labels={"x": "y"}, annotations={"n": "m"})))
    assert pod.metadata.generate_name == "w-0-a-"
    assert (pod.spec.hostname, pod.spec.subdomain) == ("w-0-a-2", "w-0")
    assert [gate.name for gate in pod.spec.scheduling_gates] == [names.GATE]
    labels = pod.metadata.labels
    assert (labels[names.PODCLIQUE], labels[names.POD_INDEX], labels["x"]) == ("w-0-a", "2", "y")
    assert labels[names.TEMPLATE_HASH]
    assert dict(pod.metadata.annotations) == {"n": "m"}
    assert (pod.metadata.owner_references[0].kind, pod.metadata.owner_references[0].uid) == ("PodClique", "u")


def test_our_variables_come_first_and_are_there_once() -> None:
    own = pod_spec().evolve(
        containers=(Container(name="main", image="x", env=(*env(MINE="1"), *env(GROVE_PCS_NAME="fake"))),),
        init_containers=(Container(name="prepare", image="x"),),
    )
    pod = build(pcs(clique("a", pod_spec=own)))
    expected = [
        "GROVE_PCS_NAME",
        "GROVE_PCS_INDEX",
        "GROVE_PCLQ_NAME",
        "GROVE_HEADLESS_SERVICE",
        "GROVE_PCLQ_POD_INDEX",
    ]
    assert variables(pod.spec.containers[0]) == [*expected, "MINE"]
    assert variables(pod.spec.init_containers[0]) == expected
    values = {each.name: each.value for each in pod.spec.containers[0].env}
    assert values["GROVE_PCS_NAME"] == "w"
    assert values["GROVE_HEADLESS_SERVICE"] == f"w-0.{NS}.svc.cluster.local"


def test_who_waits_gets_a_last_init_container() -> None:
    own = pod_spec().evolve(init_containers=(Container(name="prepare", image="x"),))
    pod = build(pcs(clique("a", pod_spec=own)), parents=(Parent("w-0-b", 2),), init_image="initc:1")
    first, last = pod.spec.init_containers
    assert (first.name, last.name, last.image) == ("prepare", names.INIT_CONTAINER, "initc:1")
    assert last.args == ("--podcliques=w-0-b:2",)
    assert last.env == ()
    assert {each.name: (each.mount_path, each.read_only) for each in last.volume_mounts} == {
        names.TOKEN_VOLUME: (names.TOKEN_PATH, True),
        names.POD_INFO_VOLUME: (names.POD_INFO_PATH, True),
    }
    secret, info = pod.spec.volumes
    assert (secret.secret.secret_name, secret.secret.default_mode) == ("w-ic-sat", 420)
    assert {each.path: each.field_ref.field_path for each in info.downward_api.items} == {
        "namespace": "metadata.namespace",
        "podgangname": "metadata.labels['grove.io/podgang']",
    }


def test_the_priority_of_the_set_is_that_of_pods_without_their_own() -> None:
    assert build(pcs(clique("a")), priority_class="high").spec.priority_class_name == "high"
    own = pcs(clique("a", pod_spec=pod_spec(priority_class_name="low")))
    assert build(own, priority_class="high").spec.priority_class_name == "low"


def test_a_group_without_labels_has_no_replica_in_its_set() -> None:
    stray = PodCliqueScalingGroup(metadata=ObjectMeta(name="w-0-g", namespace=NS))
    assert group_config_of(pcs(clique("a"), groups=[group("g", ["a"])]), stray) is None
