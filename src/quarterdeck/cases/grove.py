"""The kinds of grove cases.

Cases about admission run on the server under test; all others on an embedded server in this process, on
virtual time, because they wait for minutes. All cases use the same names, so they run one after the other.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final

from quarterdeck.api import Key, ObjectMeta
from quarterdeck.api.k8s import ConfigMap, Pod
from quarterdeck.errors import ConfigError, QuarterdeckError
from quarterdeck.operators.grove import names
from quarterdeck.operators.grove.backends import HookContext
from quarterdeck.operators.grove.backends.example import ExampleBackend
from quarterdeck.operators.grove.backends.guard import awaited, guarded_client
from quarterdeck.operators.grove.configuration import effective_document, load_configuration
from quarterdeck.operators.grove.controllers import gang_controller
from quarterdeck.operators.grove.types import PodGang
from quarterdeck.runtime._logfield import get_logger
from quarterdeck.testing import EventLog

from .case import Case, CaseFailure
from .grove_check import check_names, check_objects, check_pod_gangs, check_pods, check_starts_after
from .grove_expect import check_event, check_metric
from .grove_guard import empty_registry, make_office, make_webhooks
from .grove_history import History
from .grove_match import contains, controller_of, differs
from .grove_nodes import Machines
from .grove_operator import OperatorRun, Refusal
from .grove_stage import Stage, stage_of
from .grove_step import Steps
from .grove_world import Outcome, World
from .registry import Kind
from .run import Run

Json = dict[str, Any]
Lines = list[str]

_LANE: Final = "grove"
_NAMESPACE: Final = "default"


class _GroveKind:
    """What the kinds share: one lane, a clean server, and no word that is not understood."""

    given_keys: frozenset[str] = frozenset({"config", "objects"})
    when_keys: frozenset[str] = frozenset()
    then_keys: frozenset[str] = frozenset()
    is_private = True
    """Runs on the embedded server whatever the server under test is."""

    def lane(self, case: Case) -> str:
        return _LANE

    def run(self, case: Case, run: Run) -> None:
        unknown = [f"given.{key}" for key in case.given.keys() - self.given_keys]
        unknown += [f"when.{key}" for key in case.when.keys() - self.when_keys]
        unknown += [f"then.{key}" for key in case.then.keys() - self.then_keys]
        if unknown:
            raise CaseFailure(*(f"{word} is not understood" for word in sorted(unknown)))
        stage = stage_of(run, is_private=self.is_private)
        stage.play(self._play(case, stage))

    async def _play(self, case: Case, stage: Stage) -> None:
        world = World(stage)
        try:
            lines = await self.check(case, stage, world)
        finally:
            await world.clear()
        if lines:
            raise CaseFailure(*lines)

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        """What does not hold."""
        raise NotImplementedError


# -- admission -------------------------------------------------------------------------------------------


class AdmissionKind(_GroveKind):
    """A write, with schema and webhooks in force."""

    when_keys = frozenset({"create", "update"})
    then_keys = frozenset({"allowed", "messageContains", "rejectedBy", "storedContains", "warningsContain"})
    is_private = False

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        office = await make_office(stage.client, case.given.get("config") or {})
        stage.answer_with(make_webhooks(office, stage.client))
        for document in case.given.get("objects") or ():
            await world.make(document)
        if "update" in case.when:
            outcome = await world.replace(case.when["update"])
        else:
            outcome = await world.create(case.when["create"])
        return _judge_write(case.then, outcome)


def _judge_write(then: Json, outcome: Outcome) -> Lines:
    if then["allowed"] is outcome.is_refused:
        return [f"allowed: expected {then['allowed']}, found {outcome.code}: {outcome.message}"]
    lines = [
        line
        for text in then.get("messageContains") or ()
        if text not in outcome.message
        for line in differs("message", text, outcome.message)
    ]
    layer = "webhook" if outcome.message.startswith("admission webhook") else "schema"
    wanted = then.get("rejectedBy", "any")
    if outcome.is_refused and wanted not in ("any", layer):
        lines += differs("rejectedBy", wanted, f"{layer}: {outcome.message}")
    lines += contains("stored", then.get("storedContains") or {}, outcome.document)
    lines += [
        f"no warning contains {text!r}: {outcome.warnings}"
        for text in then.get("warningsContain") or ()
        if not any(text in warning for warning in outcome.warnings)
    ]
    return lines


class AuthorizerKind(_GroveKind):
    """One request to the authorizer, over the wire."""

    given_keys = frozenset({"config", "objects", "operatorUser"})
    when_keys = frozenset({"user", "operation", "object", "newObject"})
    then_keys = frozenset({"allowed", "messageContains", "warningsContain", "code"})
    is_private = False

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        given, when, then = case.given, case.when, case.then
        office = await make_office(stage.client, given.get("config") or {})
        exempt = office.configuration.authorizer.exempt_service_account_user_names
        stage.answer_with(make_webhooks(office, stage.client, (given["operatorUser"], *exempt)))
        for document in given.get("objects") or ():
            await world.make(document)
        response = await _ask(stage, names.AUTHORIZER_PATH, _review(when))
        status = response.get("status") or {}
        lines: Lines = []
        if response.get("allowed") is not then["allowed"]:
            return differs("allowed", then["allowed"], response)
        if "code" in then:
            lines += contains("code", then["code"], status.get("code"))
        lines += [
            f"the message does not contain {text!r}: {status.get('message')}"
            for text in then.get("messageContains") or ()
            if text not in status.get("message", "")
        ]
        return lines + [
            f"no warning contains {text!r}: {response.get('warnings')}"
            for text in then.get("warningsContain") or ()
            if not any(text in warning for warning in response.get("warnings") or ())
        ]


def _review(when: Json) -> Json:
    document = when["object"]
    group, _, version = document["apiVersion"].rpartition("/")
    kind = {"group": group, "version": version, "kind": document["kind"]}
    resource = {"group": group, "version": version, "resource": f"{document['kind'].lower()}s"}
    is_create = when["operation"] == "CREATE"
    request = {
        "uid": "case",
        "kind": kind,
        "resource": resource,
        "name": document["metadata"].get("name", ""),
        "namespace": document["metadata"].get("namespace", ""),
        "operation": when["operation"],
        "userInfo": {"username": when["user"], "groups": ["system:authenticated"]},
        "object": document if is_create else when.get("newObject", document),
        "oldObject": None if is_create else document,
        "dryRun": False,
        "options": None,
    }
    if when["operation"] == "DELETE":
        request["object"] = None
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


async def _ask(stage: Stage, path: str, review: Json) -> Json:
    """POST a review to the webhooks and return the response."""
    context = ssl.create_default_context(cadata=stage.webhook_authority.decode())
    request = urllib.request.Request(  # noqa: S310  our own server, over https
        f"{stage.webhook_url}{path}",
        data=json.dumps(review).encode(),
        headers={"Content-Type": "application/json"},
        method="POST",
    )

    def post() -> Json:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:  # noqa: S310
            document: Json = json.loads(answer.read())
            return document

    document = await asyncio.to_thread(post)
    response: Json = document["response"]
    return response


# -- configuration and start -----------------------------------------------------------------------------


class ConfigKind(_GroveKind):
    """Loading a configuration."""

    given_keys = frozenset({"testBackends"})
    when_keys = frozenset({"config"})
    then_keys = frozenset({"valid", "messageContains", "effectiveContains"})

    def run(self, case: Case, run: Run) -> None:
        registry = empty_registry()
        then = case.then
        try:
            configuration = load_configuration(case.when["config"], registry)
        except ConfigError as error:
            if then["valid"]:
                raise CaseFailure(f"expected to be valid, found {error}") from error
            missing = [text for text in then.get("messageContains") or () if text not in str(error)]
            if missing:
                raise CaseFailure(*(f"{text!r} is not in {error}" for text in missing)) from error
            return
        if not then["valid"]:
            raise CaseFailure("expected an error, and there is none")
        lines = contains(
            "configuration", then.get("effectiveContains") or {}, effective_document(configuration)
        )
        if lines:
            raise CaseFailure(*lines)


class StartupKind(_GroveKind):
    """The start of the operator."""

    given_keys = frozenset({"config", "testBackends", "previousActiveBackend", "objects", "env"})
    when_keys = frozenset({"startOperator", "registerOnly"})
    then_keys = frozenset(
        {
            "running",
            "activeBackend",
            "metric",
            "exitCodeNonZero",
            "exitCode",
            "stderrContains",
            "event",
            "condition",
            "registrationError",
        }
    )

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        given, then = case.given, case.then
        previous = given.get("previousActiveBackend")
        if previous:
            metadata = ObjectMeta(
                name=names.STATUS_CONFIG_MAP,
                namespace=_NAMESPACE,
                labels={names.MANAGED_BY: names.OPERATOR},
            )
            await stage.client.create(ConfigMap(metadata=metadata, data={"activeBackend": previous}))
        for document in given.get("objects") or ():
            await world.make(document)
        operator = OperatorRun(stage, given, environ=given.get("env"))
        lines = _judge_registration(then.get("registrationError"), operator.refused)
        if case.when.get("registerOnly"):
            return lines
        refusal: Refusal | None = None
        try:
            await operator.start(given.get("config") or {})
        except Refusal as error:
            refusal = error
        try:
            return lines + await self._judge(then, operator, refusal, world)
        finally:
            await operator.stop()

    async def _judge(self, then: Json, operator: OperatorRun, refusal: Refusal | None, world: World) -> Lines:
        lines: Lines = []
        if then.get("running", True) is (refusal is not None):
            return [f"running: expected {then.get('running')}, found {refusal or 'a running operator'}"]
        if then.get("exitCodeNonZero") and (refusal is None or not refusal.exit_code):
            lines.append("the exit code is 0")
        if "exitCode" in then:
            lines += contains("exit code", then["exitCode"], refusal.exit_code if refusal else 0)
        lines += [
            f"stderr does not contain {text!r}: {refusal}"
            for text in then.get("stderrContains") or ()
            if text not in str(refusal)
        ]
        status = await world.read("ConfigMap", names.STATUS_CONFIG_MAP)
        data = (status or {}).get("data") or {}
        if "activeBackend" in then:
            lines += contains("active backend", then["activeBackend"], data.get("activeBackend"))
        if "condition" in then:
            wanted = then["condition"]
            conditions = {each["type"]: each for each in json.loads(data.get("conditions", "[]"))}
            lines += contains("condition", wanted, conditions.get(wanted["type"]))
        if "event" in then:
            lines += check_event(then["event"], operator.events.events)
        if "metric" in then:
            lines += check_metric(then["metric"], operator.metrics.registry.expose().decode())
        return lines


def _judge_registration(wanted: Json | None, refused: list[tuple[int, str]]) -> Lines:
    if wanted is None:
        return [f"test backend {index} was refused: {text}" for index, text in refused]
    fits = any(index == wanted["index"] and wanted["contains"] in text for index, text in refused)
    return [] if fits else differs("registrationError", wanted, refused)


# -- backends --------------------------------------------------------------------------------------------


class PrepareKind(_GroveKind):
    """One pod through the active backend."""

    given_keys = frozenset({"config", "exampleBackend"})
    when_keys = frozenset({"pod"})
    then_keys = frozenset(
        {"schedulerName", "annotations", "labels", "annotationsContain", "labelsContain", "errorContains"}
    )

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        config, registry = case.given.get("config") or {}, empty_registry()
        if case.given.get("exampleBackend"):
            registry.register(config["schedulerName"], ExampleBackend)
        office = await make_office(stage.client, config, registry)
        then = case.then
        try:
            pod = office.backends.prepare_pod(Pod.from_dict(case.when["pod"])).to_dict()
        except QuarterdeckError as error:
            wanted = then.get("errorContains")
            return [] if wanted and wanted in str(error) else differs("the error", wanted, str(error))
        if "errorContains" in then:
            return differs("the error", then["errorContains"], "nothing")
        lines: Lines = []
        if "schedulerName" in then:
            lines += contains("schedulerName", then["schedulerName"], pod["spec"].get("schedulerName"))
        for field in ("annotations", "labels"):
            found = pod["metadata"].get(field) or {}
            if field in then and found != then[field]:
                lines += differs(field, then[field], found)
            lines += contains(field, then.get(f"{field}Contain") or {}, found)
        return lines


class SyncKind(_GroveKind):
    """One gang through the active backend."""

    when_keys = frozenset(
        {"syncPodGang", "deletePodGroupFirst", "thenDeletePodGang", "thenPatchPodGang", "thenPatchPodGroup"}
    )
    then_keys = frozenset(
        {
            "podGroup",
            "podGroupAbsent",
            "errorContains",
            "noError",
            "apiWrites",
            "repeat",
            "podGroupResourceVersionUnchangedAfterFirst",
            "podGangAbsent",
            "podGangAnnotationsContain",
            "event",
        }
    )

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        self._events = EventLog()
        office = await make_office(stage.client, case.given.get("config") or {}, recorder=self._events)
        stage.answer_with(make_webhooks(office, stage.client))
        for document in case.given.get("objects") or ():
            await world.make(document)
        gang = await world.make(await _owned(case.when["syncPodGang"], world))
        name = gang["metadata"]["name"]
        if case.when.get("thenDeletePodGang"):
            return await self._delete(case, stage, world, office, name)
        link = stage.cluster.link(name="backend")
        backend = office.backends.get()
        assert backend is not None
        hook = HookContext(guarded_client(link.client, backend.name), get_logger(__name__))
        error, versions = "", []
        for turn in range(case.then.get("repeat", 1)):
            if turn == 0 or "thenPatchPodGang" not in case.when:
                error = await self._sync(backend, hook, stage, name)
            versions.append(await _version(world, name))
        for word, kind in (("thenPatchPodGang", "PodGang"), ("thenPatchPodGroup", "PodGroup")):
            if word in case.when:
                await world.patch(kind, name, case.when[word])
                error = await self._sync(backend, hook, stage, name)
        return await self._judge(case.then, world, name, error, versions, len(link.writes))

    async def _sync(self, backend: Any, hook: HookContext, stage: Stage, name: str) -> str:
        gang = await stage.cluster.client.get(PodGang, name, _NAMESPACE)
        try:
            await awaited(backend.sync_pod_gang(hook, gang))
        except QuarterdeckError as failure:
            return str(failure)
        return ""

    async def _delete(self, case: Case, stage: Stage, world: World, office: Any, name: str) -> Lines:
        key, error = Key(_NAMESPACE, name), ""
        try:
            await stage.cluster.reconcile_once(gang_controller(office), key)
            if case.when.get("deletePodGroupFirst"):
                await world.remove(world.path("PodGroup", name))
            await world.request("DELETE", world.path("PodGang", name))
            await stage.cluster.reconcile_once(gang_controller(office), key)
        except QuarterdeckError as failure:
            error = str(failure)
        return await self._judge(case.then, world, name, error, [], 0)

    async def _judge(
        self, then: Json, world: World, name: str, error: str, versions: list[str], writes: int
    ) -> Lines:
        wanted = then.get("errorContains")
        if (wanted is None) is bool(error) or (wanted or "") not in error:
            return differs("the error", wanted, error)
        group = await world.read("PodGroup", name)
        lines: Lines = []
        if then.get("podGroupAbsent") and group is not None:
            lines.append(f"PodGroup {name} is there")
        if "podGroup" in then:
            lines += _judge_group(then["podGroup"], group)
        if "apiWrites" in then:
            lines += contains("writes", then["apiWrites"], writes)
        if then.get("podGroupResourceVersionUnchangedAfterFirst") and len(set(versions)) != 1:
            lines.append(f"the PodGroup was written again: {versions}")
        gang = await world.read("PodGang", name)
        if then.get("podGangAbsent") and gang is not None:
            lines.append(f"PodGang {name} is there")
        if "podGangAnnotationsContain" in then:
            found = (gang or {}).get("metadata", {}).get("annotations") or {}
            lines += contains("annotations", then["podGangAnnotationsContain"], found)
        if "event" in then:
            lines += check_event(then["event"], self._events.events)
        return lines


def _judge_group(wanted: Json, group: Json | None) -> Lines:
    if group is None:
        return ["there is no PodGroup"]
    metadata = dict(wanted.get("metadata") or {})
    owner = metadata.pop("controllerOwner", None)
    lines = contains("PodGroup", {**wanted, "metadata": metadata}, group)
    if owner is not None and controller_of(group) != owner:
        lines += differs("controller of the PodGroup", owner, controller_of(group))
    return lines


async def _version(world: World, name: str) -> str:
    group = await world.read("PodGroup", name)
    return str(group["metadata"]["resourceVersion"]) if group is not None else ""


async def _owned(document: Json, world: World) -> Json:
    """An object with the controller that a case names by ``ownedBy``."""
    metadata = dict(document["metadata"])
    ref = metadata.pop("ownedBy", "")
    if ref:
        kind, _, name = ref.partition("/")
        owner = await world.need(kind, name)
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": name,
                "uid": owner["metadata"]["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]
    return {**document, "metadata": metadata}


# -- controllers -----------------------------------------------------------------------------------------

_LIFE: Final = frozenset(
    {
        "config",
        "objects",
        "testBackends",
        "scheduler",
        "nodes",
        "kubelet",
        "pausePodCreation",
        "limitPodCreation",
        "injectGateOnPodCreate",
        "env",
    }
)


class ChildrenKind(_GroveKind):
    """What is made for a set, without a scheduler."""

    given_keys = _LIFE
    when_keys = frozenset({"apply", "settle"})
    then_keys = frozenset({"names", "podGangs", "startsAfter", "pods", "podCount", "objects"})

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        async with _Life(case, stage, world) as steps:
            await steps.run([{"apply": case.when["apply"]}, {"settle": True}])
            return await self._judge(case.then, case.when["apply"]["metadata"]["name"], world)

    async def _judge(self, then: Json, pcs: str, world: World) -> Lines:
        lines: Lines = []
        if "names" in then:
            lines += await check_names(then["names"], world, pcs)
        lines += await check_pod_gangs(then.get("podGangs") or {}, world)
        lines += await check_starts_after(then.get("startsAfter") or {}, world)
        if "pods" in then:
            lines += await check_pods(then["pods"], world)
        if "podCount" in then:
            found = len(await world.items("Pod", f"{names.PART_OF}={pcs}"))
            lines += contains("podCount", then["podCount"], found)
        return lines + await check_objects(then.get("objects") or [], world)


class LifecycleKind(_GroveKind):
    """Steps, and what holds between them."""

    given_keys = _LIFE
    when_keys = frozenset({"steps"})
    then_keys = frozenset({"allStepsPass"})

    async def check(self, case: Case, stage: Stage, world: World) -> Lines:
        async with _Life(case, stage, world) as steps:
            await steps.run(case.when["steps"])
        return []


class _Life:
    """Operator and machines for the time of a block."""

    def __init__(self, case: Case, stage: Stage, world: World) -> None:
        self._given: Final = case.given
        self._stage: Final = stage
        self._world: Final = world
        self._operator: Final = OperatorRun(stage, case.given, environ=case.given.get("env"))
        self._machines: Final = Machines(world, case.given, set(_queues_in(case.raw)))
        self._history: History | None = None

    async def __aenter__(self) -> Steps:
        try:
            return await self._start()
        except BaseException:
            await self._stop()
            raise

    async def _start(self) -> Steps:
        if self._operator.refused:
            raise CaseFailure(*(text for _, text in self._operator.refused))
        self._history = History(self._stage.client, await self._world.version())
        self._history.start()
        await self._machines.start()
        config: Mapping[str, Any] = self._given.get("config") or {}
        try:
            await self._operator.start(config)
        except Refusal as error:
            raise CaseFailure(f"the operator does not start: {error}") from error
        for document in self._given.get("objects") or ():
            await self._world.make(document)
        return Steps(self._world, self._operator, self._machines, self._history, dict(config))

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        await self._operator.stop()
        await self._machines.stop()
        if self._history is not None:
            await self._history.stop()


def _queues_in(value: Any) -> Iterator[str]:
    """All KAI queues that a case mentions."""
    if isinstance(value, dict):
        queue = value.get(names.KAI_QUEUE)
        if isinstance(queue, str):
            yield queue
        for each in value.values():
            yield from _queues_in(each)
    elif isinstance(value, list):
        for each in value:
            yield from _queues_in(each)


KINDS: Final[Mapping[str, Kind]] = {
    "admission_create": AdmissionKind(),
    "admission_update": AdmissionKind(),
    "authorizer": AuthorizerKind(),
    "config_validate": ConfigKind(),
    "startup": StartupKind(),
    "backend_prepare_pod": PrepareKind(),
    "backend_sync": SyncKind(),
    "children": ChildrenKind(),
    "lifecycle": LifecycleKind(),
}
