"""Health: what is wrong with a cluster, how bad it is, since when, and what to do. Pure.

``see`` keeps of an object what matters, once for every change of it; ``assess`` makes a list of problems of
everything that was seen, at a moment::

    world = {"pods": {"team/a": see(pods, obj), …}, …}
    for problem in assess(world, Observer(), datetime.now(UTC)).problems:
        print(problem.severity, problem.text, "to do:", problem.remedy)

The page, ``quarterdeck top``, ``status`` and ``check`` show the same list. Nothing here reads a cluster or a
clock; objects come as they are on the wire, and what is missing in them is no error.
"""

from .assessment import Assessment, Observer, Sight, assess
from .kind import KINDS, ObservedKind, Seen, see
from .problem import SEVERITIES, Problem, Severity, Subject
from .relation import World
from .situation import SITUATIONS, Situation

__all__ = [
    "KINDS",
    "SEVERITIES",
    "SITUATIONS",
    "Assessment",
    "ObservedKind",
    "Observer",
    "Problem",
    "Seen",
    "Severity",
    "Sight",
    "Situation",
    "Subject",
    "World",
    "assess",
    "see",
]
