"""Names that a package once exported: imported from the module that defines them now, or called otherwise.

Programs written for the old names go on working, with a ``DeprecationWarning`` that says what to import
instead. Type checkers do not see the old names.
"""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: for each module the names, separated by spaces.

    ``Old=New`` is a name that is another one now.
    """
    places = {}
    for module, names in modules.items():
        for old, _, new in (name.partition("=") for name in names.split()):
            places[old] = f"quarterdeck.{module}", new or old

    def moved_name(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, now = places[name]
        warnings.warn(
            f"{package}.{name} will go: import {now} from {module}", DeprecationWarning, stacklevel=2
        )
        return getattr(import_module(module), now)

    return moved_name
