"""From settings to an elector."""

import random

from quarterdeck.client import Config
from quarterdeck.errors import ConfigError
from quarterdeck.runtime.contract import Elector, KeyElector, Recorder
from quarterdeck.runtime.election.options import LeaderElection
from quarterdeck.runtime.election.thread import ThreadedElector, ThreadedShardedElector, election_client
from quarterdeck.runtime.metrics import RuntimeMetrics


def make_elector(
    options: LeaderElection,
    config: Config | None,
    *,
    recorder: Recorder,
    metrics: RuntimeMetrics | None,
    rng: random.Random,
) -> Elector | KeyElector:
    """The elector that campaigns as the settings say, on a connection of its own."""
    if config is None:
        raise ConfigError(
            "leader election needs a connection of its own: give the manager a Config, or an elector"
        )
    connect = election_client(config, options)
    kind = ThreadedElector if options.shards == 1 else ThreadedShardedElector
    return kind(options, connect, recorder=recorder, metrics=metrics, rng=rng)
