"""What the garbage collector looks at, and what it need not look at."""

from __future__ import annotations

import pytest

from quarterdeck.api import GroupVersionKind, OwnerReference
from quarterdeck.cluster.ownergraph import FOREGROUND, ORPHAN, Node, OwnerGraph

KIND = GroupVersionKind("", "v1", "ConfigMap")


def node(uid: str, *owners: str, namespace: str = "a", deleting: str = "") -> Node:
    references = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=each, uid=each, block_owner_deletion=True)
        for each in owners
    )
    finalizers = (deleting,) if deleting else ()
    return Node(KIND, namespace, uid, uid, references, finalizers, is_deleting=bool(deleting))


def test_an_object_whose_owners_are_known_to_stay_is_left_alone() -> None:
    graph = OwnerGraph()
    assert graph.observe(node("owner")) == set()
    assert graph.observe(node("queen", namespace="")) == set()
    assert graph.observe(node("child", "owner", "queen")) == set()
    assert graph.observe(node("child", "owner")) == set()


@pytest.mark.parametrize(
    "owner", [None, node("owner", namespace="b"), node("owner", deleting=FOREGROUND)], ids=str
)
def test_an_object_with_an_owner_that_may_be_gone_or_is_going_is_looked_at(owner: Node | None) -> None:
    graph = OwnerGraph()
    graph.observe(node("other"))
    if owner is not None:
        graph.observe(owner)
    assert "child" in graph.observe(node("child", "other", "owner"))


def test_the_going_of_an_owner_wakes_its_dependents() -> None:
    graph = OwnerGraph()
    graph.observe(node("owner"))
    graph.observe(node("child", "owner"))
    assert graph.forget("owner") == {"child"}
    assert graph.observe(node("child", "owner")) == {"child"}


@pytest.mark.parametrize(("how", "looked_at"), [(FOREGROUND, {"owner", "child"}), (ORPHAN, {"owner"})])
def test_an_owner_that_is_deleted_with_its_dependents_in_mind_is_looked_at(
    how: str, looked_at: set[str]
) -> None:
    graph = OwnerGraph()
    graph.observe(node("owner"))
    graph.observe(node("child", "owner"))
    assert graph.observe(node("owner", deleting=how)) == looked_at
    assert graph.observe(node("owner", deleting=how)) == {"owner"}, "its dependents know by now"


def test_a_dependent_that_goes_wakes_the_owner_that_waits_for_it() -> None:
    graph = OwnerGraph()
    graph.observe(node("owner", deleting=FOREGROUND))
    graph.observe(node("child", "owner"))
    assert graph.observe(node("child", "owner", deleting="example.com/slow")) == {"owner"}
    assert graph.forget("child") == {"owner"}
