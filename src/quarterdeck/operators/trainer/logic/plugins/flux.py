"""Flux: the pods form a cluster of their own, in which the first of them starts the training.

An init container brings Flux along; two scripts set it up. What they need is in a ConfigMap, the key by which
the pods know each other in a Secret.
"""

from __future__ import annotations

import shlex
from typing import Final

from quarterdeck.api import Quantity, UnsetType
from quarterdeck.api.jsonobject import Json
from quarterdeck.api.k8s import ConfigMap, ResourceRequirements
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.device import gpu_count
from quarterdeck.operators.trainer.logic.env import PROCESSES, refuse_too_few_processes, user_env
from quarterdeck.operators.trainer.logic.info import Info, PodSet, trainer_of
from quarterdeck.operators.trainer.logic.plugin import ClusterFacts, Component, Present, config_map
from quarterdeck.operators.trainer.logic.template import pod_spec, upsert_env, upsert_mount, upsert_volume
from quarterdeck.operators.trainer.types import MLPolicy, TrainJob
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

from .fluxscript import Cluster, entrypoint_script, init_script
from .key import build_key
from .plainml import resize_trainer

_DEFAULTS: Final = {
    names.FLUX_VIEW_IMAGE: names.FLUX_INSTALLER_IMAGE,
    names.FLUX_NETWORK_DEVICE: "eth0",
    names.FLUX_QUEUE_POLICY: "fcfs",
}
"""Settings, which variables of the trainer change."""
_SCRIPT_MODE: Final = 0o755
_KEY_MODE: Final = 0o400


class Flux:
    """For runtimes with ``mlPolicy.flux``."""

    name: Final = "Flux"

    def is_active(self, policy: MLPolicy) -> bool:
        """Whether the runtime is one for Flux."""
        return bool(policy.flux)

    def enforce_ml_policy(self, info: Info, job: TrainJob) -> None:
        """Set nodes and processes, bring Flux along and wrap the command."""
        flux = info.ml_policy.flux
        if not flux:
            return
        resize_trainer(info, job)
        said, default = trainer_of(job).num_proc_per_node, flux.num_proc_per_node
        if isinstance(said, UnsetType):
            said = 1 if isinstance(default, UnsetType) else default
        info.processes = str(said)
        pods = info.pod_set(names.NODE)
        container = pods.container(names.NODE) if pods is not None else None
        if pods is None or container is None:
            return
        upsert_env(container, user_env(trainer_of(job).env))
        for volume in _volumes(info.job_name):
            upsert_volume(pods.job, volume)
        pod_spec(pods.job).setdefault("initContainers", []).append(_installer(info.job_name, container))
        for mount in _mounts(info.job_name):
            upsert_mount(container, mount)
        words = shlex.join(_words(container, job))
        info.command = ["/bin/bash", f"{names.FLUX_CONFIG_PATH}/entrypoint.sh", words]
        info.has_arguments = False

    def build(self, info: Info, job: TrainJob, present: Present) -> list[Component]:
        """The key, if there is none yet, and the scripts."""
        if not self.is_active(info.ml_policy):
            return []
        made = build_key(info, job, present)
        pods = info.pod_set(names.NODE)
        if pods is not None and info.processes:
            made.append(Component(_scripts(info, pods, job)))
        return made

    def validate(
        self, info: Info, old: TrainJob | None, new: TrainJob, facts: ClusterFacts
    ) -> list[FieldError]:
        """Processes, and the name of the init container, which is taken."""
        if not self.is_active(info.ml_policy):
            return []
        found = refuse_too_few_processes(new)
        processes = trainer_of(new).num_proc_per_node
        if isinstance(processes, str):
            found.append(fielderror.invalid(PROCESSES, processes, "must have an int value for Flux TrainJob"))
        pods = info.pod_set(names.NODE)
        others = pod_spec(pods.job).get("initContainers") or () if pods is not None else ()
        if any(each.get("name") == names.FLUX_INSTALLER for each in others):
            path, detail = (
                "spec.trainer.initContainers",
                f"InitContainer '{names.FLUX_INSTALLER}' is reserved",
            )
            found.append(fielderror.invalid(path, names.FLUX_INSTALLER, detail))
        return found


