"""Docstrings of classes and of their fields, read from source for schema descriptions.

A field is documented by a string literal on the line below it. Python drops those, so the module's
source is parsed once; where there is no source the descriptions are simply absent.
"""

import ast
import inspect
import itertools
import sys
from collections.abc import Sequence
from functools import cache


def class_doc(cls: type) -> str:
    """The docstring of the class itself, never an inherited one."""
    text = cls.__dict__.get("__doc__") or ""
    return inspect.cleandoc(text) if text else ""


@cache
def field_docs(cls: type) -> dict[str, str]:
    """Field name → the string literal below it, base classes included."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.split(".")[0] in ("msgspec", "builtins"):
            continue
        docs.update(_module_docs(base.__module__).get(base.__qualname__, {}))
    return docs


@cache
def _module_docs(module: str) -> dict[str, dict[str, str]]:
    """Class name → field name → the string literal written below the field."""
    try:
        source = inspect.getsource(sys.modules[module])
    except (KeyError, OSError, TypeError):
        return {}
    found: dict[str, dict[str, str]] = {}

    def visit(body: Sequence[ast.stmt], prefix: str) -> None:
        for statement in body:
            if isinstance(statement, ast.ClassDef):
                name = f"{prefix}{statement.name}"
                found[name] = _body_docs(statement.body)
                visit(statement.body, f"{name}.")
            elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                visit(statement.body, f"{prefix}{statement.name}.<locals>.")

    visit(ast.parse(source).body, "")
    return found


def _body_docs(body: Sequence[ast.stmt]) -> dict[str, str]:
    docs = {}
    for field, below in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
            and isinstance(below.value.value, str)
        ):
            docs[field.target.id] = inspect.cleandoc(below.value.value)
    return docs
