"""``spec.gpu``: how GPUs of a node are shared."""

from __future__ import annotations

from typing import Annotated

from quarterdeck.api import UNSET, Maybe, Model, Seq
from quarterdeck.api.marker import Enum, Ge, Le, Len, ListMap, OneOf, Pattern


class TimeSlicing(Model):
    """Pods take turns on a GPU."""

    partition_count: Annotated[Maybe[int | float], Ge(1), Le(100)] = UNSET
    """Pods per GPU; 4 unless set."""


class Exclusive(Model):
    """One pod per GPU."""


class MigSlice(Model):
    """Instances of one profile."""

    profile: Annotated[str, Pattern(r"^[0-9]+g\.[0-9]+gb(\.me)?$")]
    """MIG profile, such as 1g.10gb."""
    count: Annotated[int, Ge(1), Le(7)]
    """How many slices of the profile."""


class MigConfig(Model):
    """How one GPU is cut."""

    index: Annotated[int, Ge(0)]
    """Number of the GPU."""
    slices: Seq[MigSlice]


class Mig(
    Model,
    rules=[
        OneOf(
            {
                "properties": {
                    "partedConfig": {
                        "pattern": r"^all-(balanced|disabled|[0-9]g[.][0-9]{1,2}gb([.]me)?)$",
                    }
                },
                "not": {"required": ["customConfigs"]},
            },
            {
                "properties": {"partedConfig": {"pattern": "^custom$"}},
                "required": ["partedConfig", "customConfigs"],
            },
        )
    ],
):
    """GPUs cut into instances by the hardware."""

    parted_config: Maybe[str] = UNSET
    """Name of the partitioning; all-1g.5gb unless set, custom to use customConfigs."""
    custom_configs: Annotated[Maybe[Seq[MigConfig]], ListMap("index"), Len(min=1)] = UNSET


class Gpu(
    Model,
    rules=[
        OneOf(
            *({"properties": {"sharing": {"enum": [name]}}} for name in ("TimeSlicing", "MIG", "Exclusive"))
        )
    ],
):
    """How GPUs of a node are shared."""

    sharing: Annotated[Maybe[str], Enum("TimeSlicing", "MIG", "Exclusive")] = UNSET
    """Exclusive, TimeSlicing or MIG."""
    time_slicing: Maybe[TimeSlicing] = UNSET
    exclusive: Maybe[Exclusive] = UNSET
    mig: Maybe[Mig] = UNSET
