"""JobSets and their parts for tests."""

from __future__ import annotations

from typing import Any

from quarterdeck.api.k8s import Job
from quarterdeck.operators.jobset.logic.child import make_job
from quarterdeck.operators.jobset.logic.defaults import with_defaults
from quarterdeck.operators.jobset.logic.validation import creation_problems
from quarterdeck.operators.jobset.types import JobSet

__all__ = ["complaints", "document", "job_of", "jobset", "part"]


def part(name: str, **fields: Any) -> dict[str, Any]:
    """A ReplicatedJob."""
    pod = {"spec": {"containers": [{"name": "c", "image": "x"}], **fields.pop("pod", {})}}
    return {"name": name, "template": {"spec": {"template": pod, **fields.pop("job", {})}}, **fields}


def document(*parts: Any, name: str = "js", **spec: Any) -> dict[str, Any]:
    """A JobSet as a user writes it."""
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicatedJobs": list(parts) or [part("a")], **spec},
    }


def jobset(*parts: Any, name: str = "js", status: Any = None, **spec: Any) -> JobSet:
    """A JobSet as admission would store it."""
    made = document(*parts, name=name, **spec)
    made["metadata"]["uid"] = "u"
    return with_defaults(JobSet.from_dict({**made, "status": status or {}}))


def complaints(*parts: Any, name: str = "js", **spec: Any) -> list[str]:
    """What admission says about a new JobSet."""
    return [str(each) for each in creation_problems(jobset(*parts, name=name, **spec))]


def job_of(owner: JobSet, place: int = 0, index: int = 0, *, own_restarts: int = 0, **status: Any) -> Job:
    """A Job of the set, with a status."""
    made = make_job(owner, owner.spec.replicated_jobs[place], index, own_restarts=own_restarts)
    return Job.from_dict({**made.to_dict(), "status": status})
