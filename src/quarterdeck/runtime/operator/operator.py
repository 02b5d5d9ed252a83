"""What an operator is to the programs that run it: types, cached kinds, controllers, webhooks.

``quarterdeck up``, ``run``, ``demo`` and ``manifests`` know operators only by this. An installed
distribution brings one through the entry point group ``quarterdeck.operators``, which names a function
without arguments that returns it::

    [project.entry-points."quarterdeck.operators"]
    ipam = "quarterdeck.operators.ipam.assembly:operator"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

import msgspec

from quarterdeck.api import Resource
from quarterdeck.errors import ConfigError, reason_of
from quarterdeck.runtime.cache.options import KindOptions
from quarterdeck.runtime.rbac import Rule

if TYPE_CHECKING:
    from quarterdeck.api.k8s import Container, Pod
    from quarterdeck.runtime.manager.check import Check
    from quarterdeck.runtime.manager.manager import Manager
    from quarterdeck.runtime.webhook import AdmissionWebhook
    from quarterdeck.wire.http import Handler

ENTRY_POINTS: Final = "quarterdeck.operators"
S = TypeVar("S")
InitGate: TypeAlias = "Callable[[Pod, Container], bool]"


class ServedAddress(msgspec.Struct, frozen=True):
    """Where pods find what is served beside the webhooks."""

    url: str
    """``https://host:port``."""
    ca_bundle: str
    """PEM certificates that the server is trusted by; empty before it has one."""


class OperatorEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """Where an operator runs."""

    name: str
    """The operator's own name, for error texts."""
    settings: Mapping[str, Any] = {}
    """Its section of the configuration file; decode it with ``decode``."""
    namespace: str = "quarterdeck-system"
    """Where the program keeps its own objects, and the operator may keep its."""
    account: str = ""
    """The service account that the program runs as, where that is known."""
    watch_namespaces: tuple[str, ...] = ()
    """The namespaces that this installation serves, beside others that serve others; empty serves all. The
    cache holds no others; what has no namespace is shared with the other installations."""
    companions: frozenset[str] = frozenset()
    """The operators that run in the same program."""
    is_embedded: bool = False
    """Whether the cluster is the embedded one, which has no cloud and no machines: simulate them."""

    server: Callable[[], ServedAddress] | None = None
    """Where ``OperatorWebhooks.folders`` are reached, once they are served; ``None`` where nothing is."""

    registers_webhooks: bool = True
    """Whether the program registers the webhooks; otherwise certificate and registration are up to others."""

    def decode(self, kind: type[S]) -> S:
        """The settings as a struct of the operator's own; raises ``ConfigError`` that names the field."""
        try:
            return msgspec.convert(self.settings, kind)
        except msgspec.ValidationError as error:
            raise ConfigError(f"operators.{self.name}: {reason_of(error)}") from error


class OperatorWebhooks(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server must be told about an operator's webhooks."""

    configuration: str = ""
    """Name of the webhook configuration objects."""
    admission: tuple[AdmissionWebhook, ...] = ()
    converted: tuple[str, ...] = ()
    """Names of the CRDs whose versions the operator converts, at ``/convert``."""
    rules: tuple[Rule, ...] = ()
    """What the handlers read of the cluster; the rights to register them are added."""
    folders: Mapping[str, Handler] = {}
    """Handlers served beside the webhooks, for all paths under theirs; who asks is the handler's affair."""
    endpoints: Mapping[str, Handler] = {}
    """Handlers by path, served beside the metrics to those whom the API server allows the path."""
    open_endpoints: Mapping[str, Handler] = {}
    """Handlers by path, served beside the probes to everybody."""
    variables: Mapping[str, str] = {}
    """Environment variables that the program has to have on a cluster."""
    init_gate: InitGate | None = None
    """Whether an init container of the operator ends, where kubelets are simulated and run no containers."""
    checks: Mapping[str, Check] = {}
    """What readiness depends on beside the manager's own checks, by name."""
    keeps: tuple[tuple[str, str, str, str], ...] = ()
    """Objects that the program keeps for everybody to read: API version, kind, name, namespace. They are of
    others' kinds and have no owner, so ``quarterdeck uninstall`` removes them."""
    can_be_limited: bool = False
    """Whether the operator heeds ``OperatorEnvironment.watch_namespaces``: installations of it that serve
    other namespaces do not disturb each other."""
    others: tuple[OperatorWebhooks, ...] = ()
    """More of the same, registered under other names."""


class Operator(Protocol):
    """One operator. It holds no state before ``setup``."""

    @property
    def name(self) -> str:
        """As in ``--operators`` and in the configuration file."""
        ...

    def definitions(self) -> Sequence[Mapping[str, Any]]:
        """Its CustomResourceDefinitions, ready to be applied."""
        ...

    def cached_kinds(self) -> Mapping[type[Resource], KindOptions]:
        """What the cache need not hold of a kind; mostly nothing."""
        ...

    def setup(self, manager: Manager, environment: OperatorEnvironment) -> OperatorWebhooks:
        """Add the controllers to a manager that has not started; returns the webhooks to be served."""
        ...


def installed_operators() -> dict[str, Operator]:
    """The operators of all installed distributions, by name."""
    from importlib.metadata import entry_points  # slow to load, and only programs ask

    found = {point.name: point.load()() for point in entry_points(group=ENTRY_POINTS)}
    return dict(sorted(found.items()))
