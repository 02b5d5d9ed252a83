"""What a team gets: a namespace, and a quota of GPUs in it."""

from collections.abc import Iterable

from quarterdeck.api import Key, ObjectMeta, Quantity
from quarterdeck.api.k8s import Namespace, Pod, ResourceQuota
from quarterdeck.api.k8s.core import ResourceQuotaSpec
from quarterdeck.runtime import Builder, Context, Controller, Index, MapContext, Requeue, Result, field

from .types import Team

PREFIX = "team-"


def namespace_of(team: Team) -> str:
    return f"{PREFIX}{team.metadata.name}"


def quota_of(team: Team) -> ResourceQuota:
    metadata = ObjectMeta(name="gpus", namespace=namespace_of(team))
    limit = {"requests.nvidia.com/gpu": Quantity(team.spec.gpus)}
    return ResourceQuota(metadata=metadata, spec=ResourceQuotaSpec(hard=limit))


async def reconcile(ctx: Context[Team]) -> None:
    team, namespace = ctx.obj, namespace_of(ctx.obj)
    await ctx.apply(Namespace(metadata=ObjectMeta(name=namespace)), owner=team)
    await ctx.apply(quota_of(team), owner=team)
    ctx.status.namespace = namespace
    ctx.status.pods = active_pods(ctx)
    if not ctx.conditions.is_true("Ready"):
        ctx.event("Normal", "Ready", f"namespace {namespace} is ready")
    ctx.conditions.set("Ready", True, reason="InPlace")


BY_PHASE = field("status.phase")


def active_pods(ctx: Context[Team]) -> int:
    """Pods that have not ended."""
    namespace = namespace_of(ctx.obj)
    return sum(len(ctx.index(Pod, BY_PHASE(phase, namespace))) for phase in ("Pending", "Running"))


def team_of(context: MapContext, pod: Pod) -> Iterable[Key]:
    """The team whose status changes with a pod."""
    namespace = pod.metadata.namespace
    return [Key("", namespace.removeprefix(PREFIX))] if namespace.startswith(PREFIX) else []


async def evacuate(ctx: Context[Team]) -> Result | None:
    """A team leaves when its work is done, not before."""
    left = active_pods(ctx)
    if not left:
        return None
    message = f"{left} pods have not ended"
    ctx.event("Warning", "PodsLeft", message)
    ctx.conditions.set("Ready", False, reason="PodsLeft", message=message)
    return Requeue(after=300, reason="pods-left")


BY_MEMBER: Index[Team] = Index("member", lambda team: team.spec.members)


def team_controller() -> Controller[Team]:
    return (
        Builder(Team)
        .owns(Namespace)
        .owns(ResourceQuota)
        .watches(Pod, to=team_of)
        .indexes(Pod, BY_PHASE)
        .indexes(Team, BY_MEMBER)
        .finalizer("example.io/evacuation", evacuate)
        .build(reconcile)
    )