def _words(container: Json, job: TrainJob) -> list[str]:
    """What is to be trained: as the TrainJob says, else as the runtime does."""
    trainer = trainer_of(job)
    command = trainer.command or container.get("command") or ()
    return [*command, *(trainer.args or container.get("args") or ())]


def _settings(container: Json) -> dict[str, str]:
    given = {entry.get("name"): entry.get("value", "") for entry in container.get("env") or ()}
    return {name: given.get(name) or default for name, default in _DEFAULTS.items()}


def _volumes(job_name: str) -> list[Json]:
    scripts = names.flux_scripts_name(job_name)
    secret = {"secretName": names.curve_secret_name(job_name), "defaultMode": _KEY_MODE}
    return [
        {"name": names.FLUX_SOFTWARE_VOLUME, "emptyDir": {}},
        {"name": names.FLUX_INSTALL_VOLUME, "emptyDir": {}},
        {"name": scripts, "configMap": {"name": scripts, "defaultMode": _SCRIPT_MODE}},
        {"name": names.FLUX_MEMORY_VOLUME, "emptyDir": {"medium": "Memory"}},
        {"name": names.FLUX_CURVE_VOLUME, "secret": secret},
    ]


def _mount(name: str, path: str, *, is_read_only: bool = False) -> Json:
    return {"name": name, "mountPath": path, **({"readOnly": True} if is_read_only else {})}


def _mounts(job_name: str) -> list[Json]:
    return [
        _mount(names.FLUX_INSTALL_VOLUME, names.FLUX_INSTALL_PATH),
        _mount(names.FLUX_SOFTWARE_VOLUME, names.FLUX_SOFTWARE_PATH),
        _mount(names.flux_scripts_name(job_name), names.FLUX_CONFIG_PATH, is_read_only=True),
        _mount(names.FLUX_CURVE_VOLUME, names.FLUX_CURVE_PATH, is_read_only=True),
        _mount(names.FLUX_MEMORY_VOLUME, names.FLUX_MEMORY_PATH, is_read_only=True),
    ]


def _installer(job_name: str, container: Json) -> Json:
    return {
        "name": names.FLUX_INSTALLER,
        "image": _settings(container)[names.FLUX_VIEW_IMAGE],
        "command": ["/bin/bash", f"{names.FLUX_CONFIG_PATH}/init.sh"],
        "volumeMounts": [
            _mount(names.FLUX_INSTALL_VOLUME, names.FLUX_INSTALL_PATH),
            _mount(names.flux_scripts_name(job_name), names.FLUX_CONFIG_PATH, is_read_only=True),
        ],
    }


def _scripts(info: Info, pods: PodSet, job: TrainJob) -> ConfigMap:
    container = pods.container(names.NODE) or {}
    settings = _settings(container)
    cluster = Cluster(
        hosts=f"{info.job_name}-{names.NODE}-0-",
        domain=f"{info.subdomain}.{job.metadata.namespace}.svc.cluster.local",
        nodes=pods.count,
        processes=int(info.processes),
        gpus=gpu_count(_resources(container)),
        device=settings[names.FLUX_NETWORK_DEVICE],
        queue_policy=settings[names.FLUX_QUEUE_POLICY],
    )
    data = {"entrypoint.sh": entrypoint_script(cluster), "init.sh": init_script(cluster)}
    return config_map(job, names.flux_scripts_name(info.job_name), data)


def _resources(container: Json) -> ResourceRequirements:
    known = container.get("resources") or {}
    limits, requests = (
        {name: Quantity(value) for name, value in (known.get(key) or {}).items()}
        for key in ("limits", "requests")
    )
    return ResourceRequirements(limits=limits, requests=requests)
