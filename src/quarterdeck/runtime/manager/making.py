"""From what a manager is given to what it works with: a client, event recorders, an elector."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from quarterdeck.api import Scheme
from quarterdeck.client import Client, Config, Observer
from quarterdeck.client.clock import Clock
from quarterdeck.runtime.contract import Elector, KeyElector, NoRecorder, Recorder, RecorderSource
from quarterdeck.runtime.manager.option import ManagerMetrics, ManagerOptions
from quarterdeck.runtime.metrics import RuntimeMetrics
from quarterdeck.runtime.trace import Tracer, trace_requests

if TYPE_CHECKING:
    from quarterdeck.runtime.election import LeaderElection


def connect(
    config: Config,
    scheme: Scheme | None,
    metrics: ManagerMetrics | None,
    tracer: Tracer,
    observer: Observer | None,
) -> Client:
    """A client whose requests are counted and traced; ``observer`` is told instead of the metrics."""
    ours = metrics if isinstance(metrics, RuntimeMetrics) else None
    if ours is not None and observer is None:
        observer = ours.observe_request
    return Client.connect(
        config,
        scheme=scheme,
        observer=trace_requests(tracer, observer),
        on_resolved=ours.observe_resolution if ours is not None and ours.has_client_details else None,
    )


def make_recorders(
    client: Client,
    options: ManagerOptions,
    metrics: ManagerMetrics | None,
    *,
    clock: Clock,
    rng: random.Random,
) -> Recorder | RecorderSource:
    """Events go to the cluster, unless the options say that there are none."""
    if not options.record_events:
        return NoRecorder()
    from quarterdeck.runtime.event import EventBroadcaster  # late: it needs the built-in kinds

    return EventBroadcaster(
        client,
        api=options.event_api,
        metrics=metrics if isinstance(metrics, RuntimeMetrics) else None,
        clock=clock,
        rng=rng,
    )


def choose_elector(
    given: "LeaderElection | Elector | KeyElector | None",
    config: Config | None,
    *,
    recorder: Callable[[], Recorder],
    metrics: ManagerMetrics | None,
    rng: random.Random,
) -> Elector | KeyElector | None:
    """The elector that is given, or one that campaigns as the settings say."""
    if given is None:
        return None
    from quarterdeck.runtime.election import LeaderElection, make_elector

    if not isinstance(given, LeaderElection):
        return given
    return make_elector(
        given,
        config,
        recorder=recorder(),
        metrics=metrics if isinstance(metrics, RuntimeMetrics) else None,
        rng=rng,
    )
