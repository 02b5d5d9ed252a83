"""The operator on a cluster: what only its controllers can show, and faults.

The invariants one by one are in `test_trainer_cases.py`; here are replicas, lost answers, missing rights,
snapshots, and that nothing is written when nothing changes.
"""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import Condition, ObjectMeta, is_controlled_by
from quarterdeck.api.condition import find_condition
from quarterdeck.api.k8s import ConfigMap, LimitRange, Secret
from quarterdeck.api.k8s.rbac import ClusterRole, ClusterRoleBinding, PolicyRule, RoleRef, Subject
from quarterdeck.client import MergePatch
from quarterdeck.errors import Forbidden, NotFound
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.jobset.types import definition as jobset_definition
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.assembly import TrainerOperator
from quarterdeck.operators.trainer.jobsetkind import HOW_TO_GET_IT
from quarterdeck.operators.trainer.types import (
    ClusterTrainingRuntime,
    CoschedulingPodGroup,
    TrainingRuntime,
    TrainJob,
)
from quarterdeck.operators.trainer.types.runtimeclass import RuntimeClass
from quarterdeck.runtime.cache import CacheOptions
from quarterdeck.runtime.operator.program import merge_kinds
from quarterdeck.runtime.rbac import compare, roles
from quarterdeck.runtime.reconcile.recording import Permission
from quarterdeck.testing import (
    READS,
    WRITES,
    FaultPlan,
    LoseAnswer,
    Refuse,
    TestCluster,
    eventually,
)

from .trainercases import job as replicated
from .trainercluster import LIGHT, SPACE, Operator, jobset, mpi_runtime, runtime, train_job, trainer_cluster

pytestmark = pytest.mark.virtual_time
SECRET = "test-job-mpi-ssh-auth"
PROTECTS = {"protectRuntimes": True}


async def edit(cluster: TestCluster, obj: Any, **change: Any) -> Any:
    return await cluster.client.patch(obj, MergePatch(change))


async def test_nothing_is_written_while_nothing_changes() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(mpi_runtime())
        async with operator.running():
            await cluster.client.create(train_job("running"))
            await cluster.client.create(train_job("suspended", suspend=True))
            # the first look after a JobSet was made applies it once more, with its uid
            await cluster.clock.sleep(120.0)
            before = len(operator.link.writes)
            looked = operator.runs()
            await cluster.clock.sleep(600.0)
            assert operator.runs() > looked + 10
            assert [str(each) for each in operator.link.writes[before:]] == []


async def test_a_restart_writes_nothing_either() -> None:
    async with trainer_cluster() as cluster:
        await cluster.client.create(mpi_runtime())
        first = Operator(cluster)
        async with first.running():
            await cluster.client.create(train_job(suspend=True))
            await first.settle()
        version = (await jobset(cluster)).metadata.resource_version
        second = Operator(cluster)
        async with second.running():
            await second.settle()
        assert (await jobset(cluster)).metadata.resource_version == version


async def check(cluster: TestCluster, jobs: int) -> None:
    """Exactly the objects that there should be, each of its own TrainJob."""
    found = {job.metadata.name: job for job in await cluster.client.list(TrainJob, namespace=SPACE)}
    assert len(found) == jobs
    kinds = (
        (JobSet, ""),
        (Secret, "-mpi-ssh-auth"),
        (ConfigMap, "-mpi-hostfile"),
        (ConfigMap, "-runtime-snapshot"),
    )
    for kind, suffix in kinds:
        children = {
            each.metadata.name: each
            for each in await cluster.client.list(kind, namespace=SPACE)
            if each.metadata.owner_references and each.metadata.name.endswith(suffix)
        }
        assert set(children) == {f"{name}{suffix}" for name in found}
        for name, owner in found.items():
            assert is_controlled_by(owner, children[f"{name}{suffix}"].metadata)


