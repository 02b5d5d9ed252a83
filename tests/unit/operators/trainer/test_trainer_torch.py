"""Torch: nodes, processes, variables; torchtune: commands and what it cannot do."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.errors import ReconcileError
from quarterdeck.operators.jobset.types import JobSet
from quarterdeck.operators.trainer.logic.audit import find_drift, repaired

from .trainerkit import (
    FRAMEWORK,
    RANK,
    container_of,
    env_of,
    info_of,
    job_of,
    pod_of,
    render,
    replicated,
    runtime,
    train_job,
    trainer,
    violations,
)

Json = dict[str, Any]
TORCH: Json = {"numNodes": 1, "torch": {"numProcPerNode": "auto"}}
RESERVED = ["PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NNODES", "PET_NODE_RANK", "PET_NPROC_PER_NODE"]


def processes(policy: Any = "auto", resources: Json | None = None, **spec: Any) -> str:
    made_of = runtime(trainer(resources=resources or {}), policy={"torch": {"numProcPerNode": policy}})
    found: str = env_of(render(train_job(trainer=spec), made_of)["JobSet"])["PET_NPROC_PER_NODE"]
    return found


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({"requests": {"cpu": "4"}}, "4"),
        ({"requests": {"cpu": "2500m"}}, "3"),
        ({"requests": {"cpu": "0.7"}}, "1"),
        ({"limits": {"cpu": "2"}}, "2"),
        ({"requests": {"cpu": "0"}, "limits": {"cpu": "5"}}, "5"),
        ({}, "1"),
        ({"requests": {"nvidia.com/gpu": "2"}}, "auto"),
        ({"limits": {"nvidia.com/GPU": "1"}}, "auto"),
        ({"requests": {"nvidia.com/gpu": "0", "cpu": "3"}}, "3"),
    ],
)
def test_auto_counts_cpus_unless_there_are_gpus(resources: Json, expected: str) -> None:
    assert processes(resourcesPerNode=resources) == expected
    assert processes(resources=resources) == expected


@pytest.mark.parametrize(("given", "expected"), [("cpu", "4"), ("gpu", "gpu"), (7, "7"), ("auto", "auto")])
def test_the_words_for_processes(given: Any, expected: str) -> None:
    resources = {"requests": {"cpu": "4", "example.com/gpu": "2"}}
    assert processes(numProcPerNode=given, resourcesPerNode=resources) == expected
    assert processes(given, resources) == expected


def test_the_job_speaks_before_the_runtime() -> None:
    assert processes(2, numProcPerNode=5) == "5"
    assert processes(2) == "2"


def test_resources_of_the_job_count_alone() -> None:
    assert processes(resources={"requests": {"gpu": "2"}}, resourcesPerNode={"requests": {"cpu": "6"}}) == "6"


def test_resources_are_those_of_the_first_job_that_has_the_container() -> None:
    launcher = replicated(
        "launcher", ancestor="trainer", container="main", resources={"requests": {"cpu": 9}}
    )
    made_of = runtime(launcher, replicated("node", resources={"limits": {"cpu": "3"}}), policy=TORCH)
    assert info_of(train_job(), made_of).runtime_resources == {"limits": {"cpu": "3"}}


def test_variables_and_port() -> None:
    jobset = render(train_job(trainer={"numNodes": 3}), runtime(policy=TORCH))["JobSet"]
    assert env_of(jobset) == {
        "PET_NNODES": "3",
        "PET_NPROC_PER_NODE": "1",
        "PET_NODE_RANK": RANK,
        "PET_MASTER_ADDR": "job-node-0-0.job",
        "PET_MASTER_PORT": "29500",
    }
    assert container_of(jobset)["ports"] == [{"containerPort": 29500}]
    spec = job_of(jobset)["template"]["spec"]
    assert (spec["parallelism"], spec["completions"]) == (3, 3)


def test_variables_are_set_without_a_trainer_too() -> None:
    assert set(env_of(render(train_job(), runtime(policy=TORCH))["JobSet"])) == set(RESERVED)


def test_the_address_follows_the_subdomain() -> None:
    made_of = runtime(policy=TORCH, network={"subdomain": "net"})
    assert env_of(render(train_job(), made_of)["JobSet"])["PET_MASTER_ADDR"] == "job-node-0-0.net"


def test_a_port_that_is_declared_already_keeps_its_name() -> None:
    ports = [{"name": "rendezvous", "containerPort": 29500, "protocol": "TCP"}]
    made_of = runtime(trainer(ports=ports), policy=TORCH)
    assert container_of(render(train_job(), made_of)["JobSet"])["ports"] == ports


def test_reserved_variables_of_the_runtime_are_overwritten() -> None:
    env = [{"name": "PET_NNODES", "value": "77"}, {"name": "KEPT", "value": "1"}]
    found = env_of(render(train_job(), runtime(trainer(env=env), policy=TORCH))["JobSet"])
    assert (found["PET_NNODES"], found["KEPT"]) == ("1", "1")


def test_reserved_variables_of_a_job_never_win_and_leave_nothing_behind() -> None:
    env = [
        {"name": "PET_MASTER_ADDR", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "PET_NNODES", "value": "7"},
        {"name": "MINE", "value": "1"},
    ]
    jobset = render(train_job(trainer={"env": env}), runtime(policy=TORCH))["JobSet"]
    entries = {entry["name"]: entry for entry in container_of(jobset)["env"]}
    assert entries["PET_MASTER_ADDR"] == {"name": "PET_MASTER_ADDR", "value": "job-node-0-0.job"}
    assert entries["PET_NNODES"]["value"] == "1"
    assert entries["MINE"]["value"] == "1"


def injecting(*containers: str, name: str = "test") -> Any:
    """A runtime with an init container and two more containers, of which some get the variables."""
    policy = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": [*containers]}]}}}
    made_of = runtime(
        trainer(pod={"initContainers": [{"name": "probe", "image": "x"}]}), policy=policy, name=name
    )
    document = made_of.to_dict()
    pod = document["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"] += [{"name": "logger", "image": "x"}, {"name": "other", "image": "x"}]
    return type(made_of).from_dict(document)


def init_env(jobset: Json) -> dict[str, Any]:
    (probe,) = pod_of(jobset)["initContainers"]
    return {entry["name"]: entry.get("valueFrom", entry.get("value")) for entry in probe.get("env", ())}


def test_more_containers_may_get_the_variables() -> None:
    jobset = render(train_job(), injecting("logger"))["JobSet"]
    assert env_of(jobset, name="logger") == env_of(jobset)
    assert env_of(jobset, name="other") == {}
    assert init_env(jobset) == {}


def test_init_containers_may_get_the_variables() -> None:
    jobset = render(train_job(), injecting("probe"))["JobSet"]
    assert init_env(jobset) == env_of(jobset)
    assert init_env(jobset)["PET_MASTER_ADDR"] == "job-node-0-0.job"


def test_with_torchtune_only_the_main_container_goes_without_the_address() -> None:
    name = "torchtune-llama3.2-1b"
    job = train_job(runtime=name, trainer={"command": ["tune", "run"]})
    jobset = render(job, injecting("probe", "logger", name=name))["JobSet"]
    address = {"PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29500"}
    assert not address.keys() & env_of(jobset).keys()
    for variables in (init_env(jobset), env_of(jobset, name="logger")):
        assert variables == {**env_of(jobset), **address}


def test_variables_for_a_container_that_is_not_there_are_refused() -> None:
    made_of = injecting("logger", "nobody")
    text = 'envInjection target podSet "node" container "nobody" not found in runtime template'
    (problem,) = violations(train_job(), made_of)
    assert problem.startswith("spec.runtimeRef: Invalid value: ")
    assert problem.endswith(text)
    with pytest.raises(ReconcileError, match="nobody"):
        render(train_job(), made_of)


def test_a_change_of_an_injected_variable_is_found_and_repaired() -> None:
    made_of = injecting("probe")
    document = render(train_job(), made_of)["JobSet"]
    pod_of(document)["initContainers"][0]["env"][0]["value"] = "7"
    policy, owner = made_of.spec.ml_policy, FRAMEWORK.env_owner(made_of)
    assert owner is not None
    (drift,) = find_drift(owner, policy, JobSet.from_dict(document), "1")
    assert (drift.container, drift.names) == ("probe", ["PET_NNODES"])
    assert find_drift(owner, policy, repaired(JobSet.from_dict(document), [drift]), "1") == []


@pytest.mark.parametrize("processes", [0, -1])
def test_less_than_one_process_is_refused(processes: int) -> None:
    (problem,) = violations(train_job(trainer={"numProcPerNode": processes}), runtime(policy=TORCH))
    assert problem == (
        f"spec.trainer.numProcPerNode: Invalid value: {processes}: must be greater than or equal to 1"
    )


def test_one_process_is_enough() -> None:
    assert violations(train_job(trainer={"numProcPerNode": 1}), runtime(policy=TORCH)) == []


def test_variables_of_a_patch_come_before_those_of_the_runtime() -> None:
    """As upstream has it, whose merge puts new elements first."""
    entries = [{"name": "B", "value": "2"}, {"name": "A", "value": "9"}]
    patch = {"name": "logger", "env": entries}
    job = {"name": "node", "template": {"spec": {"template": {"spec": {"containers": [patch]}}}}}
    patches = [
        {
            "manager": "example.com/me",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [job]}}},
        }
    ]
    document = injecting().to_dict()
    pod = document["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pod["containers"][1]["env"] = [{"name": "A", "value": "1"}, {"name": "C", "value": "3"}]
    made_of = type(injecting()).from_dict(document)
    jobset = render(train_job(runtimePatches=patches), made_of)["JobSet"]
    assert env_of(jobset, name="logger") == {"B": "2", "A": "9", "C": "3"}
    assert [*env_of(jobset, name="logger")] == ["B", "A", "C"]


def test_a_trainer_without_the_container_is_left_alone() -> None:
    made_of = runtime(replicated("node", ancestor="trainer", container="main"), policy=TORCH)
    jobset = render(train_job(), made_of)["JobSet"]
    assert env_of(jobset, name="main") == {}


@pytest.mark.parametrize("value", ["npu", "4", "", "AUTO"])
def test_other_words_for_processes_are_refused(value: str) -> None:
    assert violations(train_job(trainer={"numProcPerNode": value}), runtime(policy=TORCH)) == [
        f'spec.trainer.numProcPerNode: Invalid value: "{value}": must have an int value or [auto cpu gpu]'
    ]


@pytest.mark.parametrize("value", ["auto", "cpu", "gpu", 4])
def test_known_words_for_processes_are_taken(value: Any) -> None:
    assert violations(train_job(trainer={"numProcPerNode": value}), runtime(policy=TORCH)) == []


def test_reserved_variables_are_refused_sorted_whatever_else_is_set() -> None:
    env = [{"name": name, "value": "1"} for name in ("PET_NODE_RANK", "X", "PET_MASTER_PORT", "PET_NNODES")]
    (text,) = violations(train_job(trainer={"env": env}), runtime(policy=TORCH))
    assert text.startswith("spec.trainer.env: Invalid value: [")
    assert text.endswith("must not have reserved envs: [PET_MASTER_PORT PET_NNODES PET_NODE_RANK]")


def test_names_that_only_look_alike_are_taken() -> None:
    env = [{"name": name, "value": "1"} for name in ("PET_LOG_DIR", "pet_nnodes", "MASTER_ADDR")]
    assert violations(train_job(trainer={"env": env}), runtime(policy=TORCH)) == []


def test_other_policies_do_not_reserve_them() -> None:
    env = [{"name": "PET_NNODES", "value": "1"}]
    assert violations(train_job(trainer={"env": env}), runtime()) == []


OWNED = [
    "output_dir=/out",
    "tokenizer.path=/t",
    "tokenizer.merges_file=/m",
    "checkpointer.checkpoint_dir=/c",
]
COMMAND = ["tune", "run", "--rdzv_endpoint=x", "full", "--config", "x/y", "dataset=no", *OWNED]
LORA = "model.lora_attn_modules=[q_proj]"
QLORA = "model.quantize_base=True"


def tune(name: str = "torchtune-llama3.2-1b", **spec: Any) -> tuple[Any, Any]:
    made_of = runtime(trainer(command=COMMAND), name=name, policy=TORCH)
    job = train_job(runtime=name, trainer={"command": ["tune", "run"], **spec})
    return job, made_of


def tune_command(**spec: Any) -> list[str]:
    found: list[str] = container_of(render(*tune(**spec))["JobSet"])["command"]
    return found


def gpus(count: int) -> Json:
    return {"requests": {"example.com/gpu": str(count)}}


@pytest.mark.parametrize(
    ("spec", "recipe", "config"),
    [
        ({"resourcesPerNode": gpus(1)}, "full_finetune_single_device", "_full_single_device"),
        ({"numProcPerNode": 1}, "full_finetune_single_device", "_full_single_device"),
        ({"resourcesPerNode": gpus(1), "args": [LORA]}, "lora_finetune_single_device", "_lora_single_device"),
        (
            {"resourcesPerNode": gpus(1), "args": [LORA, QLORA]},
            "lora_finetune_single_device",
            "_qlora_single_device",
        ),
        (
            {"resourcesPerNode": gpus(1), "args": [LORA, QLORA, "model.use_dora=True"]},
            "lora_finetune_single_device",
            "_lora_single_device",
        ),
        (
            {"resourcesPerNode": gpus(1), "args": ["model.quantize_base=False"]},
            "full_finetune_single_device",
            "_full_single_device",
        ),
        ({"resourcesPerNode": gpus(4)}, "full_finetune_distributed", "_full"),
        ({"resourcesPerNode": gpus(4), "args": [LORA]}, "lora_finetune_distributed", "_lora"),
        ({"resourcesPerNode": gpus(4), "args": [LORA, QLORA]}, "lora_finetune_distributed", "_qlora"),
        ({"numNodes": 2, "resourcesPerNode": gpus(4)}, "full_finetune_distributed", "_full_multinode"),
        ({"numNodes": 2, "numProcPerNode": 1}, "full_finetune_distributed", "_full_multinode"),
    ],
)
def test_recipes(spec: Json, recipe: str, config: str) -> None:
    command = tune_command(**spec)
    place = command.index("--config")
    assert command[place - 1] == recipe
    assert command[place + 1] == f"llama3_2/1B{config}"
    assert command[place + 2 :] == OWNED


@pytest.mark.parametrize(
    ("spec", "meets"),
    [
        ({"resourcesPerNode": gpus(1)}, False),
        ({"resourcesPerNode": gpus(4)}, True),
        ({"numProcPerNode": 1}, False),
        ({"numProcPerNode": 2}, True),
        ({"numNodes": 2, "resourcesPerNode": gpus(1)}, True),
    ],
)
def test_nodes_and_processes_meet_somewhere(spec: Json, meets: bool) -> None:
    endpoint = "--rdzv_endpoint=job-node-0-0.job:29500"
    assert (endpoint in tune_command(**spec)) is meets


def test_torchtune_is_told_the_address_by_its_command_and_args_stay() -> None:
    jobset = render(*tune(args=["epochs=1"], resourcesPerNode=gpus(1)))["JobSet"]
    assert set(env_of(jobset)) == {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK"}
    assert container_of(jobset)["args"] == ["epochs=1"]


def test_another_command_is_not_torchtune() -> None:
    _, made_of = tune()
    other = train_job(runtime="torchtune-llama3.2-1b", trainer={"command": ["tune", "run", "x"]})
    jobset = render(other, made_of)["JobSet"]
    assert container_of(jobset)["command"] == ["tune", "run", "x"]
    assert "PET_MASTER_ADDR" in env_of(jobset)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("torchtune-llama3.1-70b", "llama3_1/70B"),
        ("torchtune-llama3.2", ""),
        ("something", ""),
    ],
)
def test_unknown_models_are_refused(name: str, model: str) -> None:
    (text,) = violations(*tune(name))
    assert text == (
        f'spec.runtimeRef.name: Invalid value: "{name}": '
        f"must have a supported pretrained model, invalid model configured: {model}"
    )


def test_an_unknown_model_does_not_hide_what_else_is_wrong() -> None:
    model, nodes = violations(*tune("torchtune-llama3.1-8b", numNodes=2))
    assert model.endswith("invalid model configured: llama3_1/8B")
    assert nodes == "spec.trainer.numNodes: Invalid value: 2: must be 1 for llama3_1/8B model"


@pytest.mark.parametrize(
    "name",
    ["torchtune-llama3.2-1b", "torchtune-llama3.2-3b", "torchtune-llama3.3-70b", "torchtune-qwen2.5-1.5b"],
)
def test_known_models_are_taken(name: str) -> None:
    assert violations(*tune(name)) == []


def test_only_the_big_model_takes_several_nodes() -> None:
    assert violations(*tune("torchtune-llama3.3-70b", numNodes=2)) == []
    assert violations(*tune(numNodes=2)) == [
        "spec.trainer.numNodes: Invalid value: 2: must be 1 for llama3_2/1B model"
    ]


def test_adapters_are_not_trained_on_several_nodes() -> None:
    detail = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
    assert violations(*tune("torchtune-llama3.3-70b", numNodes=2, args=[LORA])) == [
        f"spec.trainer.numNodes: Invalid value: 2: {detail}"
    ]


def test_qlora_needs_one_device_for_the_small_models() -> None:
    found = violations(*tune(args=[LORA, QLORA], resourcesPerNode=gpus(2)))
    assert [text.partition(":")[0] for text in found] == [
        "spec.trainer.numProcPerNode",
        "spec.trainer.resourcesPerNode",
    ]
    assert found[0].endswith("must be auto or 1 for llama3_2/1B model when using QLoRA")
    assert found[1].endswith("must have gpu resource with value 1 for llama3_2/1B model when using QLoRA")
    assert violations(*tune(args=[LORA, QLORA], resourcesPerNode=gpus(1))) == []


def test_qlora_is_not_for_every_model() -> None:
    found = violations(*tune("torchtune-qwen2.5-1.5b", args=[LORA, QLORA], resourcesPerNode=gpus(1)))
    detail = "QLoRA is not supported for qwen2_5/1.5B model"
    assert found == [f'spec.runtimeRef.name: Invalid value: "torchtune-qwen2.5-1.5b": {detail}']


def test_settings_of_the_runtime_are_not_for_jobs() -> None:
    detail = 'must not set immutable config "output_dir" in trainer args; it is managed by the runtime'
    assert violations(*tune(args=["epochs=1", "output_dir=/mine"])) == [
        f'spec.trainer.args[1]: Invalid value: "output_dir=/mine": {detail}'
    ]
