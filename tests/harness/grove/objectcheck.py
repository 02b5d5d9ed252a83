"""What a grove case expects of gangs and other objects."""

from __future__ import annotations

from typing import Any, Final

from quarterdeck.operators.grove import names
from tests.harness.words import refuse_unknown, words

from .check import check_names, check_objects, check_pod_gangs
from .evidence import Check, Evidence, Json, Lines
from .match import contains, differs, split_ref

__all__ = ["OBJECT_CHECKS"]


_CONDITION: Final = words("object", "type", "status", "reason", "message", "messageContains", "absent")
_LAST_ERROR: Final = words("object", "code", "descriptionContains", "messageContains")


async def _gang(wanted: Json, evidence: Evidence) -> Lines:
    return await check_pod_gangs(
        {wanted["name"]: {k: v for k, v in wanted.items() if k != "name"}}, evidence.objects
    )


async def _gang_condition(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for each in wanted if isinstance(wanted, list) else [wanted]:
        rest = {key: value for key, value in each.items() if key != "name"}
        lines += await _condition({**rest, "object": f"PodGang/{each['name']}"}, evidence)
    return lines


async def _gangs_initialized(wanted: bool, evidence: Evidence) -> Lines:
    found = {
        gang["metadata"]["name"]: any(
            each["type"] == "Initialized" and each["status"] == "True"
            for each in (gang.get("status") or {}).get("conditions") or ()
        )
        for gang in await evidence.objects.items("PodGang")
    }
    if not found:
        return ["allPodGangsInitialized: there is no PodGang"]
    return [] if all(found.values()) is wanted else differs("allPodGangsInitialized", wanted, found)


async def _gang_phase(wanted: dict[str, str], evidence: Evidence) -> Lines:
    lines: Lines = []
    for name, phase in wanted.items():
        gang = await evidence.objects.need("PodGang", name)
        lines += contains(f"phase of {name}", phase, (gang.get("status") or {}).get("phase"))
    return lines


async def _gang_label(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for name, labels in wanted.items():
        gang = await evidence.objects.need("PodGang", name)
        lines += contains(f"labels of {name}", labels, gang["metadata"].get("labels"))
    return lines


async def _references_sorted(name: str, evidence: Evidence) -> Lines:
    gang = await evidence.objects.need("PodGang", name)
    lines: Lines = []
    for group in gang["spec"]["podgroups"]:
        found = [reference["name"] for reference in group["podReferences"]]
        if not found or found != sorted(found):
            lines += differs(f"references of {group['name']}", sorted(found), found)
    return lines


async def _condition(wanted: Json, evidence: Evidence) -> Lines:
    refuse_unknown(wanted, _CONDITION, "condition")
    found = await evidence.objects.need(*split_ref(wanted["object"]))
    conditions = (found.get("status") or {}).get("conditions") or ()
    present = next((each for each in conditions if each["type"] == wanted["type"]), None)
    what = f"condition {wanted['type']} of {wanted['object']}"
    if wanted.get("absent"):
        return [] if present is None else differs(what, "nothing", present)
    if present is None:
        return [f"{what} is not there"]
    lines = [
        line
        for word in ("status", "reason", "message")
        if word in wanted
        for line in contains(f"{what}: {word}", wanted[word], present.get(word))
    ]
    part = wanted.get("messageContains")
    if part is not None and part not in present.get("message", ""):
        lines += differs(f"{what}: message", part, present.get("message"))
    return lines


async def _conditions(wanted: list[Json], evidence: Evidence) -> Lines:
    return [line for each in wanted for line in await _condition(each, evidence)]


async def _conditions_absent(wanted: list[Json], evidence: Evidence) -> Lines:
    return [line for each in wanted for line in await _condition({**each, "absent": True}, evidence)]


async def _status_fields(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = await evidence.objects.need(*split_ref(ref))
        lines += contains(f"status of {ref}", fields, found.get("status") or {})
    return lines


async def _status_absent(wanted: dict[str, Any], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = (await evidence.objects.need(*split_ref(ref))).get("status") or {}
        for field in fields if isinstance(fields, list) else [fields]:
            if found.get(field) not in (None, [], {}):
                lines += differs(f"{field} of {ref}", "nothing", found[field])
    return lines


async def _spec_replicas(wanted: dict[str, int], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, count in wanted.items():
        found = await evidence.objects.need(*split_ref(ref))
        lines += contains(f"spec.replicas of {ref}", count, found["spec"].get("replicas", 0))
    return lines


async def _spec_fields(wanted: dict[str, Json], evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref, fields in wanted.items():
        found = await evidence.objects.need(*split_ref(ref))
        lines += contains(f"spec of {ref}", fields, found.get("spec") or {})
    return lines


async def _absent(wanted: list[str], evidence: Evidence) -> Lines:
    return [
        f"{ref} is still there" for ref in wanted if await evidence.objects.read(*split_ref(ref)) is not None
    ]


async def _present(wanted: list[str], evidence: Evidence) -> Lines:
    return [f"{ref} is not there" for ref in wanted if await evidence.objects.read(*split_ref(ref)) is None]


async def _names(wanted: dict[str, list[str]], evidence: Evidence) -> Lines:
    return await check_names(wanted, evidence.objects)


async def _kind_count(wanted: dict[str, int], evidence: Evidence) -> Lines:
    selector = f"{names.MANAGED_BY}={names.OPERATOR}"
    lines: Lines = []
    for kind, count in wanted.items():
        lines += contains(f"number of {kind}", count, len(await evidence.objects.items(kind, selector)))
    return lines


async def _objects(wanted: list[Json], evidence: Evidence) -> Lines:
    return await check_objects(wanted, evidence.objects)


async def _pod_gangs(wanted: Json, evidence: Evidence) -> Lines:
    return await check_pod_gangs(wanted, evidence.objects)


async def _update_ended(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for ref in wanted if isinstance(wanted, list) else [wanted]:
        found = await evidence.objects.need(*split_ref(ref))
        progress = (found.get("status") or {}).get("updateProgress") or {}
        if not progress.get("updateEndedAt"):
            lines.append(f"the update of {ref} has not ended: {progress}")
    return lines


async def _last_errors(wanted: Any, evidence: Evidence) -> Lines:
    lines: Lines = []
    for each in wanted if isinstance(wanted, list) else [wanted]:
        refuse_unknown(each, _LAST_ERROR, "lastErrors")
        found = (await evidence.objects.need(*split_ref(each["object"]))).get("status") or {}
        errors = found.get("lastErrors") or []
        part = each.get("descriptionContains", each.get("messageContains", ""))
        fits = [
            error
            for error in errors
            if error["code"] == each.get("code", error["code"]) and part in error["description"]
        ]
        if not fits:
            lines += differs(f"lastErrors of {each['object']}", each, errors)
    return lines


OBJECT_CHECKS: Final[dict[str, Check]] = {
    "podGang": _gang,
    "podGangs": _pod_gangs,
    "podGangCondition": _gang_condition,
    "podGangPhase": _gang_phase,
    "allPodGangsInitialized": _gangs_initialized,
    "kindCount": _kind_count,
    "podGangLabel": _gang_label,
    "podReferencesSortedByName": _references_sorted,
    "conditions": _conditions,
    "conditionsAbsent": _conditions_absent,
    "statusFields": _status_fields,
    "statusFieldAbsent": _status_absent,
    "specReplicas": _spec_replicas,
    "specFields": _spec_fields,
    "absent": _absent,
    "present": _present,
    "names": _names,
    "objects": _objects,
    "updateEnded": _update_ended,
    "lastErrors": _last_errors,
}
