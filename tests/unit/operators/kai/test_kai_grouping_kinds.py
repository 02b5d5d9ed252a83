"""The groupers of other people's kinds, as KAI-Scheduler groups them; and groupers that others bring."""

from __future__ import annotations

import importlib.metadata
from typing import Any, ClassVar

import pytest

from quarterdeck.api import DynamicObject
from quarterdeck.api.kind import GroupKind
from quarterdeck.errors import ConfigError
from quarterdeck.operators.kai import names
from quarterdeck.operators.kai.logic.grouping import (
    Grouper,
    GroupingError,
    GroupPlan,
    KindDefault,
    Known,
    Workload,
    default_registry,
)
from quarterdeck.operators.kai.logic.grouping.registry import ENTRY_POINTS, KNOWN

from .groupingkit import owner, plan, pod, sub_groups

Json = dict[str, Any]


class TestRay:
    CLUSTER = owner(
        "ray.io/v1",
        "RayCluster",
        "cluster",
        {
            "headGroupSpec": {"template": {}},
            "workerGroupSpecs": [
                {"groupName": "small", "replicas": 4, "minReplicas": 2},
                {"groupName": "large", "replicas": 3, "numOfHosts": 2},
                {"groupName": "off", "replicas": 9, "suspended": True},
                {"replicas": 1},
                {"groupName": "none"},
            ],
        },
    )

    def test_a_cluster_is_a_gang_of_the_head_and_its_workers(self) -> None:
        found = plan(pod("w", labels={"ray.io/group": "small"}), self.CLUSTER)
        assert found.name == "pg-cluster-cluster-uid"
        assert sub_groups(found) == [
            ("headgroup", 1, None),
            ("small", 2, None),
            ("large", 6, None),
            ("worker-group-3", 1, None),
        ]
        assert found.min_member == 10
        assert found.sub_group_of("w") == "small"

    def test_a_job_is_as_large_as_its_cluster(self) -> None:
        job = DynamicObject(
            {**owner("ray.io/v1", "RayJob", "job").draft(), "status": {"rayClusterName": "cluster"}}
        )
        found = plan(pod("w"), self.CLUSTER, job, related=self.CLUSTER)
        assert (found.name, found.min_member) == ("pg-job-job-uid", 10)

    @pytest.mark.parametrize("status", ["activeServiceStatus", "pendingServiceStatus"])
    def test_a_service_has_one_that_serves_or_is_to(self, status: str) -> None:
        document = owner("ray.io/v1", "RayService", "service").draft()
        service = DynamicObject({**document, "status": {status: {"rayClusterName": "cluster"}}})
        grouper, workload = default_registry().resolve(Workload(pod=pod(), owners=(service,)))
        assert grouper.related is not None
        reference = grouper.related(workload)
        assert (reference.kind.kind, reference.name) == ("RayCluster", "cluster")

    def test_without_a_cluster_nothing_can_be_told(self) -> None:
        with pytest.raises(GroupingError, match="failed to extract rayClusterName for ns/o of kind RayJob"):
            plan(pod(), owner("ray.io/v1", "RayJob"))

    def test_ray_has_a_label_for_the_priority(self) -> None:
        cluster = owner("ray.io/v1", "RayCluster", labels={"ray.io/priority-class-name": "inference"})
        assert plan(pod(), cluster).priority_class_name == "inference"

    def test_groups_may_want_to_be_near(self) -> None:
        near = {names.TOPOLOGY_ANNOTATION: "t", names.TOPOLOGY_REQUIRED_ANNOTATION: "rack"}
        spec = {"headGroupSpec": {"template": {"metadata": {"annotations": near}}}}
        (head,) = plan(pod(), owner("ray.io/v1", "RayCluster", spec=spec)).sub_groups
        assert head.constraint is not None
        assert head.constraint.required_topology_level == "rack"
        del near[names.TOPOLOGY_ANNOTATION]
        with pytest.raises(GroupingError, match="is required for headGroupSpec"):
            plan(pod(), owner("ray.io/v1", "RayCluster", spec=spec))

    def test_fewer_replicas_than_needed(self) -> None:
        spec = {"workerGroupSpecs": [{"replicas": 1, "minReplicas": 2}]}
        with pytest.raises(GroupingError, match="Given 1 replicas and 2 minReplicas"):
            plan(pod(), owner("ray.io/v1", "RayCluster", spec=spec))