@pytest.mark.parametrize("seed", range(3))
async def test_a_storm_leaves_one_of_everything(seed: int) -> None:
    async with trainer_cluster() as cluster:
        await cluster.client.create(mpi_runtime())
        operator = Operator(cluster, plan=FaultPlan.storm(seed))
        async with operator.running():
            for number in range(6):
                await cluster.client.create(train_job(f"job-{number}", suspend=number % 2 == 0))
            await cluster.client.delete(TrainJob, "job-0", SPACE)
            await cluster.client.create(train_job("job-0"))
            await eventually(lambda: check_is_fine(cluster, 6), timeout=600.0, interval=1.0)


async def check_is_fine(cluster: TestCluster, jobs: int) -> bool:
    await check(cluster, jobs)
    return True


@pytest.mark.parametrize("fault", [Refuse(500, nth=1), LoseAnswer(nth=1)])
@pytest.mark.parametrize("nth", range(1, 7))
async def test_every_single_write_may_fail_or_lose_its_answer(fault: Any, nth: int) -> None:
    async with trainer_cluster() as cluster:
        await cluster.client.create(mpi_runtime())
        kind = type(fault)
        rule = kind(500, nth=nth, verbs=WRITES) if kind is Refuse else kind(nth=nth, verbs=WRITES)
        operator = Operator(cluster, plan=FaultPlan(0, rule))
        async with operator.running():
            await cluster.client.create(train_job(suspend=True))
            await operator.settle()
            await check(cluster, 1)
            key = (await cluster.client.get(Secret, SECRET, SPACE)).data
            await edit(
                cluster, await cluster.client.get(TrainJob, "test-job", SPACE), spec={"suspend": False}
            )
            await operator.settle()
            assert (await jobset(cluster)).spec.suspend is False
            assert (await cluster.client.get(Secret, SECRET, SPACE)).data == key


async def test_two_replicas_at_once_make_one_of_everything() -> None:
    async with trainer_cluster() as cluster:
        await cluster.client.create(mpi_runtime())
        first, second = Operator(cluster), Operator(cluster)
        async with first.running(), second.running():
            for number in range(5):
                await cluster.client.create(train_job(f"job-{number}"))
            await first.settle(second)
            await check(cluster, 5)
            created = [
                each
                for each in (*first.link.log, *second.link.log)
                if each.verb == "create" and each.target.resource == "secrets" and each.status == 201
            ]
            assert len(created) == 5
        digests = {
            each.metadata.name: each.metadata.annotations[names.KEY_DIGEST]
            for each in await cluster.client.list(ConfigMap, namespace=SPACE)
            if each.metadata.name.endswith("-runtime-snapshot")
        }
        assert len(set(digests.values())) == 5


async def grant(cluster: TestCluster, user: str, rules: tuple[PolicyRule, ...]) -> None:
    await cluster.client.create(ClusterRole(metadata=ObjectMeta(name=user), rules=rules))
    await cluster.client.create(
        ClusterRoleBinding(
            metadata=ObjectMeta(name=user),
            role_ref=RoleRef(api_group="rbac.authorization.k8s.io", kind="ClusterRole", name=user),
            subjects=[Subject(api_group="rbac.authorization.k8s.io", kind="User", name=user)],
        )
    )


async def test_the_derived_role_is_enough_and_all_of_it_is_used() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(
            cluster, user="trainer-operator", settings={"reservedEnvAuditSeconds": 2, **PROTECTS}
        )
        (role,) = roles("trainer", operator.manager.rules())
        assert isinstance(role, ClusterRole)
        await grant(cluster, "trainer-operator", tuple(role.rules))
        async with operator.running():
            await everything(cluster)
        assert [str(each) for each in operator.link.log if each.status == 403] == []
        used = {
            Permission(
                each.target.resource.partition(".")[2],
                each.target.resource.partition(".")[0]
                + (f"/{each.target.subresource}" if each.target.subresource else ""),
                "patch" if each.target.verb == "apply" else each.target.verb,
            )
            for each in operator.link.log
            if each.is_write
        }
        judged = compare(operator.manager.rules(), used)
        assert judged.missing == ()
        assert judged.unused == ()


