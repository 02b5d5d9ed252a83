"""torchtune: the recipe and the configuration that fit a TrainJob, and what is not supported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from quarterdeck.api import UnsetType
from quarterdeck.operators.trainer import names
from quarterdeck.operators.trainer.logic.device import gpu_count
from quarterdeck.operators.trainer.logic.env import coordinator
from quarterdeck.operators.trainer.logic.info import Info, resources_of, spec_of, trainer_of
from quarterdeck.operators.trainer.types import TrainJob
from quarterdeck.wire import fielderror
from quarterdeck.wire.fielderror import FieldError

_ENTRYPOINT: Final = ("tune", "run")
_OWNED: Final = (
    "output_dir",
    "tokenizer.path",
    "tokenizer.merges_file",
    "checkpointer.checkpoint_dir",
)
"""Settings that only the runtime makes."""
_QUANTIZE: Final = "model.quantize_base"
_DORA: Final = "model.use_dora"
_LORA: Final = "model.lora_attn_modules"

_LLAMA_1B: Final = "llama3_2/1B"
_LLAMA_3B: Final = "llama3_2/3B"
_LLAMA_70B: Final = "llama3_3/70B"
_QWEN: Final = "qwen2_5/1.5B"
_SUPPORTED: Final = (_LLAMA_1B, _LLAMA_3B, _LLAMA_70B, _QWEN)

_FULL: Final = "full_finetune_distributed"
_FULL_SINGLE: Final = "full_finetune_single_device"
_LORA_RECIPE: Final = "lora_finetune_distributed"
_LORA_SINGLE: Final = "lora_finetune_single_device"


def is_entrypoint(words: Sequence[str]) -> bool:
    """Whether a command is torchtune's, with nothing behind it."""
    return tuple(words) == _ENTRYPOINT


def model_of(job: TrainJob) -> str:
    """The model that the name of the runtime stands for; empty if it stands for none.

    ``torchtune-llama3.2-1b`` is ``llama3_2/1B``.
    """
    parts = spec_of(job).runtime_ref.name.split("-")
    return f"{parts[1].replace('.', '_')}/{parts[2].upper()}" if len(parts) == 3 else ""


def recipe_and_suffix(args: Sequence[str], *, nodes: int, processes: int | str, gpus: int) -> tuple[str, str]:
    """The recipe, and how its configuration for a model ends."""
    if nodes != 1:
        return _FULL, "_full_multinode" if nodes > 1 else "_full"
    is_single = processes == 1 or gpus == 1
    if is_qlora(args):
        return (_LORA_SINGLE, "_qlora_single_device") if is_single else (_LORA_RECIPE, "_qlora")
    if is_lora(args):
        return (_LORA_SINGLE, "_lora_single_device") if is_single else (_LORA_RECIPE, "_lora")
    return (_FULL_SINGLE, "_full_single_device") if is_single else (_FULL, "_full")


def is_qlora(args: Sequence[str]) -> bool:
    """Whether the base model is quantized, and not for DoRA."""
    return _is_true(args, _QUANTIZE) and not _is_true(args, _DORA)


def is_lora(args: Sequence[str]) -> bool:
    """Whether adapters are trained."""
    return any(_LORA in arg for arg in args)


def _is_true(args: Sequence[str], key: str) -> bool:
    return any(key in (parts := arg.partition("="))[0] and parts[2].lower() == "true" for arg in args)


def command(info: Info, job: TrainJob, *, nodes: int, processes: int | str, gpus: int) -> list[str]:
    """The whole command of the trainer."""
    trainer = trainer_of(job)
    words = [*_ENTRYPOINT]
    has_many_processes = processes > 1 if isinstance(processes, int) else gpus > 1
    if nodes > 1 or has_many_processes:
        address = coordinator(info.job_name, info.template)
        words.append(f"--rdzv_endpoint={address}:{names.TRAINER_PORT}")
    recipe, suffix = recipe_and_suffix(trainer.args, nodes=nodes, processes=processes, gpus=gpus)
    words += [recipe, "--config", f"{model_of(job)}{suffix}"]
    words += [word for word in info.runtime_command if word.partition("=")[0] in _OWNED]
    return words


def validate(info: Info, job: TrainJob) -> list[FieldError]:
    """What torchtune cannot do with the model; the model itself first."""
    trainer, name, model = trainer_of(job), spec_of(job).runtime_ref.name, model_of(job)
    found: list[FieldError] = []
    if model not in _SUPPORTED:
        detail = f"must have a supported pretrained model, invalid model configured: {model}"
        found.append(fielderror.invalid("spec.runtimeRef.name", name, detail))
    found += _validate_args(trainer.args)
    nodes = 1 if isinstance(trainer.num_nodes, UnsetType) else trainer.num_nodes
    processes = names.AUTO if isinstance(trainer.num_proc_per_node, UnsetType) else trainer.num_proc_per_node
    if nodes > 1 and model != _LLAMA_70B:
        found.append(fielderror.invalid("spec.trainer.numNodes", nodes, f"must be 1 for {model} model"))
    if nodes > 1 and (is_lora(trainer.args) or is_qlora(trainer.args)):
        detail = "LoRA fine-tuning is not supported for multi-node training in TorchTune"
        found.append(fielderror.invalid("spec.trainer.numNodes", nodes, detail))
    gpus = gpu_count(resources_of(info, job))
    _, suffix = recipe_and_suffix(trainer.args, nodes=nodes, processes=processes, gpus=gpus)
    return found + _validate_qlora(job, model, suffix)


def _validate_args(args: Sequence[str]) -> list[FieldError]:
    return [
        fielderror.invalid(
            f"spec.trainer.args[{place}]",
            arg,
            f'must not set immutable config "{key}" in trainer args; it is managed by the runtime',
        )
        for place, arg in enumerate(args)
        if (key := arg.partition("=")[0]) in _OWNED
    ]


def _validate_qlora(job: TrainJob, model: str, suffix: str) -> list[FieldError]:
    trainer = trainer_of(job)
    found: list[FieldError] = []
    if "_qlora" in suffix and model == _QWEN:
        name = spec_of(job).runtime_ref.name
        found.append(
            fielderror.invalid("spec.runtimeRef.name", name, f"QLoRA is not supported for {model} model")
        )
    if suffix == "_qlora" and model in (_LLAMA_1B, _LLAMA_3B):
        found.append(
            fielderror.invalid(
                "spec.trainer.numProcPerNode",
                trainer.num_proc_per_node or names.AUTO,
                f"must be auto or 1 for {model} model when using QLoRA",
            )
        )
        found.append(
            fielderror.invalid(
                "spec.trainer.resourcesPerNode",
                trainer.resources_per_node or {},
                f"must have gpu resource with value 1 for {model} model when using QLoRA",
            )
        )
    return found