class TestLeaderWorkerSet:
    @staticmethod
    def of(worker: int, size: int = 4, *, node: str = "", **spec: Any) -> GroupPlan:
        policy = spec.pop("policy", None)
        template: Json = {"size": size, **({"subGroupPolicy": policy} if policy else {})}
        labels = {
            "leaderworkerset.sigs.k8s.io/worker-index": str(worker),
            "leaderworkerset.sigs.k8s.io/group-index": "2",
        }
        annotations = spec.pop("annotations", {})
        top = owner(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            "lws",
            {"leaderWorkerTemplate": template, **spec},
            annotations=annotations,
        )
        return plan(pod("p", {"nodeName": node} if node else {}, labels=labels), top)

    def test_each_replica_is_a_gang_of_a_leader_and_workers(self) -> None:
        found = self.of(0)
        assert (found.name, found.min_member) == ("pg-lws-lws-uid-group-2", 4)
        assert sub_groups(found) == [("leader", 1, None), ("workers", 3, None)]
        assert found.sub_group_of("p") == "leader"
        assert self.of(3).sub_group_of("p") == "workers"

    def test_workers_that_wait_for_the_leader_do_not_count_before(self) -> None:
        assert sub_groups(self.of(0, startupPolicy="LeaderReady")) == [("leader", 1, None)]
        assert self.of(0, startupPolicy="LeaderReady", node="n1").min_member == 4
        assert self.of(1, startupPolicy="LeaderReady").min_member == 4

    @pytest.mark.parametrize(
        ("size", "segment", "expected"),
        [
            (5, 2, [("segment-0", 3), ("segment-1", 2), ("leader", 1), ("workers", 2)]),
            (4, 2, [("segment-0", 2), ("segment-1", 2), ("leader", 1), ("workers", 1)]),
            (5, 3, [("segment-0", 3), ("segment-1", 2), ("leader", 1), ("workers", 2)]),
            (4, 3, [("segment-0", 4), ("leader", 1), ("workers", 3)]),
        ],
    )
    def test_workers_are_cut_into_segments(
        self, size: int, segment: int, expected: list[tuple[str, int]]
    ) -> None:
        found = self.of(0, size, policy={"subGroupSize": segment})
        assert [(name, minimum) for name, minimum, _ in sub_groups(found)] == expected
        leaves = [each for each in found.sub_groups if each.name != "segment-0"]
        assert sum(each.min_member for each in leaves) == size
        assert found.sub_group_of("p") == "leader"

    def test_every_worker_finds_its_segment(self) -> None:
        found = [self.of(index, 5, policy={"subGroupSize": 2}).sub_group_of("p") for index in range(5)]
        assert found == ["leader", "workers", "workers", "segment-1", "segment-1"]
        excluded = {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}
        found = [self.of(index, 5, policy=excluded).sub_group_of("p") for index in range(5)]
        assert found == ["leader", "segment-0", "segment-0", "segment-1", "segment-1"]

    def test_the_segment_size_may_be_an_annotation(self) -> None:
        annotations = {names.SEGMENT_SIZE_ANNOTATION: "2", names.TOPOLOGY_ANNOTATION: "t"}
        found = self.of(1, 4, annotations=annotations)
        assert [each.name for each in found.sub_groups][:2] == ["segment-0", "segment-1"]

    @pytest.mark.parametrize(
        ("spec", "text"),
        [
            ({"size": 0}, "invalid leaderWorkerTemplate.size 0"),
            ({"startupPolicy": "Never"}, "unknown startupPolicy: Never"),
            ({"policy": {"subGroupSize": 1}}, "segmentSize 1 is not valid"),
            ({"policy": {"subGroupSize": 9}}, "segmentSize 9 is greater than replicasSize 4"),
            ({"annotations": {names.SEGMENT_SIZE_ANNOTATION: "x"}}, "invalid segment size annotation x"),
            (
                {"policy": {"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"}},
                "is not divisible by segmentSize 2",
            ),
        ],
    )
    def test_sets_that_make_no_sense(self, spec: Json, text: str) -> None:
        with pytest.raises(GroupingError, match=text):
            self.of(1, **spec)


