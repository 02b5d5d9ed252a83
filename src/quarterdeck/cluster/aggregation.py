"""ClusterRoles that gather the rules of others, chosen by label (``aggregationRule``).

The rules of the chosen roles replace those of the gathering one, each rule once, in order of role names.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from quarterdeck.api import UNSET, Key, ObjectMeta, Selector
from quarterdeck.api.k8s.rbac import ClusterRole, PolicyRule
from quarterdeck.runtime.controller.builder import Builder
from quarterdeck.runtime.controller.controller import Controller
from quarterdeck.runtime.controller.handler import MapContext
from quarterdeck.runtime.rbac import Rule
from quarterdeck.runtime.reconcile.context import Context
from quarterdeck.runtime.reconcile.result import Result

NAME: Final = "clusterrole-aggregation-controller"


def aggregated_rules(role: ClusterRole, roles: Iterable[ClusterRole]) -> list[PolicyRule]:
    """The rules a gathering role should have; raises ``SchemaError`` for a selector that makes no sense."""
    gathered: list[PolicyRule] = []
    if role.aggregation_rule is UNSET:
        return gathered
    others = sorted(
        (each for each in roles if each.metadata.name != role.metadata.name),
        key=lambda each: each.metadata.name,
    )
    for selector in map(Selector.of, role.aggregation_rule.cluster_role_selectors):
        for other in others:
            if selector.matches(other.metadata.labels):
                gathered += (rule for rule in other.rules if rule not in gathered)
    return gathered


async def _aggregate(ctx: Context[ClusterRole]) -> Result | None:
    role = ctx.obj
    if role.aggregation_rule is UNSET:
        return None
    rules = aggregated_rules(role, await ctx.list(ClusterRole))
    if rules != list(role.rules):
        await ctx.apply(ClusterRole(metadata=ObjectMeta(name=role.metadata.name), rules=rules))
    return None


async def _gathering_roles(ctx: MapContext, _: ClusterRole) -> Iterable[Key]:
    """Any change may concern any role that gathers; there are few of them."""
    return [each.key for each in await ctx.cache.list(ClusterRole) if each.aggregation_rule is not UNSET]


def aggregation_controller() -> Controller[ClusterRole]:
    """The controller, for ``manager.add``."""
    return (
        Builder(ClusterRole, name=NAME)
        .watches(ClusterRole, to=_gathering_roles)
        .rbac(
            Rule(
                groups=("rbac.authorization.k8s.io",),
                resources=("clusterroles",),
                verbs=("escalate", "patch"),
            )
        )
        .build(_aggregate)
    )
