"""Claims that pods share: one for all replicas of an owner or one for each, and who uses which."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import Container, Pod, PodSpec, ResourceRequirements
from quarterdeck.api.k8s.pod import PodResourceClaim
from quarterdeck.api.k8s.pod import ResourceClaim as ClaimUse
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.logic.claimplan import (
    ClaimPlan,
    claim_metadata,
    clique_claims,
    group_claims,
    set_claims,
    shares_anything,
    used_claims,
    with_claims,
)
from quarterdeck.operators.grove.logic.validation.sharing import check_set_sharing
from quarterdeck.operators.grove.types import (
    ClaimTemplate,
    CliqueSharing,
    GroupFilter,
    GroupSharing,
    PodClique,
    PodCliqueSet,
    SetFilter,
    SetSharing,
)

from .grovekit import clique, group, pclq, pcs, pcsg, pod_spec

ALL, EACH = names.ALL_REPLICAS, names.PER_REPLICA


def a_set(set_filter: Any = None, group_filter: Any = None) -> PodCliqueSet:
    """A standalone clique and a group of two, each level with claims of its own."""
    chosen = {} if set_filter is None else {"filter": set_filter}
    in_group = {} if group_filter is None else {"filter": group_filter}
    shared = GroupSharing(name="g", scope=EACH, **in_group)
    return pcs(
        clique("a", resource_sharing=(CliqueSharing(name="c", scope=EACH, namespace="other"),)),
        clique("b"),
        clique("d"),
        replicas=2,
        groups=[group("sg", ["b", "d"], replicas=2, resource_sharing=(shared,))],
        resource_sharing=(
            SetSharing(name="s", scope=EACH, **chosen),
            SetSharing(name="t", scope=ALL, **chosen),
        ),
    )


def standalone(name: str = "a", replica: int = 1) -> PodClique:
    labels = {names.PART_OF: "w", names.SET_INDEX: str(replica)}
    return pclq(f"w-{replica}-{name}", labels=labels)


def grouped(name: str = "b", replica: int = 1, index: int = 0) -> PodClique:
    labels = {
        names.PART_OF: "w",
        names.SET_INDEX: str(replica),
        names.SCALING_GROUP: f"w-{replica}-sg",
        names.SCALING_GROUP_INDEX: str(index),
    }
    return pclq(f"w-{replica}-sg-{index}-{name}", labels=labels)


def test_a_set_has_one_claim_for_all_or_one_for_each_replica() -> None:
    expected = [ClaimPlan("w-0-s", "s"), ClaimPlan("w-1-s", "s"), ClaimPlan("w-all-t", "t")]
    assert set_claims(a_set()) == expected


def test_a_group_has_claims_for_its_own_replicas() -> None:
    made = group_claims(a_set(), pcsg("w-0-sg", replicas=3))
    assert [plan.name for plan in made] == ["w-0-sg-0-g", "w-0-sg-1-g", "w-0-sg-2-g"]


def test_a_group_that_the_set_no_longer_has_needs_no_claims() -> None:
    assert group_claims(a_set(), pcsg("w-0-gone", replicas=3)) == []
    assert group_claims(a_set(), pcsg("other-0-sg", replicas=3)) == []


def test_a_clique_has_claims_for_its_pods() -> None:
    made = clique_claims(a_set(), standalone(), [0, 5])
    assert made == [ClaimPlan("w-1-a-0-c", "c", "other"), ClaimPlan("w-1-a-5-c", "c", "other")]


def test_a_clique_that_the_set_no_longer_has_needs_no_claims() -> None:
    assert clique_claims(a_set(), standalone("gone"), [0]) == []
    assert used_claims(a_set(), standalone("gone"), 0) == []


def test_a_pod_uses_the_claims_of_its_set_its_group_and_its_clique() -> None:
    assert used_claims(a_set(), standalone(), 4) == ["w-1-s", "w-all-t", "w-1-a-4-c"]
    assert used_claims(a_set(), grouped(index=1), 0) == ["w-1-s", "w-all-t", "w-1-sg-1-g"]


@pytest.mark.parametrize(
    ("chosen", "users"),
    [
        (SetFilter(child_clique_names=("a",)), {"a"}),
        (SetFilter(child_clique_names=("b",)), {"b"}),
        (SetFilter(child_scaling_group_names=("sg",)), {"b", "d"}),
        (SetFilter(child_clique_names=("a",), child_scaling_group_names=("sg",)), {"a", "b", "d"}),
    ],
    ids=["a clique", "a clique of a group", "a group", "both"],
)
def test_a_filter_of_the_set_says_which_cliques_use_its_claims(chosen: SetFilter, users: set[str]) -> None:
    made = a_set(chosen)
    cliques = {"a": standalone(), "b": grouped("b"), "d": grouped("d")}
    assert {name for name, each in cliques.items() if "w-all-t" in used_claims(made, each, 0)} == users


def test_a_filter_of_a_group_says_which_of_its_cliques_use_its_claims() -> None:
    made = a_set(group_filter=GroupFilter(child_clique_names=("b",)))
    assert "w-1-sg-0-g" in used_claims(made, grouped("b"), 0)
    assert "w-1-sg-0-g" not in used_claims(made, grouped("d"), 0)


@pytest.mark.parametrize(
    ("made", "shares"),
    [
        (pcs(clique("a"), groups=[group("sg", ["a"])]), False),
        (pcs(clique("a"), resource_sharing=(SetSharing(name="s", scope=ALL),)), True),
        (pcs(clique("a", resource_sharing=(CliqueSharing(name="s", scope=ALL),))), True),
        (
            pcs(
                clique("a"),
                groups=[group("sg", ["a"], resource_sharing=(GroupSharing(name="s", scope=ALL),))],
            ),
            True,
        ),
    ],
    ids=["nothing", "the set", "a clique", "a group"],
)
def test_a_set_shares_something_if_any_level_does(made: PodCliqueSet, shares: bool) -> None:
    assert shares_anything(made.spec.template) is shares


def test_a_claim_carries_the_labels_of_its_template_and_of_the_set() -> None:
    template = ClaimTemplate(name="s")
    given = template.evolve(
        template_spec=template.template_spec.evolve(
            metadata=ObjectMeta(labels={"team": "x", names.PART_OF: "not me"}, annotations={"note": "y"})
        )
    )
    metadata = claim_metadata(a_set(), ClaimPlan("w-all-s", "s"), given)
    assert (metadata.name, metadata.namespace, metadata.annotations) == ("w-all-s", "default", {"note": "y"})
    assert metadata.labels == {
        "team": "x",
        names.MANAGED_BY: names.OPERATOR,
        names.PART_OF: "w",
        names.COMPONENT: names.CLAIM_COMPONENT,
        names.NAME: "w-all-s",
    }
    assert claim_metadata(a_set(), ClaimPlan("w-all-s", "s"), None).annotations == {}


def test_every_container_but_our_own_uses_the_claims_beside_its_own() -> None:
    own = ResourceRequirements(claims=(ClaimUse(name="mine"),))
    spec = PodSpec(
        containers=(Container(name="main", resources=own),),
        init_containers=(Container(name=names.INIT_CONTAINER), Container(name="first")),
        resource_claims=(PodResourceClaim(name="mine", resource_claim_name="m"),),
    )
    made = with_claims(Pod(spec=spec), ["w-all-t"]).spec
    assert [use.name for use in made.containers[0].resources.claims] == ["mine", "w-all-t"]
    assert [len(each.resources.claims) for each in made.init_containers] == [0, 1]
    assert [(each.name, each.resource_claim_name) for each in made.resource_claims] == [
        ("mine", "m"),
        ("w-all-t", "w-all-t"),
    ]


def test_a_claim_with_a_long_name_is_used_under_a_shorter_one() -> None:
    long = "w-all-" + "x" * 100
    made = with_claims(Pod(spec=pod_spec()), [long]).spec
    (entry,) = made.resource_claims
    assert entry.resource_claim_name == long
    assert len(entry.name) <= 63
    assert made.containers[0].resources.claims[0].name == entry.name


def test_a_pod_without_claims_is_left_as_it_is() -> None:
    pod = Pod(spec=pod_spec())
    assert with_claims(pod, []) is pod


@pytest.mark.parametrize(
    "chosen",
    [
        SetFilter(child_clique_names=("a",)),
        SetFilter(child_scaling_group_names=("sg",)),
        SetFilter(child_clique_names=("a",), child_scaling_group_names=("sg",)),
    ],
    ids=["a clique", "a group", "both"],
)
def test_a_filter_that_names_something_known_is_right(chosen: SetFilter) -> None:
    assert check_set_sharing(a_set(chosen).spec.template) == []


def test_a_namespace_is_right_for_a_template_of_the_cluster() -> None:
    sharing = SetSharing(name="t", namespace="other", scope=ALL)
    assert check_set_sharing(pcs(clique("a"), resource_sharing=(sharing,)).spec.template) == []
