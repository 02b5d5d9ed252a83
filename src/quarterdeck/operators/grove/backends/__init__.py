"""The contract between gangs and schedulers.

    contract   what a backend is: five methods, and capabilities that none must have
    interface  versions of that contract, and how backends of an earlier one are taken
    registry   which backends there are: built in, registered, or found by entry points
    manager    which of them are at work, and whose a gang is
    guard      what a backend may not do, enforced around every call
    report     condition, events and metrics of what they do
    kube       the default scheduler
    kai        KAI
    conformance  a test kit for those who write one

A backend is a class in any installed distribution::

    [project.entry-points."quarterdeck.scheduler_backends"]
    my-scheduler = "my_package:MyBackend"
"""

from .contract import (
    INTERFACE_VERSION,
    Backend,
    BackendFactory,
    HasCapabilities,
    HealthChecked,
    HookContext,
    PodDraft,
    PodGangStatusObserver,
    SchedulerBackend,
    TopologyAware,
    ValidatesPodCliqueSet,
    Versioned,
)
from .error import BackendAlreadyRegistered, BackendError, BackendNotFound, BackendViolation
from .manager import BackendManager, get, initialize, prepare_pod
from .registry import BackendRegistry, backend, default_registry, get_factory, register, registered_names

__all__ = [
    "INTERFACE_VERSION",
    "Backend",
    "BackendAlreadyRegistered",
    "BackendError",
    "BackendFactory",
    "BackendManager",
    "BackendNotFound",
    "BackendRegistry",
    "BackendViolation",
    "HasCapabilities",
    "HealthChecked",
    "HookContext",
    "PodDraft",
    "PodGangStatusObserver",
    "SchedulerBackend",
    "TopologyAware",
    "ValidatesPodCliqueSet",
    "Versioned",
    "backend",
    "default_registry",
    "get",
    "get_factory",
    "initialize",
    "prepare_pod",
    "register",
    "registered_names",
]
