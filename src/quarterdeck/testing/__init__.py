"""The test kit: clusters in milliseconds, virtual time, faults on demand. See docs/testing.md.

Everything here works with any test runner (``run`` is ``asyncio.run`` on virtual time); the module
``quarterdeck_pytest`` is the plugin for pytest, which loads it.
"""

from typing import TYPE_CHECKING

from quarterdeck.api._moved import moved_names as _moved_names
from quarterdeck.client.call import WRITES
from quarterdeck.client.wrapper import intercept, raise_once
from quarterdeck.testing.assertion import (
    assert_matches,
    consistently,
    differences,
    eventually,
    has_condition,
    run_until_idle,
    what_is_left,
)
from quarterdeck.testing.clock import EPOCH, Deadlock, Endless, VirtualLoop, run
from quarterdeck.testing.cluster import Definition, TestCluster
from quarterdeck.testing.election import LoopElector
from quarterdeck.testing.fault import (
    READS,
    Break,
    CutWatch,
    DelayEvents,
    FaultPlan,
    FaultRule,
    Latency,
    LoseAnswer,
    LoseEvents,
    Refuse,
    RefuseConnection,
    RepeatEvents,
    RequestTarget,
    SilenceWatch,
    WatchError,
)
from quarterdeck.testing.gateway import Gateway
from quarterdeck.testing.interceptor import delay, lose_answer, raise_times
from quarterdeck.testing.interleaving import ends_alike, shuffled
from quarterdeck.testing.leak import Leak, Leftovers, left_tasks
from quarterdeck.testing.link import Exchange, Link
from quarterdeck.testing.recorder import EventLog, LoggedEvent
from quarterdeck.testing.running import ManagerRun, OperatorRun
from quarterdeck.testing.served import served_kubeconfig
from quarterdeck.testing.webhook import ServedWebhooks, install_webhooks, localized, serve_webhooks

__all__ = [
    "EPOCH",
    "READS",
    "WRITES",
    "Break",
    "CutWatch",
    "Deadlock",
    "Definition",
    "DelayEvents",
    "Endless",
    "EventLog",
    "Exchange",
    "FaultPlan",
    "FaultRule",
    "Gateway",
    "Latency",
    "Leak",
    "Leftovers",
    "Link",
    "LoggedEvent",
    "LoopElector",
    "LoseAnswer",
    "LoseEvents",
    "ManagerRun",
    "OperatorRun",
    "Refuse",
    "RefuseConnection",
    "RepeatEvents",
    "RequestTarget",
    "ServedWebhooks",
    "SilenceWatch",
    "TestCluster",
    "VirtualLoop",
    "WatchError",
    "assert_matches",
    "consistently",
    "delay",
    "differences",
    "ends_alike",
    "eventually",
    "has_condition",
    "install_webhooks",
    "intercept",
    "left_tasks",
    "localized",
    "lose_answer",
    "raise_once",
    "raise_times",
    "run",
    "run_until_idle",
    "serve_webhooks",
    "served_kubeconfig",
    "shuffled",
    "what_is_left",
]

if not TYPE_CHECKING:
    __getattr__ = _moved_names(__name__, {"testing.fault": "Rule=FaultRule"})
