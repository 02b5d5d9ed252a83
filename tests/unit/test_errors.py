"""Every exception of the package hangs on the one tree that ``quarterdeck.errors`` draws."""

import importlib
import pkgutil
from collections.abc import Iterator

import quarterdeck
from quarterdeck import errors
from quarterdeck.errors import QuarterdeckError


def exceptions() -> Iterator[type[BaseException]]:
    """All exception classes of the package, those that never leave their module included.

    What is only a ``BaseException`` is no error: it steers the flow and must get past ``except Exception``.
    """
    for module in pkgutil.walk_packages(quarterdeck.__path__, "quarterdeck."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    pending: list[type[BaseException]] = [Exception]
    seen: set[type[BaseException]] = set()
    while pending:
        for kind in pending.pop().__subclasses__():
            if kind not in seen:
                seen.add(kind)
                pending.append(kind)
                if kind.__module__.partition(".")[0] == "quarterdeck":
                    yield kind


def test_every_exception_is_a_quarterdeck_error() -> None:
    strangers = [
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in exceptions()
        if not issubclass(kind, QuarterdeckError)
    ]
    assert strangers == []


def test_the_drawing_shows_every_error_of_the_module() -> None:
    drawing = errors.__doc__ or ""
    kinds = [
        name
        for name in errors.__all__
        if isinstance(each := getattr(errors, name), type) and issubclass(each, QuarterdeckError)
    ]
    assert [name for name in kinds if f" {name} " not in drawing.replace("\n", " ")] == []
