"""The script: what kubectl is asked to do, read from ``steps/*.yaml`` in order of the file names.

A step is a mapping:

    run: get pods -o wide        the arguments, split like a shell does; ``{name}`` inserts a saved value
    in: |                        standard input
    code: 1                      the expected exit code, 0 unless said
    words: [not found]           what must be in the output, for kubectls without a recorded outcome
    env: {KUBE_EDITOR: ...}      more environment
    save: uid                    keep the standard output under this name, for later steps
    form: explain                a further normalisation (see ``normal``)
    sort: true                   the order of the lines does not matter
    drop: regex                  lines not compared (what the two servers may differ in)
    watch: {ready: 1, lines: 3, during: [...]}
                                 start it, wait for ``ready`` lines, run ``during``, end it at ``lines`` lines
    until: 10                    repeat it for so many seconds until the exit code is right
    proxy: [/api, ...]           start ``kubectl proxy``, read these paths through it, stop it
    differs: reason              a deviation on purpose: only the exit code is compared
    only: ["1.36"]               the kubectl versions that know this command

Steps build on each other, so a script is always run whole and on a fresh server.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

STEPS: Final = Path(__file__).parent / "steps"
#: copied to the directory that kubectl runs in
FILES: Final = Path(__file__).parent / "files"

_READING: Final = (
    *("get ", "describe ", "explain ", "api-resources", "api-versions", "version", "cluster-info", "events"),
    *("auth can-i", "auth whoami", "diff ", "rollout history", "apply view-last-applied", "kustomize "),
)


@dataclass(frozen=True)
class Watch:
    """How long a command that does not end by itself is watched."""

    ready: int
    lines: int
    during: tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """One command and what is known about its outcome beforehand."""

    id: str
    area: str
    run: str
    input: str | None = None
    code: int = 0
    words: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    save: str = ""
    form: str = ""
    sort: bool = False
    drop: str = ""
    watch: Watch | None = None
    until: float = 0.0
    proxy: tuple[str, ...] = ()
    differs: str = ""
    only: tuple[str, ...] = ()

    def args(self, saved: dict[str, str]) -> list[str]:
        return [insert(arg, saved) for arg in shlex.split(self.run)]

    @property
    def is_reading(self) -> bool:
        """Whether it changes nothing, so that it may run beside its neighbours."""
        return self.run.startswith(_READING) and not (self.save or self.watch or self.proxy)

    def is_for(self, version: str) -> bool:
        return not self.only or version in self.only


def insert(text: str, saved: dict[str, str]) -> str:
    """Put saved values in the places of their names; other braces stay (jsonpath is full of them)."""
    for name, value in saved.items():
        text = text.replace("{" + name + "}", value)
    return text


def load() -> list[Step]:
    """All steps; ids are the command lines, with a number where one occurs several times in an area."""
    steps: list[Step] = []
    seen: dict[str, int] = {}
    for path in sorted(STEPS.glob("*.yaml")):
        area = path.stem.split("-", 1)[1]
        for entry in yaml.safe_load(path.read_text()):
            if isinstance(entry, str):
                entry = {"run": entry}
            base = f"{area}: {_title(entry['run'])}"
            seen[base] = number = seen.get(base, 0) + 1
            steps.append(_step(base if number == 1 else f"{base} ({number})", area, entry))
    return steps


def _title(run: str) -> str:
    text = " ".join(run.split())
    return text if len(text) <= 100 else text[:97] + "..."


def _step(name: str, area: str, entry: dict[str, Any]) -> Step:
    entry = dict(entry)
    watch = entry.pop("watch", None)
    step = Step(
        id=name,
        area=area,
        run=entry.pop("run"),
        input=entry.pop("in", None),
        code=entry.pop("code", 0),
        words=tuple(entry.pop("words", ())),
        env=entry.pop("env", {}),
        save=entry.pop("save", ""),
        form=entry.pop("form", ""),
        sort=entry.pop("sort", False),
        drop=entry.pop("drop", ""),
        watch=watch
        and Watch(
            ready=watch.get("ready", 0), lines=watch.get("lines", 0), during=tuple(watch.get("during", ()))
        ),
        until=entry.pop("until", 0.0),
        proxy=tuple(entry.pop("proxy", ())),
        differs=entry.pop("differs", ""),
        only=tuple(entry.pop("only", ())),
    )
    if entry:
        raise ValueError(f"{name}: unknown keys {sorted(entry)}")
    return step
