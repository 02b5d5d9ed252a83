"""The operators and the cluster's controllers as one program, whatever way leads to the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from quarterdeck.client import Client
    from quarterdeck.cluster.choice import ControllerChoice
    from quarterdeck.cluster.node.lifecycle import InitGate
    from quarterdeck.cluster.node.profile import NodeSettings
    from quarterdeck.cluster.token import SignToken
    from quarterdeck.runtime.operator import Operator
    from quarterdeck.runtime.operator.program import Program

#: the operator that runs beside every other, as the cluster's own controllers do
_FOUNDATION: Final = "jobset"

_STORAGE_CLASS: Final = "standard"


class MakeClient(Protocol):
    """Gives a client of the server; the options are those of ``Client.over``."""

    def __call__(self, **options: Any) -> Client: ...


def make_program(
    make_client: MakeClient,
    operators: Sequence[Operator],
    settings: Mapping[str, Mapping[str, Any]],
    *,
    nodes: NodeSettings,
    choice: ControllerChoice | None = None,
    root_ca: bytes,
    authority: bytes,
    sign_token: SignToken,
) -> Program:
    """What runs beside an embedded server.

    What runs workloads comes with operators, nodes or a choice of controllers; without any the cluster is a
    bare control plane, where a pod or Job stays as it was stored, until a node joins it. A choice says which
    of the cluster's controllers run; JobSets, which other operators build upon, are among these.
    """
    from quarterdeck.cluster.choice import ALL_CONTROLLERS
    from quarterdeck.cluster.controllers import ClusterControllers
    from quarterdeck.cluster.node.kubelet import Kubelet
    from quarterdeck.cluster.workload import Workloads
    from quarterdeck.runtime.cache.options import CacheOptions
    from quarterdeck.runtime.operator import installed_operators
    from quarterdeck.runtime.operator.program import Program, ProgramOptions, merge_kinds, whole_kinds

    chosen = choice if choice is not None else ALL_CONTROLLERS
    foundation = installed_operators().get(_FOUNDATION)
    wants_foundation = (operators or choice is not None) and chosen.includes(_FOUNDATION)
    if foundation is not None and wants_foundation and all(each.name != _FOUNDATION for each in operators):
        operators = [*operators, foundation]
    program = Program(
        make_client(),
        operators,
        ProgramOptions(is_embedded=True, installs=True, webhook_url="https://127.0.0.1:0", settings=settings),
    )
    workloads = Workloads(
        nodes=nodes, storage_class=_STORAGE_CLASS, kubelet=Kubelet(init_gate=_init_gate(program))
    )
    program.manager.add(
        ClusterControllers(
            # Observing everything includes what is deprecated: no news to anybody.
            make_client(on_warning=lambda _: None),
            root_ca=root_ca,
            authority=authority,
            sign_token=sign_token,
            workloads=workloads,
            waits_for_nodes=not (operators or nodes.total or choice is not None),
            choice=chosen,
            elsewhere=(_FOUNDATION,),
            metrics=program.metrics,
            cache=CacheOptions(by_kind=whole_kinds(merge_kinds(operators))),
            lender=program.manager.cache,
        )
    )
    return program


def _init_gate(program: Program) -> InitGate:
    """What init containers wait for that no container program waits for here: all gates of the operators."""
    gates = [part.init_gate for part in program.registrations if part.init_gate is not None]
    return lambda pod, container: all(gate(pod, container) for gate in gates)
