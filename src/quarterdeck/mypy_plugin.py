"""A plugin for mypy: the fields of ``evolve`` and of ``ctx.status``, which Python's types cannot say.

Switch it on where you run mypy; a program does not need it::

    [tool.mypy]
    plugins = ["quarterdeck.mypy_plugin"]

``pod.evolve(spek=...)`` and ``ctx.status.redy = 1`` are errors then.
"""

from collections.abc import Callable
from typing import Any, Final, cast

from mypy.nodes import ARG_NAMED_OPT, TypeInfo, Var
from mypy.plugin import AttributeContext, MethodSigContext, Plugin
from mypy.types import AnyType, ExtraAttrs, Instance, Type, TypeOfAny, UnionType, get_proper_type

_MODEL: Final = "quarterdeck.api.model.Model"
_RESOURCE: Final = "quarterdeck.api.resource.Resource"
_CONTEXT: Final = "quarterdeck.runtime.reconcile.context.Context"
_STATUS_MODULE: Final = "quarterdeck.runtime.reconcile.statusedit"


class QuarterdeckPlugin(Plugin):
    """Registers the two hooks."""

    def get_method_signature_hook(self, fullname: str) -> Callable[[MethodSigContext], Any] | None:
        """For ``evolve``."""
        return _evolve if fullname.endswith(".evolve") else None

    def get_attribute_hook(self, fullname: str) -> Callable[[AttributeContext], Type] | None:
        """For ``ctx.status``."""
        return _status if fullname == f"{_CONTEXT}.status" else None


def _evolve(ctx: MethodSigContext) -> Any:
    signature, owner = ctx.default_signature, get_proper_type(ctx.type)
    if not isinstance(owner, Instance) or not owner.type.has_base(_MODEL):
        return signature
    if owner.type.fullname in (_MODEL, _RESOURCE):  # code that works on any kind does not know its fields
        return signature
    names = sorted(_fields(owner.type))
    return signature.copy_modified(
        arg_types=[signature.arg_types[-1]] * len(names),
        arg_kinds=[ARG_NAMED_OPT] * len(names),
        arg_names=names,
    )


def _status(ctx: AttributeContext) -> Type:
    owner = get_proper_type(ctx.type)
    if not isinstance(owner, Instance) or owner.type.fullname != _CONTEXT:
        return ctx.default_attr_type
    kind = get_proper_type(owner.args[0])
    declared = kind.type.get("status") if isinstance(kind, Instance) else None
    if declared is None or not isinstance(declared.node, Var) or declared.node.type is None:
        return ctx.default_attr_type
    status = get_proper_type(declared.node.type)
    options = [get_proper_type(item) for item in status.items] if isinstance(status, UnionType) else [status]
    models = [each for each in options if isinstance(each, Instance) and each.type.has_base(_MODEL)]
    if len(models) != 1:
        return ctx.default_attr_type
    anything = AnyType(TypeOfAny.special_form)
    module = cast("Any", ctx.api).modules[_STATUS_MODULE]
    edited = Instance(module.names["EditedStatus"].node, [])
    edited.extra_attrs = ExtraAttrs(dict.fromkeys(_fields(models[0].type), anything), set(), None)
    return edited


def _fields(info: TypeInfo) -> set[str]:
    return {
        name
        for base in info.mro
        for name, symbol in base.names.items()
        if isinstance(symbol.node, Var) and not symbol.node.is_classvar and not name.startswith("__")
    }


def plugin(version: str) -> type[Plugin]:
    """What mypy calls."""
    return QuarterdeckPlugin
