"""A small program with an informer under uvloop: `python watcher.py KUBECONFIG SILENCE`.

It prints the name of each config map it learns about, and `warning …` for every warning of the informer.
"""

from __future__ import annotations

import logging
import sys

import uvloop

from quarterdeck.api.k8s.core import ConfigMap
from quarterdeck.client import Config
from quarterdeck.runtime import Context, Manager
from quarterdeck.runtime.cache import CacheOptions


class Printed(logging.Handler):
    """Warnings on standard output, in order with what is learned."""

    def emit(self, record: logging.LogRecord) -> None:
        print("warning", record.getMessage(), flush=True)


async def main(kubeconfig: str, silence: str) -> int:
    logging.getLogger("quarterdeck.runtime.cache").addHandler(Printed(logging.WARNING))

    async def learn(ctx: Context[ConfigMap]) -> None:
        print(ctx.key.name, flush=True)

    options = CacheOptions(silence=float(silence))
    async with Manager(Config.load(kubeconfig), cache=options) as manager:
        manager.add(manager.controller(ConfigMap, name="learner").build(learn))
        return await manager.run()


if __name__ == "__main__":
    sys.exit(uvloop.run(main(*sys.argv[1:])))