class TestMpi:
    SPEC: ClassVar[Json] = {
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {"Launcher": {"replicas": 1}, "Worker": {"replicas": 3}},
    }

    def test_a_launcher_that_is_made_later_counts_when_it_is_there(self) -> None:
        top = owner("kubeflow.org/v2beta1", "MPIJob", "job", self.SPEC)
        assert plan(pod(), top).min_member == 3
        assert plan(pod(), top, companions=(pod("launcher"),)).min_member == 4
        leaving = pod("launcher", deletionTimestamp="2026-01-01T00:00:00Z")
        assert plan(pod(), top, companions=(leaving,)).min_member == 3

    def test_which_pods_are_looked_at(self) -> None:
        grouper, workload = default_registry().resolve(
            Workload(pod=pod(), owners=(owner("kubeflow.org/v2beta1", "MPIJob", "job", self.SPEC),))
        )
        assert grouper.companions is not None
        assert grouper.companions(workload) == {
            "training.kubeflow.org/job-name": "job",
            "training.kubeflow.org/job-role": "launcher",
        }

    def test_other_launchers_count_from_the_beginning(self) -> None:
        spec = {"mpiReplicaSpecs": self.SPEC["mpiReplicaSpecs"]}
        assert plan(pod(), owner("kubeflow.org/v2beta1", "MPIJob", "job", spec)).min_member == 4


class TestOthers:
    def test_each_run_of_a_cron_job_is_a_group(self) -> None:
        run = owner("batch/v1", "Job", "run-1")
        found = plan(pod("run-1-x"), run, owner("batch/v1", "CronJob", "nightly"))
        assert (found.name, found.owner.kind, found.min_member) == ("pg-run-1-run-1-uid", "Job", 1)

    def test_pods_of_a_spark_application_share_a_group(self) -> None:
        driver = pod("driver", labels={"spark-app-name": "a", "spark-app-selector": "spark-7"})
        assert plan(driver).name == "spark-7"
        assert plan(pod("plain")).name == "pg-plain-plain-uid"

    def test_a_revision_of_a_knative_service_is_a_gang(self) -> None:
        scale = {"autoscaling.knative.dev/min-scale": "3"}
        revision = owner("serving.knative.dev/v1", "Revision", "r1", annotations=scale)
        service = owner("serving.knative.dev/v1", "Service", "s")
        given = pod(labels={"serving.knative.dev/revision": "r1"})
        found = plan(given, service, related=revision)
        assert (found.name, found.min_member, found.priority_class_name) == ("pg-r1-r1-uid", 3, "inference")
        with pytest.raises(GroupingError, match="revisionName not found for knative service pod ns/p"):
            plan(pod(), service, related=revision)

    @pytest.mark.parametrize(
        ("scale", "least"), [(None, 1), ("1", 1), ("2", 2), ("0", 1), ("-1", 1), ("many", 1)]
    )
    def test_a_revision_has_at_least_one_pod(self, scale: str | None, least: int) -> None:
        annotations = {} if scale is None else {"autoscaling.knative.dev/min-scale": scale}
        revision = owner("serving.knative.dev/v1", "Revision", "r1", annotations=annotations)
        given = pod(labels={"serving.knative.dev/revision": "r1"})
        found = plan(given, owner("serving.knative.dev/v1", "Service", "s"), related=revision)
        assert found.min_member == least

    @pytest.mark.parametrize(
        ("kind", "api", "priority"),
        [
            ("Notebook", "kubeflow.org/v1beta1", "build"),
            ("SPOTRequest", "egx.nvidia.io/v1", "inference"),
            ("StatefulSet", "apps/v1", "train"),
        ],
    )
    def test_priorities_by_kind(self, kind: str, api: str, priority: str) -> None:
        assert plan(pod(), owner(api, kind)).priority_class_name == priority

    def test_an_aml_job_needs_as_many_pods_as_nodes(self) -> None:
        spec = {"job": {"options": {"envs": {"AZUREML_NODE_COUNT": 4}}}}
        assert plan(pod(), owner("amlarc.azureml.com/v1alpha1", "AmlJob", spec=spec)).min_member == 4
        with pytest.raises(GroupingError, match="azureml envs count not found in spec"):
            plan(pod(), owner("amlarc.azureml.com/v1alpha1", "AmlJob"))

    def test_pods_of_a_runai_job_are_told_apart_by_their_names(self) -> None:
        job = owner("run.ai/v1", "RunaiJob", "j")
        assert plan(pod("j-3-abc"), job).name == "pg-j-3-j-uid"

    @pytest.mark.parametrize(
        ("api", "kind"),
        [
            ("argoproj.io/v1alpha1", "Workflow"),
            ("run.ai/v2alpha1", "TrainingWorkload"),
            ("nvidia.com/v1alpha1", "DynamoGraphDeployment"),
        ],
    )
    def test_owners_that_only_wrap_others_are_skipped(self, api: str, kind: str) -> None:
        labels = {names.QUEUE_LABEL: "team"}
        below = owner("ray.io/v1", "RayCluster", "cluster")
        found = plan(pod(), below, owner(api, kind, "top", labels=labels))
        assert (found.name, found.queue) == ("pg-cluster-cluster-uid", "team")
        alone = plan(pod("step"), owner(api, kind, "top", labels=labels))
        assert (alone.name, alone.queue) == ("pg-step-step-uid", "team")

    def test_two_levels_of_owners_that_wrap_others(self) -> None:
        """Those that are known in any version count only at the top, as in KAI."""
        workflow = owner("argoproj.io/v1alpha1", "Workflow", "flow")
        train_job = owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "tj")
        workload = owner("run.ai/v2alpha1", "TrainingWorkload", "tw", labels={names.QUEUE_LABEL: "team"})
        cluster = owner("ray.io/v1", "RayCluster", "cluster")
        assert plan(pod(), cluster, train_job, workflow).name == "pg-cluster-cluster-uid"
        assert plan(pod(), cluster, train_job, workload).queue == "team"
        below = plan(pod(), cluster, workload, workflow)
        assert (below.name, below.owner.kind) == ("pg-tw-tw-uid", "TrainingWorkload")

    def test_defaults_for_a_kind_that_is_skipped_are_for_what_it_wraps(self) -> None:
        cluster = owner("ray.io/v1", "RayCluster", "cluster")
        defaults = (KindDefault("TrainJob", "trainer.kubeflow.org", "inference", "Non-Preemptible"),)

        def found(*owners: DynamicObject) -> tuple[str, str]:
            made = plan(pod(), *owners, kind_defaults=defaults)
            return made.priority_class_name, made.preemptibility

        top = owner("trainer.kubeflow.org/v1alpha1", "TrainJob", "tj")
        assert found(cluster, top) == ("inference", "non-preemptible")
        own = owner("ray.io/v1", "RayCluster", "cluster", labels={names.PRIORITY_CLASS_LABEL: "build"})
        assert found(own, top) == ("build", "non-preemptible")


