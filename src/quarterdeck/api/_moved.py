"""Names that a package once exported and that are now imported from the module that defines them.

Programs written for the longer list go on working, with a ``DeprecationWarning`` that says what to import
instead. Type checkers do not see these names.
"""

import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def moved_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package: ``modules`` has the names, separated by spaces, for each module."""
    places = {name: f"quarterdeck.{module}" for module, names in modules.items() for name in names.split()}

    def moved_name(name: str) -> Any:
        place = places.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        warnings.warn(
            f"import {name} from {place}: it will not be exported by {package} any longer",
            DeprecationWarning,
            stacklevel=2,
        )
        return getattr(import_module(place), name)

    return moved_name
