"""The operator as programs see it: settings, rights, webhooks, what is cached; and single webhooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterdeck.api import Time
from quarterdeck.api.k8s import Secret
from quarterdeck.client import Config
from quarterdeck.errors import ConfigError
from quarterdeck.operators.nodegroup.assembly import NodeGroupOperator
from quarterdeck.operators.trainer import lookup
from quarterdeck.operators.trainer.assembly import TrainerOperator, operator
from quarterdeck.operators.trainer.metrics import TrainerMetrics
from quarterdeck.operators.trainer.settings import TrainerSettings
from quarterdeck.operators.trainer.types import RuntimeRef, TrainJob
from quarterdeck.operators.trainer.webhooks.stamp import stamped
from quarterdeck.runtime.cache import ALL_NAMESPACES
from quarterdeck.runtime.metrics import Registry
from quarterdeck.runtime.operator import OperatorEnvironment
from quarterdeck.runtime.operator.program import Program, ProgramOptions, merge_kinds
from quarterdeck.runtime.webhook import UrlTarget, webhook_configurations
from quarterdeck.runtime.webhook.admission import Denied, deny
from quarterdeck.wire import fielderror

from .trainerkit import runtime, train_job

Json = dict[str, Any]


def program(**settings: Any) -> Program:
    options = ProgramOptions(settings={"trainer": settings})
    return Program(Config(server="https://127.0.0.1"), [operator()], options)


def test_webhooks_have_upstreams_names_and_paths() -> None:
    (registration,) = program().registrations
    made = webhook_configurations(
        registration.configuration, registration.admission, UrlTarget("https://127.0.0.1:1")
    )
    found = {
        webhook["name"]: (webhook["clientConfig"]["url"].partition(":1/")[2], webhook["failurePolicy"])
        for each in made
        for webhook in each.to_dict()["webhooks"]
    }
    kinds = ("trainjob", "trainingruntime", "clustertrainingruntime")
    assert found == {
        "defaulter.trainjob.trainer.kubeflow.org": ("mutate-trainer-kubeflow-org-v1alpha1-trainjob", "Fail"),
        **{
            f"validator.{kind}.trainer.kubeflow.org": (
                f"validate-trainer-kubeflow-org-v1alpha1-{kind}",
                "Fail",
            )
            for kind in kinds
        },
    }
    assert registration.configuration == "validator.trainer.kubeflow.org"
    for each in made:
        for webhook in each.to_dict()["webhooks"]:
            assert webhook["sideEffects"] == "None"
            assert [rule["operations"] for rule in webhook["rules"]] == [["CREATE", "UPDATE"]]


def test_controllers_have_upstreams_names() -> None:
    assert {each.name for each in program().manager.controllers} == {
        "trainjob_controller",
        "trainingruntime_controller",
        "clustertrainingruntime_controller",
    }


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="riddle"):
        program(riddle=1)
    with pytest.raises(ConfigError, match="reservedEnvRepair"):
        program(reservedEnvRepair="Sometimes")
    environment = OperatorEnvironment(name="trainer", settings={"reservedEnvAuditSeconds": 5})
    assert environment.decode(TrainerSettings).reserved_env_audit_seconds == 5


def test_nothing_but_jobsets_may_be_deleted() -> None:
    rules = program().manager.rules()
    deleting = [rule for rule in rules if "delete" in rule.verbs]
    anything = [rule for rule in deleting if not rule.resource_names]  # its own webhooks it names
    assert {resource for rule in anything for resource in rule.resources} == {"jobsets"}


def test_secrets_are_cached_as_far_as_they_hold_keys() -> None:
    kinds = merge_kinds([TrainerOperator(), NodeGroupOperator()])
    options = kinds[Secret]
    assert isinstance(options.namespaces, dict)
    assert options.namespaces[ALL_NAMESPACES].fields == {"type": "kubernetes.io/ssh-auth"}
    others = [settings for name, settings in options.namespaces.items() if name != ALL_NAMESPACES]
    assert len(others) == 2
    assert all(settings.fields != options.namespaces[ALL_NAMESPACES].fields for settings in others)


def test_states_are_counted_anew_at_each_reading() -> None:
    registry = Registry()
    metrics = TrainerMetrics(registry)
    jobs = [train_job(), train_job(suspend=True)]
    end = metrics.follow(lambda: jobs)
    registry.expose()
    assert registry.value("quarterdeck_trainer_trainjobs", "default", "running") == 1
    jobs.clear()
    assert b"quarterdeck_trainer_trainjobs{" not in registry.expose()
    end()


def test_one_finding_is_its_text_and_several_are_a_list() -> None:
    first = fielderror.invalid("a", "x", "no")
    second = fielderror.forbidden("b", "never")
    deny([])
    with pytest.raises(Denied, match=r'^a: Invalid value: "x": no$'):
        deny([first])
    with pytest.raises(Denied) as caught:
        deny([first, second, first])
    assert str(caught.value) == '[a: Invalid value: "x": no, b: Forbidden: never]'
    assert [(cause.field, cause.reason) for cause in caught.value.causes] == [
        ("a", "FieldValueInvalid"),
        ("b", "FieldValueForbidden"),
        ("a", "FieldValueInvalid"),
    ]


def test_a_job_without_a_runtime_has_none() -> None:
    assert lookup.is_supported(TrainJob())
    assert lookup.RUNTIMES["TrainingRuntime.trainer.kubeflow.org"] is type(runtime())
    assert not lookup.is_supported(
        TrainJob.from_dict(
            {"spec": {"runtimeRef": {"kind": "TrainingRuntime", "apiGroup": "x", "name": "r"}}}
        )
    )


NOW, BEFORE = Time("2030-01-02T00:00:00Z"), "2030-01-01T00:00:00Z"


def patched(**managers: Any) -> TrainJob:
    """A TrainJob with patches: by manager, a node selector and perhaps a date."""
    patches = []
    for name, (pool, date) in managers.items():
        pod = {"spec": {"nodeSelector": {"pool": pool}}}
        job = {"name": "node", "template": {"spec": {"template": pod}}}
        patch: Json = {
            "manager": f"example.com/{name}",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }
        patches.append({**patch, "time": date} if date else patch)
    return train_job(runtimePatches=patches)


def dates(job: TrainJob) -> list[str]:
    assert job.spec
    return [str(each.time) for each in job.spec.runtime_patches]


def test_new_patches_get_a_date_unless_they_have_one() -> None:
    assert dates(stamped(patched(a=("x", ""), b=("x", BEFORE)), None, NOW)) == [str(NOW), BEFORE]


def test_changed_patches_get_a_new_date_and_others_keep_theirs() -> None:
    old = patched(a=("x", BEFORE), b=("x", BEFORE))
    new = patched(a=("x", ""), b=("y", BEFORE), c=("x", BEFORE))
    assert dates(stamped(new, old, NOW)) == [BEFORE, str(NOW), BEFORE]


def test_a_patch_that_an_update_adds_keeps_the_date_it_comes_with() -> None:
    new = patched(a=("x", BEFORE), b=("x", ""))
    assert dates(stamped(new, patched(), NOW)) == [BEFORE, str(NOW)]


@pytest.mark.parametrize(
    ("reference", "key"),
    [
        (RuntimeRef(), "ClusterTrainingRuntime.trainer.kubeflow.org"),
        (RuntimeRef(kind="TrainingRuntime"), "TrainingRuntime.trainer.kubeflow.org"),
        (RuntimeRef(kind="TrainingRuntime", api_group=""), "TrainingRuntime."),
        (RuntimeRef(kind=""), ".trainer.kubeflow.org"),
    ],
)
def test_what_a_reference_leaves_empty_is_not_filled_in(reference: RuntimeRef, key: str) -> None:
    assert reference.key == key


def test_a_job_without_patches_is_left_alone() -> None:
    job = train_job()
    assert stamped(job, job, NOW) is job


def test_the_shipped_runtimes_are_all_there() -> None:
    text = (Path(__file__).parents[4] / "examples" / "trainer" / "1-runtimes.yaml").read_text()
    found = {each["metadata"]["name"] for each in yaml.safe_load_all(text) if each}
    assert found == {
        "torch-distributed",
        "torch-distributed-with-cache",
        "jax-distributed",
        "xgboost-distributed",
        "deepspeed-distributed",
        "mlx-distributed",
        "torchtune-llama3.2-1b",
        "torchtune-llama3.2-3b",
        "torchtune-qwen2.5-1.5b",
    }


def test_without_a_server_there_are_no_reports_of_progress() -> None:
    manager = Program(Config(server="https://127.0.0.1"), []).manager
    environment = OperatorEnvironment(name="trainer", settings={"progress": True})
    with pytest.raises(ConfigError, match="there is no webhook server that could take reports"):
        operator().setup(manager, environment)
    assert program().registrations[0].folders == {}
    assert list(program(progress=True).registrations[0].folders) == [
        "/apis/trainer.kubeflow.org/v1alpha1/namespaces"
    ]


def test_runtimes_may_ask_not_to_be_looked_at() -> None:
    (registration,) = program().registrations
    made = webhook_configurations(
        registration.configuration, registration.admission, UrlTarget("https://127.0.0.1:1")
    )
    selectors = {
        webhook["name"].split(".")[1]: webhook.get("objectSelector")
        for each in made
        for webhook in each.to_dict()["webhooks"]
    }
    key = "trainer.kubeflow.org/webhook-validation"
    unless = {"matchExpressions": [{"key": key, "operator": "NotIn", "values": ["disabled"]}]}
    assert selectors == {
        "trainjob": None,
        "trainingruntime": unless,
        "clustertrainingruntime": unless,
    }
