"""Which of the cluster's controllers run, by the names that kube-controller-manager has for them.

A name may be short: ``deployment`` is ``deployment-controller``. ``*`` stands for all, ``-name`` takes one
away from them, and nothing at all means none::

    ControllerChoice.parse("deployment,replicaset")
    ControllerChoice.parse("*,-garbage-collector")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Self

from quarterdeck.errors import ConfigError

_SUFFIX: Final = "-controller"


class ControllerChoice:
    """A set of controllers."""

    def __init__(self, names: Iterable[str] = (), *, others: bool = False) -> None:
        """``names`` run; with ``others`` everything else runs and they do not."""
        self._names: Final = frozenset(name.removesuffix(_SUFFIX) for name in names)
        self._others: Final = others

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a list of names; ``none`` is an empty one. Raises ``ConfigError`` for a mixture."""
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if parts in (["none"], []):
            return cls()
        if "*" not in parts:
            taken = [part for part in parts if part.startswith("-")]
            if taken:
                raise ConfigError(f"controllers: {taken[0]} takes away from nothing: begin with *")
            return cls(parts)
        return cls((part[1:] for part in parts if part.startswith("-")), others=True)

    def includes(self, name: str) -> bool:
        """Whether a controller runs."""
        return (name.removesuffix(_SUFFIX) in self._names) != self._others

    def check(self, known: Iterable[str]) -> None:
        """Raise ``ConfigError`` for names that no controller has."""
        short = {name.removesuffix(_SUFFIX) for name in known}
        unknown = sorted(self._names - short)
        if unknown:
            raise ConfigError(f"controllers: there is no {unknown[0]}; there are {', '.join(sorted(short))}")


ALL_CONTROLLERS: Final = ControllerChoice(others=True)