async def everything(cluster: TestCluster) -> None:
    """Make the operator do everything it ever does."""
    client = cluster.client
    launcher, node = replicated("launcher"), replicated(ancestor="trainer")
    policy = {"mpi": {"numProcPerNode": 1}}
    gangs: list[dict[str, Any]] = [{"coscheduling": {}}, {"volcano": {}}]
    for number, gang in enumerate(gangs):
        made_of = runtime(launcher, node, policy=policy, gang=gang)
        await client.create(made_of.evolve(metadata=ObjectMeta(name=f"r{number}", namespace=SPACE)))
        ref = {"kind": "TrainingRuntime", "name": f"r{number}"}
        await client.create(train_job(f"job-{number}", runtimeRef=ref, activeDeadlineSeconds=60))
    shared = runtime().to_dict()
    shared = {**shared, "kind": "ClusterTrainingRuntime", "metadata": {"name": "shared"}}
    await client.create(ClusterTrainingRuntime.from_dict(shared))
    await client.create(train_job("job-2", runtimeRef={"name": "shared"}))
    await cluster.clock.sleep(5.0)
    slots = await jobset(cluster, "job-0")
    document = slots.to_dict()
    pod = document["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["env"] = []
    await client.update(JobSet.from_dict(document))
    await cluster.clock.sleep(5.0)
    await client.delete(TrainingRuntime, "r0", SPACE)
    await client.delete(TrainJob, "job-0", SPACE)
    await cluster.clock.sleep(90.0)


@pytest.mark.parametrize(
    ("resource", "reason"),
    [("trainjobs/status", "StatusUpdateFailed"), ("trainingruntimes", "FinalizerUpdateFailed")],
)
async def test_a_right_that_is_missing_is_told(resource: str, reason: str) -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster, PROTECTS, user="trainer-operator")
        (role,) = roles("trainer", operator.manager.rules())
        assert isinstance(role, ClusterRole)
        kept = [
            rule.evolve(verbs=tuple(verb for verb in rule.verbs if verb in READS))
            if resource in rule.resources
            else rule
            for rule in role.rules
        ]
        await grant(cluster, "trainer-operator", tuple(rule for rule in kept if rule.verbs))
        await cluster.client.create(runtime())
        async with operator.running():
            await cluster.client.create(train_job(suspend=True))
            await eventually(lambda: reason in operator.events.reasons, timeout=30.0)


async def test_a_snapshot_keeps_the_runtime_as_it_was() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        made_of = await cluster.client.create(runtime(policy={"numNodes": 2}))
        async with operator.running():
            await cluster.client.create(train_job(suspend=True))
            await operator.settle()
            await edit(cluster, made_of, spec={"mlPolicy": {"numNodes": 9}})
            job = await cluster.client.get(TrainJob, "test-job", SPACE)
            await edit(cluster, job, spec={"suspend": False})
            await operator.settle()
            (node,) = (await jobset(cluster)).spec.replicated_jobs
            assert node.template.spec.parallelism == 2
            kept = await cluster.client.get(ConfigMap, "test-job-runtime-snapshot", SPACE)
            assert kept.data["runtime"].startswith("apiVersion: trainer.kubeflow.org/v1alpha1\n")


async def test_a_runtime_may_go_while_it_is_used() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        protected = runtime(policy={"numNodes": 2})
        finalizers = (names.FINALIZER,)
        await cluster.client.create(
            protected.evolve(metadata=protected.metadata.evolve(finalizers=finalizers))
        )
        async with operator.running():
            await cluster.client.create(train_job(suspend=True))
            await operator.settle()
            await cluster.client.delete(TrainingRuntime, "test-runtime", SPACE)
            with pytest.raises(NotFound):
                await cluster.client.get(TrainingRuntime, "test-runtime", SPACE)
            await operator.settle()
            told = [each.note for each in operator.events.events if each.reason == "RuntimeGone"]
            assert told == [
                "TrainingRuntime test-runtime is gone; the TrainJob goes on with the copy that it keeps"
            ]
            job = await cluster.client.get(TrainJob, "test-job", SPACE)
            await edit(cluster, job, spec={"suspend": False, "trainer": {"image": "new"}})
            await operator.settle()
            running = await jobset(cluster)
            (node,) = running.spec.replicated_jobs
            assert (running.spec.suspend, node.template.spec.parallelism) == (False, 2)


