"""Gangs: PodGangs, JobSets and training jobs."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, ObjectMeta
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.grouping import GroupingError, GroupPlan, new_pod_group, pod_patch
from quarterdeck.operators.kai.types import PodGroup, PodGroupSpec, SubGroup

from .groupingkit import owner, plan, pod, sub_groups

Json = dict[str, Any]
CLIQUE = owner("grove.io/v1alpha1", "PodClique", "clique")
MEMBER = {"grove.io/podgang": "gang"}


def gang(*parts: Json, annotations: dict[str, str] | None = None, **spec: Any) -> DynamicObject:
    return owner(
        "scheduler.grove.io/v1alpha1",
        "PodGang",
        "gang",
        {"podgroups": list(parts), **spec},
        annotations=annotations or {},
    )


def part(name: str, minimum: int, *pods: str, **more: Any) -> Json:
    references = [{"namespace": "ns", "name": each} for each in pods]
    return {"name": name, "minReplicas": minimum, "podReferences": references, **more}


def pack(**levels: str) -> Json:
    return {"topologyConstraint": {"packConstraint": levels}}


def grove(related: DynamicObject, given: Any = None, kind: str = "PodCliqueSet", **top: Any) -> GroupPlan:
    given = given if given is not None else pod("a0", labels=MEMBER)
    return plan(given, CLIQUE, owner("grove.io/v1alpha1", kind, "pcs", **top), related=related)


@pytest.mark.parametrize("kind", ["PodCliqueSet", "PodGangSet"])
def test_a_gang_is_a_group_with_a_subgroup_for_each_part(kind: str) -> None:
    found = grove(gang(part("a", 2, "a0", "a1"), part("b", 3, "b0")), kind=kind)
    assert found.name == "pg-gang-gang-uid"
    assert found.owner.kind == "PodGang"
    assert found.min_member == 5
    assert sub_groups(found) == [("a", 2, None), ("b", 3, None)]
    assert pod_patch(pod("a0"), found)["metadata"]["labels"] == {names.SUB_GROUP_LABEL: "a"}


def test_a_pod_that_the_gang_does_not_list_yet_gets_no_subgroup() -> None:
    found = grove(gang(part("a", 1)), pod("late", labels=MEMBER))
    assert sub_groups(found) == [("a", 1, None)]
    assert pod_patch(pod("late"), found) == {
        "metadata": {"annotations": {"pod-group-name": "pg-gang-gang-uid"}}
    }


def test_constraints_of_a_gang() -> None:
    found = grove(
        gang(
            part("a", 2, "a0", **pack(required="rack")),
            part("b", 1),
            annotations={"grove.io/topology-name": "topo", names.TOPOLOGY_ANNOTATION: "other"},
            topologyConstraintGroupConfigs=[
                {"name": "grp", "podGroupNames": ["a", "b"], **pack(preferred="zone")},
                {"name": "empty", "podGroupNames": []},
                {"name": "none"},
            ],
            **pack(required="region"),
        )
    )
    assert sub_groups(found) == [("grp", 0, None), ("a", 2, "grp"), ("b", 1, "grp")]
    assert found.min_member == 3
    shown = [each.constraint for each in found.sub_groups]
    assert shown[0] is not None
    assert (shown[0].topology, shown[0].preferred_topology_level) == ("topo", "zone")
    assert shown[1] is not None
    assert (shown[1].topology, shown[1].required_topology_level) == ("topo", "rack")
    assert shown[2] is None
    assert (found.constraint.topology, found.constraint.required_topology_level) == ("topo", "region")


def test_the_annotation_of_kai_names_the_topology_where_that_of_grove_is_missing() -> None:
    found = grove(gang(annotations={names.TOPOLOGY_ANNOTATION: "t"}, **pack(required="rack")))
    assert (found.constraint.topology, found.constraint.required_topology_level) == ("t", "rack")


def test_priority_of_a_gang() -> None:
    assert grove(gang(part("a", 1))).priority_class_name == "train"
    # not checked for existence: the gang's own word
    assert grove(gang(part("a", 1), priorityClassName="unknown")).priority_class_name == "unknown"
    labelled = {names.PRIORITY_CLASS_LABEL: "build"}
    assert grove(gang(priorityClassName="inference"), labels=labelled).priority_class_name == "build"


def test_metadata_of_the_set_fills_in_what_the_gang_lacks() -> None:
    related = owner(
        "scheduler.grove.io/v1alpha1",
        "PodGang",
        "gang",
        {"podgroups": []},
        labels={"team": "gang"},
        annotations={"note": "gang", names.TOPOLOGY_REQUIRED_ANNOTATION: "rack"},
    )
    found = grove(
        related,
        labels={"team": "set", "more": "set", names.PREEMPTIBILITY_LABEL: "non-preemptible"},
        annotations={
            "note": "set",
            names.TOPOLOGY_ANNOTATION: "t",
            names.TOPOLOGY_REQUIRED_ANNOTATION: "zone",
        },
    )
    assert found.labels["team"] == "gang"
    assert found.labels["more"] == "set"
    assert found.annotations["note"] == "gang"
    assert found.preemptibility == "non-preemptible"
    assert (found.constraint.topology, found.constraint.required_topology_level) == ("t", "rack")


@pytest.mark.parametrize(
    ("related", "text"),
    [
        (gang({"minReplicas": 1, "podReferences": []}), "missing required 'name' field"),
        (gang({"name": "a", "podReferences": []}), "missing required 'minReplicas' field"),
        (gang(part("a", 0)), "invalid 'minReplicas' field. Must be greater than 0"),
        (gang(part("a", -1)), "invalid 'minReplicas' field. Must be greater than 0"),
        (gang({"name": "a", "minReplicas": 1}), "missing required 'podReferences' field"),
        (
            gang({"name": "a", "minReplicas": 1, "podReferences": [{"namespace": "x", "name": "p"}]}),
            "cross-namespace pod reference not allowed: pod x/p cannot be referenced from PodGang in",
        ),
        (gang({"name": "a", "minReplicas": 1, "podReferences": [{"name": "p"}]}), "'namespace' field"),
        (gang({"name": "a", "minReplicas": 1, "podReferences": [{"namespace": "ns"}]}), "'name' field"),
        (
            gang(**pack(required="rack")),
            "topology name cannot be empty when topology constraints are defined",
        ),
        (
            gang(part("a", 1, **pack(preferred="rack"))),
            "topology name cannot be empty when topology constraints are defined",
        ),
        (gang(topologyConstraintGroupConfigs=[{"podGroupNames": ["a"]}]), "missing required 'name' field"),
        (gang({"name": "a", "minReplicas": "2", "podReferences": []}), "minReplicas must be a whole number"),
        (owner("scheduler.grove.io/v1alpha1", "PodGang", "gang", {"podgroups": {}}), "must be a list"),
    ],
)
def test_gangs_that_make_no_sense(related: DynamicObject, text: str) -> None:
    with pytest.raises(GroupingError) as error:
        grove(related)
    assert text in str(error.value)


def test_a_pod_must_name_its_gang() -> None:
    with pytest.raises(GroupingError) as error:
        grove(gang(), pod("a0"))
    assert str(error.value) == "label for podgang name (key: grove.io/podgang) not found in pod ns/a0"


def test_an_unknown_preemptibility_of_the_set_is_an_error() -> None:
    with pytest.raises(GroupingError, match="invalid preemptibility value: maybe"):
        grove(gang(), labels={names.PREEMPTIBILITY_LABEL: "maybe"})


JOB = owner("batch/v1", "Job", "job")


def replicated(name: str, replicas: Any = None, **spec: Any) -> Json:
    made: Json = {"name": name, "template": {"spec": spec}}
    return made if replicas is None else {**made, "replicas": replicas}


def job_set(*jobs: Json, order: str | None = None, **metadata: Any) -> DynamicObject:
    policy = {"startupPolicy": {"startupPolicyOrder": order}} if order is not None else {}
    spec = {"replicatedJobs": list(jobs), **policy}
    return owner("jobset.x-k8s.io/v1alpha2", "JobSet", "js", spec, **metadata)


def of_job(name: str) -> Any:
    return pod("js-p", labels={"jobset.sigs.k8s.io/replicatedjob-name": name})


@pytest.mark.parametrize("order", [None, "InOrder"])
def test_replicated_jobs_that_start_in_order_are_groups_of_their_own(order: str | None) -> None:
    given = job_set(
        replicated("leader", 1, parallelism=1), replicated("worker", 2, parallelism=3), order=order
    )
    found = plan(of_job("worker"), JOB, given)
    assert (found.name, found.min_member) == ("pg-js-js-uid-worker", 6)
    assert found.owner.kind == "JobSet"
    assert found.sub_groups == ()


def test_replicated_jobs_in_any_order_are_one_group() -> None:
    given = job_set(
        replicated("leader", 1, parallelism=1), replicated("worker", 2, parallelism=3), order="AnyOrder"
    )
    found = plan(of_job("leader"), JOB, given)
    assert (found.name, found.min_member) == ("pg-js-js-uid", 7)


@pytest.mark.parametrize(
    ("job", "size"),
    [
        (replicated("w", 2, parallelism=3, completions=10), 6),
        (replicated("w", 2, parallelism=3, completions=2), 4),
        (replicated("w", 2, completions=5), 2),
        (replicated("w", None, parallelism=3), 3),
        (replicated("w", 0, parallelism=3), 3),
        (replicated("w", 2, parallelism=0), 2),
        (replicated("w", -1, parallelism=-4, completions=-1), 1),
        (replicated("w"), 1),
        ({"name": "w"}, 1),
        (replicated("other", 5), 1),
    ],
)
def test_size_of_a_replicated_job(job: Json, size: int) -> None:
    assert plan(of_job("w"), JOB, job_set(job)).min_member == size


def test_a_pod_must_name_its_replicated_job() -> None:
    with pytest.raises(GroupingError) as error:
        plan(pod("js-p"), JOB, job_set())
    assert str(error.value) == 'pod ns/js-p missing required label "jobset.sigs.k8s.io/replicatedjob-name"'


def of_replica(name: str, index: int) -> Any:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": name,
        "jobset.sigs.k8s.io/job-index": str(index),
    }
    return pod("js-p", labels=labels)


def nameless(given: DynamicObject) -> DynamicObject:
    document = given.draft()
    document["metadata"]["name"] = ""
    return DynamicObject(document)


def two_jobs(order: str | None = None, **metadata: Any) -> DynamicObject:
    return job_set(
        replicated("leader"), replicated("worker", 2, parallelism=3, completions=9), order=order, **metadata
    )


def test_a_job_set_is_a_tree_of_replicated_jobs_and_their_replicas() -> None:
    found = plan(of_replica("worker", 1), JOB, two_jobs())
    assert (found.name, found.min_member, found.min_sub_group) == ("pg-js-js-uid", 0, 2)
    assert [(each.name, each.min_member, each.min_sub_group, each.parent) for each in found.sub_groups] == [
        ("leader", 0, 1, None),
        ("leader-replica-0", 1, None, "leader"),
        ("worker", 0, 2, None),
        ("worker-replica-0", 3, None, "worker"),
        ("worker-replica-1", 3, None, "worker"),
    ]
    assert found.sub_group_of("js-p") == "worker-replica-1"
    spec = new_pod_group(found).to_dict()["spec"]
    assert "minMember" not in spec
    assert (spec["minSubGroup"], spec["subGroups"][0]) == (2, {"name": "leader", "minSubGroup": 1})


@pytest.mark.parametrize(
    ("order", "wanted", "minimum"),
    [
        (None, None, 2),
        ("AnyOrder", None, 2),
        ("InOrder", None, 1),
        ("InOrder", "2", 2),
        (None, "1", 1),
        (None, "9", 2),
    ],
)
def test_how_many_replicated_jobs_start_together(order: str | None, wanted: str | None, minimum: int) -> None:
    annotations = {names.MIN_MEMBER_ANNOTATION: wanted} if wanted else {}
    found = plan(of_replica("leader", 0), JOB, two_jobs(order, annotations=annotations))
    assert found.min_sub_group == minimum


def test_a_replica_may_have_a_minimum_and_a_place_of_its_own() -> None:
    job = replicated("w", 1, parallelism=4)
    job["template"]["metadata"] = {
        "annotations": {
            names.MIN_MEMBER_ANNOTATION: "2",
            names.TOPOLOGY_ANNOTATION: "t",
            names.TOPOLOGY_REQUIRED_ANNOTATION: "rack",
        }
    }
    leaf = plan(of_replica("w", 0), JOB, job_set(job)).sub_groups[1]
    assert leaf.min_member == 2
    assert leaf.constraint is not None
    assert (leaf.constraint.topology, leaf.constraint.required_topology_level) == ("t", "rack")
    idle = plan(of_replica("w", 0), JOB, job_set(replicated("w", 1, parallelism=0)))
    assert new_pod_group(idle).to_dict()["spec"]["subGroups"][1]["minMember"] == 0


def test_a_job_set_with_groups_of_an_earlier_version_stays_flat() -> None:
    old = PodGroup(metadata=ObjectMeta(namespace="ns", name="pg-js-js-uid-leader"))
    found = plan(of_replica("worker", 0), JOB, two_jobs("InOrder"), groups=(old,))
    assert (found.name, found.min_member, found.sub_groups) == ("pg-js-js-uid-worker", 6, ())
    new = PodGroup(
        metadata=ObjectMeta(namespace="ns", name="pg-js-js-uid"),
        spec=PodGroupSpec(sub_groups=(SubGroup(name="worker"),)),
    )
    assert plan(of_replica("worker", 0), JOB, two_jobs(), groups=(new,)).sub_groups


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (nameless(two_jobs()), "jobset top owner ns/ missing name or UID"),
        (two_jobs(uid=""), "jobset top owner ns/js missing name or UID"),
        (job_set(), "jobset ns/js has no replicatedJobs"),
        (job_set({"replicas": 1}), r"replicatedJobs\[0\] missing name"),
        (job_set(replicated("other")), 'leaf subgroup "worker-replica-0" not found for pod ns/js-p'),
        (
            two_jobs(annotations={names.MIN_MEMBER_ANNOTATION: "0"}),
            "invalid kai.scheduler/batch-min-member annotation on JobSet: value 0 must be >= 1",
        ),
    ],
)
def test_job_sets_that_make_no_sense(given: DynamicObject, text: str) -> None:
    with pytest.raises(GroupingError, match=text):
        plan(of_replica("worker", 0), JOB, given)


def mpi(**launcher: Any) -> DynamicObject:
    spec = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": {"schedulingPolicy": {"minAvailable": 1}},
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": {"replicas": 3}},
    }
    return owner("kubeflow.org/v2beta1", "MPIJob", "j", spec)


def test_a_launcher_that_waits_is_not_in_the_minimum_until_it_is_there() -> None:
    """A minimum that the launcher alone would fill is none: the workers start one by one."""
    assert plan(pod(), mpi(replicas=1)).min_member == 0
    assert plan(pod(), mpi(replicas=1), companions=(pod("launcher"),)).min_member == 1
    with pytest.raises(GroupingError, match="doesn't allow for 0 mpiReplicaSpecs pods"):
        plan(pod(), mpi())


def test_a_train_job_is_skipped_but_its_metadata_counts() -> None:
    top = owner(
        "trainer.kubeflow.org/v1alpha1",
        "TrainJob",
        "tj",
        labels={names.QUEUE_LABEL: "team-a", names.PRIORITY_CLASS_LABEL: "build"},
        annotations={names.TOPOLOGY_ANNOTATION: "t", "note": "tj"},
    )
    given = job_set(
        replicated("node", 1, parallelism=4),
        labels={names.QUEUE_LABEL: "jobset-queue"},
        annotations={"note": "js"},
    )
    found = plan(of_job("node"), JOB, given, top)
    assert (found.name, found.min_member) == ("pg-js-js-uid-node", 4)
    assert found.owner.kind == "JobSet"
    assert (found.queue, found.priority_class_name) == ("jobset-queue", "build")
    assert (found.constraint.topology, found.annotations["note"]) == ("t", "js")


def test_a_pod_right_below_a_train_job_is_a_group_of_its_own() -> None:
    top = owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "tj", labels={names.QUEUE_LABEL: "q"})
    found = plan(pod("p"), top)
    assert (found.name, found.owner.kind, found.queue) == ("pg-p-p-uid", "Pod", "q")


def torch(master: Any = 1, worker: Any = 4, **spec: Any) -> DynamicObject:
    replicas: Json = {}
    for name, value in (("Master", master), ("Worker", worker)):
        if value is not None:
            replicas[name] = value if isinstance(value, dict) else {"replicas": value}
    return owner("kubeflow.org/v1", "PyTorchJob", "pt", {"pytorchReplicaSpecs": replicas, **spec})


def of_type(kind: str, index: str | None = None, **metadata: Any) -> Any:
    labels = {"training.kubeflow.org/replica-type": kind}
    if index is not None:
        labels["training.kubeflow.org/replica-index"] = index
    return pod("pt-0", labels=labels, **metadata)


AVAILABLE = {"runPolicy": {"schedulingPolicy": {"minAvailable": 2}}}
ELASTIC = {"elasticPolicy": {"minReplicas": 3}}


@pytest.mark.parametrize(
    ("job", "minimum", "groups"),
    [
        (torch(), 5, [("master", 1, None), ("worker", 4, None)]),
        (torch(**ELASTIC), 3, [("master", 1, None), ("worker", 2, None)]),
        (torch(**ELASTIC, **AVAILABLE), 2, [("master", 1, None), ("worker", 1, None)]),
        (torch(master=None), 4, [("worker", 4, None)]),
        (torch(worker=None), 1, [("master", 1, None)]),
        (torch(master=3, **AVAILABLE), 2, [("master", 3, None), ("worker", 0, None)]),
        (torch(master=0, **AVAILABLE), 2, [("worker", 2, None)]),
        (torch(master={}, worker={}), 2, [("master", 1, None), ("worker", 1, None)]),
    ],
)
def test_a_torch_job(job: DynamicObject, minimum: int, groups: list[tuple[str, int, None]]) -> None:
    found = plan(of_type("master"), job)
    assert (found.name, found.min_member) == ("pg-pt-pt-uid", minimum)
    assert sub_groups(found) == groups


@pytest.mark.parametrize(("kind", "group"), [("master", "master"), ("worker", "worker"), ("other", "")])
def test_the_replica_type_picks_the_subgroup(kind: str, group: str) -> None:
    assert plan(of_type(kind), torch()).sub_group_of("pt-0") == group


@pytest.mark.parametrize("job", [torch(worker=0), torch(master=0), torch(master=0, **ELASTIC)])
def test_no_replicas_are_an_error(job: DynamicObject) -> None:
    with pytest.raises(GroupingError, match=r"doesn't allow for 0 (Master|Worker) pods"):
        plan(of_type("worker"), job)


def segmented(size: str, **annotations: str) -> Json:
    metadata = {"annotations": {names.SEGMENT_SIZE_ANNOTATION: size, **annotations}}
    return {"replicas": 5, "template": {"metadata": metadata}}


@pytest.mark.parametrize(
    ("index", "group"), [("0", "worker-0"), ("1", "worker-0"), ("3", "worker-1"), ("4", "worker-2")]
)
def test_segments_of_workers(index: str, group: str) -> None:
    found = plan(of_type("worker", index), torch(worker=segmented("2")))
    assert sub_groups(found) == [
        ("master", 1, None),
        ("worker", 5, None),
        ("worker-0", 2, "worker"),
        ("worker-1", 2, "worker"),
        ("worker-2", 1, "worker"),
    ]
    assert found.sub_group_of("pt-0") == group
    assert all(each.constraint is None for each in found.sub_groups)


def test_the_master_is_in_no_segment() -> None:
    assert plan(of_type("master"), torch(worker=segmented("2"))).sub_group_of("pt-0") == "master"


def test_the_pod_decides_on_segments_before_the_template() -> None:
    given = of_type("worker", "0", annotations={names.SEGMENT_SIZE_ANNOTATION: "3"})
    found = plan(given, torch(worker=segmented("2")))
    assert sub_groups(found)[2:] == [("worker-0", 3, "worker"), ("worker-1", 2, "worker")]


def test_segments_may_want_to_be_near_each_other() -> None:
    wishes = {names.TOPOLOGY_ANNOTATION: "t", names.SEGMENT_REQUIRED_ANNOTATION: "rack"}
    found = plan(of_type("worker", "0"), torch(worker=segmented("2", **wishes)))
    constraints = [each.constraint for each in found.sub_groups]
    assert constraints[:2] == [None, None]
    assert {(each.topology, each.required_topology_level) for each in constraints[2:] if each} == {
        ("t", "rack")
    }
    assert len(constraints) == 5


@pytest.mark.parametrize(
    ("given", "size", "text"),
    [
        (of_type("worker"), "2", "replica index label not found on pod ns/pt-0"),
        (of_type("worker", "x"), "2", "invalid replica index x"),
        (of_type("worker", "0"), "0", "segment size 0 needs to be a positive integer"),
        (of_type("worker", "0"), "two", "segment size two needs to be a positive integer"),
    ],
)
def test_segments_that_make_no_sense(given: Any, size: str, text: str) -> None:
    with pytest.raises(GroupingError, match=text):
        plan(given, torch(worker=segmented(size)))


@pytest.mark.parametrize(
    ("kind", "field"),
    [
        ("TFJob", "tfReplicaSpecs"),
        ("XGBoostJob", "xgbReplicaSpecs"),
        ("JAXJob", "jaxReplicaSpecs"),
        ("MPIJob", "mpiReplicaSpecs"),
    ],
)
def test_other_training_jobs(kind: str, field: str) -> None:
    job = owner(
        "kubeflow.org/v1", kind, "j", {field: {"Worker": {"replicas": 3}, "Launcher": {"replicas": 1}}}
    )
    found = plan(pod(), job)
    assert (found.name, found.min_member, found.sub_groups) == ("pg-j-j-uid", 4, ())
    with pytest.raises(GroupingError, match=f"doesn't have a {field} field"):
        plan(pod(), owner("kubeflow.org/v1", kind, "j"))
