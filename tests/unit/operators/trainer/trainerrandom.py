"""Random runtimes and TrainJobs, the same for the same number, and what is rendered of them.

``python -m tests.unit.operators.trainer.trainerrandom`` records the renderings anew, after a change of
rendering that is wanted: look at the difference before you commit it.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from quarterdeck.api import to_dict
from quarterdeck.operators.trainer.types import TrainingRuntime, TrainJob

from .trainerkit import initializer, rendering, replicated, runtime, train_job, trainer

Json = dict[str, Any]
RECORDED = Path(__file__).with_name("renderings.json")
COUNT = 48
POLICIES = ("plain", "torch", "mpi", "mpi-launcher", "jax", "xgboost", "flux", "torchtune")
TUNED = "torchtune-llama3.2-1b"


def made(number: int) -> tuple[TrainingRuntime, TrainJob]:
    """A runtime and a TrainJob of it."""
    rng = random.Random(number)
    policy = POLICIES[number % len(POLICIES)]
    return _runtime(rng, policy), _job(rng, policy)


def _resources(rng: random.Random) -> Json:
    found: Json = {"requests": {"cpu": rng.choice(["1", "2500m", "4"]), "memory": "1Gi"}}
    if rng.random() < 0.4:
        found["limits"] = {"nvidia.com/gpu": rng.choice(["1", "2", "8"])}
    return found


def _env(rng: random.Random) -> list[Json]:
    names = rng.sample(["A", "B", "C", "D"], rng.randint(0, 3))
    return [{"name": name, "value": str(rng.randint(0, 9))} for name in names]


def _runtime(rng: random.Random, policy: str) -> TrainingRuntime:
    parts: Json = {"resources": _resources(rng), "env": _env(rng), "command": ["run"], "args": ["--all"]}
    if policy == "torchtune":
        parts["command"] = ["tune", "run", "output_dir=/out", "tokenizer.path=/tokens", "seed=1"]
    sidecar = {"pod": {"initContainers": [{"name": "probe", "image": "p"}]}} if rng.random() < 0.3 else {}
    jobs = [trainer(**parts, **sidecar)]
    spec: Json = {"numNodes": rng.randint(1, 4)}
    if policy == "mpi":
        more = {"replicas": rng.randint(1, 2)}
        jobs = [replicated("launcher", ancestor="trainer", **parts), replicated("node", more=more)]
    elif policy == "mpi-launcher":
        jobs = [
            replicated("launcher", ancestor="trainer", **parts),
            replicated("node", resources=_resources(rng)),
        ]
    if policy.startswith("mpi"):
        mpi = {"runLauncherAsNode": policy == "mpi-launcher", "numProcPerNode": rng.choice([1, 1, 2])}
        spec["mpi"] = {"mpiImplementation": "OpenMPI", "sshAuthMountPath": "/root/.ssh", **mpi}
    elif policy in ("torch", "torchtune"):
        targets = [{"jobName": "node", "containerNames": ["probe"]}] if sidecar else []
        spec["torch"] = {"numProcPerNode": "auto", "envInjection": {"targets": targets}}
    elif policy != "plain":
        spec[policy] = {}
    if rng.random() < 0.5:
        jobs.insert(0, initializer())
        jobs[-1]["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    extra: Json = {}
    if rng.random() < 0.3:
        extra["network"] = {"subdomain": "net"}
    if rng.random() < 0.4:
        extra["gang"] = rng.choice([{"coscheduling": {"scheduleTimeoutSeconds": 30}}, {"volcano": {}}])
    if rng.random() < 0.4:
        extra["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
    name = TUNED if policy == "torchtune" else "test"
    return runtime(*jobs, policy=spec, name=name, **extra)


def _job(rng: random.Random, policy: str) -> TrainJob:
    said: Json = {"env": _env(rng)}
    if policy == "torchtune":
        said["command"] = ["tune", "run"]
        if rng.random() < 0.5:
            said["args"] = ["model.lora_attn_modules=[q_proj]"]
    elif rng.random() < 0.5:
        said.update(image="mine", command=["python", "train.py"], args=["--lr", "1"])
    if rng.random() < 0.5 and policy != "torchtune":
        said["numNodes"] = rng.randint(1, 5)
    if rng.random() < 0.3 and policy != "torchtune":
        said["numProcPerNode"] = rng.randint(1, 4)
    if rng.random() < 0.4:
        said["resourcesPerNode"] = _resources(rng)
    spec: Json = {"suspend": rng.random() < 0.5}
    if rng.random() < 0.9:
        spec["trainer"] = said
    if rng.random() < 0.4:
        spec["labels"] = {"team": "mine"}
    if rng.random() < 0.4:
        pod = {"nodeSelector": {"pool": "x"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
        spec["podTemplateOverrides"] = [{"targetJobs": [{"name": "node"}], "spec": pod}]
    if rng.random() < 0.4:
        pod = {"metadata": {"labels": {"by": "patch"}}, "spec": {"nodeSelector": {"zone": "z"}}}
        node = {"name": "node", "template": {"spec": {"template": pod}}}
        template = {"metadata": {"labels": {"queue": "q"}}, "spec": {"replicatedJobs": [node]}}
        spec["runtimePatches"] = [{"manager": "a.b/c", "trainingRuntimeSpec": {"template": template}}]
    return train_job(**spec, runtime=TUNED if policy == "torchtune" else "test")


def rendered(number: int) -> Json:
    """What is rendered, by kind and name, without the keys, which are new each time; and from what."""
    made_of, job = made(number)
    result = rendering(job, made_of)
    objects = {}
    for component in result.components:
        document = to_dict(component.obj)
        if document["kind"] == "Secret":
            document["data"] = sorted(document["data"])
        objects[f"{document['kind']}/{document['metadata']['name']}"] = document
    record = {key: value for key, value in result.record.items() if "sha256" not in key}
    return {"because": explanation(number), "objects": objects, "record": record}


def explanation(number: int) -> str:
    """Why the objects are as they are, as far as what was asked for tells."""
    made_of, job = made(number)
    assert made_of.spec
    assert job.spec
    policy = POLICIES[number % len(POLICIES)]
    said = job.spec.trainer or None
    words = [f"{policy}, {to_dict(made_of.spec.ml_policy).get('numNodes')} nodes by the runtime"]
    if said and said.num_nodes:
        words.append(f"{said.num_nodes} by the TrainJob")
    if said and said.num_proc_per_node:
        words.append(f"{said.num_proc_per_node} processes by the TrainJob")
    if said and said.resources_per_node:
        words.append("resources of the TrainJob laid over")
    if job.spec.pod_template_overrides:
        words.append("an override")
    if job.spec.runtime_patches:
        words.append("a patch after it" if job.spec.pod_template_overrides else "a patch")
    if made_of.spec.pod_group_policy:
        words.append("a gang without what the trainer waits for")
    return "; ".join(words)


if __name__ == "__main__":
    everything = {str(number): rendered(number) for number in range(COUNT)}
    RECORDED.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")