class TestTable:
    def test_no_kind_is_named_twice(self) -> None:
        kinds = [row.kind for row in KNOWN]
        assert len(set(kinds)) == len(kinds)

    def test_what_must_be_read_is_in_the_table(self) -> None:
        resources = default_registry().resources()
        assert resources["ray.io"] == ("rayclusters", "rayjobs", "rayservices")
        assert "" not in resources

    @staticmethod
    def install(monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
        class Point:
            name = "mine"

            def load(self) -> Any:
                return load

        monkeypatch.setattr(
            importlib.metadata, "entry_points", lambda group: [Point()] if group == ENTRY_POINTS else []
        )

    def test_others_bring_groupers_of_their_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def whole(workload: Workload) -> GroupPlan:
            return plan(workload.pod, owner("apps/v1", "StatefulSet", "mine"))

        kind = GroupKind("apps", "Deployment")
        self.install(monkeypatch, lambda: [Known(kind, "deployments", Grouper(whole))])
        assert plan(pod(), owner("apps/v1", "Deployment")).name == "pg-mine-mine-uid"

    @pytest.mark.parametrize("load", [lambda: 1 / 0, lambda: ["row"]])
    def test_a_broken_one_is_named(self, monkeypatch: pytest.MonkeyPatch, load: Any) -> None:
        self.install(monkeypatch, load)
        with pytest.raises(ConfigError, match=r"entry point mine of quarterdeck\.podgroupers"):
            default_registry()
