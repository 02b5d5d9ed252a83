"""Seeds of ``chaosworld``, each in a process of its own in which nothing depends on luck.

    PYTHONHASHSEED=0 python -m tests.faults.chaosseed 7 8 9

Virtual time alone does not make two runs alike: UIDs, generated names and jitter are random, and a few places
measure how long they have worked. All of that follows from the seed here, even before anything else is
loaded. A line of JSON tells what became of each seed.
"""

from __future__ import annotations

import gc
import logging
import os
import random
import sys
import time
from typing import Any

_stream = random.Random(0)


class _Seeded(random.Random):
    """Without a seed of its own it takes one from the stream."""

    def __init__(self, x: Any = None) -> None:
        super().__init__(_stream.random() if x is None else x)


def _leave_nothing_to_luck() -> None:
    random.seed(0)
    vars(os)["urandom"] = _stream.randbytes
    vars(random)["Random"] = _Seeded
    vars(time)["perf_counter"] = lambda: 0.0


def main() -> None:
    logging.disable(logging.CRITICAL)
    _leave_nothing_to_luck()
    import msgspec

    from quarterdeck.cli.collector import relax_collector
    from tests.faults.chaosworld import rehearse, tell

    relax_collector()  # it took a third of a seed's time
    rehearse()
    gc.collect()
    gc.freeze()  # what all seeds have in common stays out of their collections, and unwritten to
    for word in sys.argv[1:]:
        child = os.fork()
        if child == 0:
            random.seed(int(word))
            _stream.seed(int(word))
            os.write(1, msgspec.json.encode(tell(int(word))) + b"\n")
            os._exit(0)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