async def test_a_snapshot_that_is_deleted_comes_back() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(mpi_runtime())
        async with operator.running():
            await cluster.client.create(train_job())
            await operator.settle()
            await cluster.client.delete(ConfigMap, "test-job-runtime-snapshot", SPACE)
            await operator.settle()
            kept = await cluster.client.get(ConfigMap, "test-job-runtime-snapshot", SPACE)
            assert "kind: TrainingRuntime" in kept.data["runtime"]


async def test_a_snapshot_that_did_not_change_is_not_read_again() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime())
        async with operator.running():
            await cluster.client.create(train_job())
            await operator.settle()
            looked, before = operator.runs(), len(operator.link.log)
            await cluster.clock.sleep(600.0)
            assert operator.runs() > looked + 5
            later = operator.link.log[before:]
            reads = [
                each for each in later if (each.target.verb, each.target.resource) == ("get", "configmaps")
            ]
            assert reads == []


async def test_a_snapshot_of_somebody_else_is_not_used() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime())
        metadata = ObjectMeta(name="test-job-runtime-snapshot", namespace=SPACE)
        await cluster.client.create(ConfigMap(metadata=metadata, data={"runtime": "{}"}))
        async with operator.running():
            await cluster.client.create(train_job())
            text = "a snapshot configmap exists but is owned by another object"
            await eventually(lambda: any(text in each for each in operator.events.about("test-job")))


async def test_limits_and_runtime_classes_wake_suspended_jobs() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster, {"reservedEnvAuditSeconds": 0})
        classed = replicated(ancestor="trainer", runtimeClassName="gvisor")
        await cluster.client.create(runtime(classed))
        async with operator.running():
            await cluster.client.create(train_job("suspended", suspend=True))
            await cluster.client.create(train_job("running"))
            await operator.settle()
            for obj, wakes in (
                (LimitRange(metadata=ObjectMeta(name="l", namespace=SPACE)), 1),
                (LimitRange(metadata=ObjectMeta(name="l", namespace="kube-system")), 0),
                (RuntimeClass.from_dict({"metadata": {"name": "gvisor"}, "handler": "runsc"}), 1),
                (RuntimeClass.from_dict({"metadata": {"name": "other"}, "handler": "runc"}), 0),
            ):
                before = operator.runs()
                await cluster.client.create(obj)
                await operator.settle()
                assert operator.runs() - before == wakes, obj


async def test_a_gang_without_its_definition_is_an_error_that_is_told() -> None:
    async with TestCluster(crds=LIGHT, controllers=True) as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime(gang={"coscheduling": {}}))
        async with operator.running():
            await cluster.client.create(train_job())
            await eventually(lambda: "TrainJobResourcesCreationFailed" in operator.events.reasons)
            await cluster.install(CoschedulingPodGroup)
            await eventually(lambda: jobset(cluster), timeout=120.0)


async def test_without_jobset_everybody_is_told_how_to_get_it() -> None:
    definitions = [each for each in LIGHT if each["metadata"]["name"] != "jobsets.jobset.x-k8s.io"]
    async with TestCluster(crds=definitions, controllers=True) as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime(replicated("node")))
        await cluster.client.create(train_job())
        async with operator.running():
            await eventually(lambda: condition(cluster, names.JOBSET_MISSING), timeout=60.0)
            told = await condition(cluster, names.JOBSET_MISSING)
            assert told is not None
            assert (told.status, told.reason, told.message) == ("True", "JobSetNotInstalled", HOW_TO_GET_IT)
            assert "--operators trainer,jobset" in HOW_TO_GET_IT
            assert (
                operator.events.events[0].note == f"TrainJob resources reconciliation failed: {HOW_TO_GET_IT}"
            )
            check = operator.webhooks.checks["trainer-jobset"]
            assert check() == HOW_TO_GET_IT
            await cluster.install(jobset_definition())
            await eventually(lambda: jobset(cluster), timeout=180.0)
            made = await jobset(cluster)
            counters = dict.fromkeys(("ready", "succeeded", "failed", "active", "suspended"), 0)
            status = {"replicatedJobsStatus": [{"name": "node", **counters}]}
            await cluster.client.subresource("status").patch(made, MergePatch({"status": status}))
            await eventually(lambda: is_gone(cluster, names.JOBSET_MISSING), timeout=60.0)
            await eventually(lambda: check() is None, timeout=60.0)


