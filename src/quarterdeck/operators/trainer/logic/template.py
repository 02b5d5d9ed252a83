"""The pods of a JobSet, as plain documents that may be changed in place.

Lists of Kubernetes that have a key are *upserted*: an element with the same key is replaced where it stands,
others are appended, nothing is doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from quarterdeck.api.jsonobject import Json


def replicated_jobs(spec: Json) -> list[Json]:
    """The replicated jobs of a JobSetSpec."""
    jobs: list[Json] = spec.setdefault("replicatedJobs", [])
    return jobs


def job_spec(job: Json) -> Json:
    """The JobSpec of a replicated job."""
    spec: Json = job.setdefault("template", {}).setdefault("spec", {})
    return spec


def job_labels(job: Json) -> Json:
    """The labels that its Jobs get; not to be changed."""
    labels: Json = ((job.get("template") or {}).get("metadata") or {}).get("labels") or {}
    return labels


def pod_template(job: Json) -> Json:
    """The pod template of a replicated job."""
    template: Json = job_spec(job).setdefault("template", {})
    return template


def pod_spec(job: Json) -> Json:
    """The pod spec of a replicated job."""
    spec: Json = pod_template(job).setdefault("spec", {})
    return spec


def container_of(job: Json, name: str) -> Json | None:
    """The container of a name; init containers do not count."""
    containers: list[Json] = pod_spec(job).get("containers") or []
    return next((each for each in containers if each.get("name") == name), None)


def any_container_of(job: Json, name: str) -> Json | None:
    """The container of a name, or else the init container."""
    found = container_of(job, name)
    if found is not None:
        return found
    return next(
        (each for each in pod_spec(job).get("initContainers") or () if each.get("name") == name), None
    )


def subdomain_of(spec: Json, otherwise: str) -> str:
    """The subdomain of the pods of a JobSetSpec."""
    subdomain: str = (spec.get("network") or {}).get("subdomain") or otherwise
    return subdomain


def upsert(items: list[Json], element: Json, same: Callable[[Json], bool]) -> None:
    """Replace the first element that ``same`` accepts, or append."""
    for place, known in enumerate(items):
        if same(known):
            items[place] = element
            return
    items.append(element)


def upsert_env(container: Json, entries: Iterable[Json]) -> None:
    """Variables, by name; an entry is replaced as a whole, so that no ``valueFrom`` stays beside a value."""
    for entry in entries:
        name = entry["name"]
        upsert(container.setdefault("env", []), entry, lambda known, name=name: known.get("name") == name)  # type: ignore[misc]


def upsert_port(container: Json, number: int) -> None:
    """A port, by number; what else is said about it stays."""
    ports: list[Json] = container.setdefault("ports", [])
    if not any(port.get("containerPort") == number for port in ports):
        ports.append({"containerPort": number})


def upsert_mount(container: Json, mount: Json) -> None:
    """A mount, by path."""
    path = mount["mountPath"]
    upsert(container.setdefault("volumeMounts", []), mount, lambda known: known.get("mountPath") == path)


def upsert_volume(job: Json, volume: Json) -> None:
    """A volume, by name."""
    name = volume["name"]
    upsert(pod_spec(job).setdefault("volumes", []), volume, lambda known: known.get("name") == name)
