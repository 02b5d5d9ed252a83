"""Torture: find the bugs of an operator by what goes wrong around it. See docs/torture.md.

    scene = Scene(subject=manager_subject(make_manager), crds=[Widget], pace=Pace.virtual())
    report = torture(scene, usual_workload(sample))
    assert not report.findings, as_text(report)

Layers: what runs there are and what is wrong in a state is pure (``perturbation``, ``workload``, ``schema``,
``picture``, ``oracle``, ``plan``, ``report``); ``subject``, ``scene`` and ``run`` do things; ``campaign``
puts them together.
"""

from quarterdeck.testing.torture.campaign import Campaign, TortureError, torture
from quarterdeck.testing.torture.finding import ORACLES, Finding
from quarterdeck.testing.torture.perturbation import PATTERNS, Perturbation, Seed, WritePoint
from quarterdeck.testing.torture.report import FORMATS, Report, as_html, as_json, as_junit, as_text
from quarterdeck.testing.torture.scene import Pace, Scene
from quarterdeck.testing.torture.schema import Change, changes_of, is_namespaced, schema_of
from quarterdeck.testing.torture.subject import (
    OPERATOR,
    Subject,
    command_subject,
    manager_subject,
    operator_subject,
)
from quarterdeck.testing.torture.workload import Step, Workload, read_workload, usual_workload

__all__ = [
    "FORMATS",
    "OPERATOR",
    "ORACLES",
    "PATTERNS",
    "Campaign",
    "Change",
    "Finding",
    "Pace",
    "Perturbation",
    "Report",
    "Scene",
    "Seed",
    "Step",
    "Subject",
    "TortureError",
    "Workload",
    "WritePoint",
    "as_html",
    "as_json",
    "as_junit",
    "as_text",
    "changes_of",
    "command_subject",
    "is_namespaced",
    "manager_subject",
    "operator_subject",
    "read_workload",
    "schema_of",
    "torture",
    "usual_workload",
]