async def condition(cluster: TestCluster, type: str) -> Condition | None:
    found = await cluster.client.get(TrainJob, "test-job", SPACE)
    return find_condition(found.status.conditions if found.status else (), type)


async def is_gone(cluster: TestCluster, type: str) -> bool:
    return await condition(cluster, type) is None


async def test_long_errors_are_cut() -> None:
    async with trainer_cluster() as cluster:
        long = FaultPlan(0, Refuse(500, message="x" * 2000, verbs=frozenset({"apply"})))
        operator = Operator(cluster, plan=long)
        await cluster.client.create(runtime())
        async with operator.running():
            await cluster.client.create(train_job())
            await eventually(lambda: operator.events.events)
        note = operator.events.events[0].note
        start = "TrainJob resources reconciliation failed: "
        assert note == f"{start}{'x' * 950} ..."


async def test_an_unknown_kind_of_runtime_is_not_tried_again() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        async with operator.running():
            ref = {"kind": "Mystery", "name": "x"}
            await cluster.client.create(train_job(runtimeRef=ref))
            await operator.settle()
            runs = operator.runs()
            await cluster.clock.sleep(600.0)
            assert operator.runs() == runs


async def test_jobs_are_counted_by_state() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        await cluster.client.create(runtime())
        async with operator.running():
            await cluster.client.create(train_job("a"))
            await cluster.client.create(train_job("b", suspend=True))
            await operator.settle()
            operator.metrics.registry.expose()
            states = ("running", "suspended", "complete", "failed")
            counted = [operator.value("quarterdeck_trainer_trainjobs", SPACE, state) for state in states]
            assert counted == [1, 1, 0, 0]


async def test_everybody_may_read_the_release() -> None:
    async with trainer_cluster() as cluster:
        operator = Operator(cluster)
        async with operator.running():
            await operator.settle()
        public = await cluster.client.get(ConfigMap, names.PUBLIC_CONFIG, "kubeflow-system")
        assert public.data == {"kubeflow_trainer_version": "v2.3.0"}
        anybody = cluster.link(user="jane", groups=["system:authenticated"]).client
        assert await anybody.get(ConfigMap, names.PUBLIC_CONFIG, "kubeflow-system") == public
        with pytest.raises(Forbidden):
            await anybody.list(ConfigMap, namespace="default")


async def test_a_namespace_of_its_own_can_be_had_or_none() -> None:
    async with trainer_cluster() as cluster:
        for namespace in ("elsewhere", ""):
            operator = Operator(cluster, {"publicNamespace": namespace})
            async with operator.running():
                await operator.settle()
        found = [
            each for each in await cluster.client.list(ConfigMap) if each.metadata.name == names.PUBLIC_CONFIG
        ]
        assert [each.metadata.namespace for each in found] == ["elsewhere"]


async def test_a_secret_that_is_not_cached_is_not_waited_for() -> None:
    """Of all Secrets only those with SSH keys are cached; that of Flux is not one of them."""
    async with trainer_cluster() as cluster:
        cache = CacheOptions(by_kind=merge_kinds([TrainerOperator()]))
        operator = Operator(cluster, cache=cache)
        await cluster.client.create(runtime(policy={"flux": {}}))
        async with operator.running():
            await cluster.client.create(train_job(suspend=True))
            await operator.settle()
            job = await cluster.client.get(TrainJob, "test-job", SPACE)
            await edit(cluster, job, spec={"suspend": False})

            async def is_resumed() -> bool:
                return (await jobset(cluster)).spec.suspend is False

            await eventually(is_resumed, timeout=2.0)
            assert (await cluster.client.get(Secret, "test-job-flux-curve", SPACE)).data
