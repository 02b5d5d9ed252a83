"""The files of one kind of a project, as templates: its versions, its controller, its webhooks, tests."""

from typing import Final

TYPES: Final = """\
\"\"\"What a $kind is. The CustomResourceDefinition is made from these classes.\"\"\"

from typing import Annotated

from quarterdeck.api import Column, Condition, Model, Resource, Seq, omitempty
from quarterdeck.api.marker import Doc, Ge, ListMap


class ${kind}Spec(Model):
    \"\"\"What is asked for.\"\"\"

    size: Annotated[int, Ge(0), Doc("how large it is: `kubectl explain` shows this text")] = 1


class ${kind}Status(Model):
    \"\"\"What became of it.\"\"\"

    observed_generation: int = omitempty(0)
    conditions: Annotated[Seq[Condition], ListMap("type")] = omitempty(())


class $kind(
    Resource,
    group="$group",
    version="$version",
    status=True,
    columns=[
        Column("Size", ".spec.size", "integer"),
        Column("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        Column.age(),
    ],
):
    \"\"\"Say here what it is for: `kubectl explain` shows it.\"\"\"

    spec: ${kind}Spec = ${kind}Spec()
    status: ${kind}Status = omitempty(${kind}Status())
"""

CONTROLLER: Final = """\
\"\"\"What a $kind gets: a ConfigMap that says its size. Put your own children in its place.\"\"\"

from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime import Builder, Context, Controller

from .types import $kind


def config_of(obj: $kind) -> ConfigMap:
    metadata = ObjectMeta(name=obj.metadata.name, namespace=obj.metadata.namespace)
    return ConfigMap(metadata=metadata, data={"size": str(obj.spec.size)})


async def reconcile(ctx: Context[$kind]) -> None:
    await ctx.apply(config_of(ctx.obj), owner=ctx.obj)
    ctx.conditions.set("Ready", True, reason="InPlace")


def controller() -> Controller[$kind]:
    return Builder($kind).owns(ConfigMap).build(reconcile)
"""

WEBHOOK: Final = """\
\"\"\"What is asked before a $kind is stored. What one object alone can tell belongs into its schema.\"\"\"

from quarterdeck.runtime.webhook import Admission, AdmissionWebhook, Defaulter, Denied, Validator

from .types import $kind


def fill(admission: Admission, obj: $kind) -> $kind:
    \"\"\"The object with what its author left out.\"\"\"
    return obj


def check(admission: Admission, obj: $kind) -> None:
    if obj.spec.size > 100:
        raise Denied("size must be at most 100")


def webhooks() -> tuple[AdmissionWebhook, ...]:
    return (Defaulter($kind, fill), Validator($kind, check))
"""

TEST: Final = """\
\"\"\"$kind on a cluster of its own, in virtual time.\"\"\"

import pytest
from quarterdeck.api import ObjectMeta
from quarterdeck.api.k8s import ConfigMap
from quarterdeck.runtime import Manager
from quarterdeck.testing import TestCluster, has_condition, run_until_idle

from $package.$part.controller import controller
from $package.$part.types import $kind, ${kind}Spec

pytestmark = pytest.mark.cluster(crds=[$kind])


async def test_it_gets_what_it_asks_for(cluster: TestCluster, manager: Manager) -> None:
    manager.add(controller())
    await cluster.start(manager)
    metadata = ObjectMeta(name="one", namespace="default")
    await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=3)))
    await run_until_idle(manager)
    assert (await cluster.client.get(ConfigMap, "one", "default")).data == {"size": "3"}
    assert has_condition(await cluster.client.get($kind, "one", "default"), "Ready")
"""

WEBHOOK_TEST: Final = """\
\"\"\"The webhooks of $kind, called by the API server as in a cluster.\"\"\"

import pytest
from quarterdeck.api import ObjectMeta
from quarterdeck.errors import Forbidden
from quarterdeck.testing import TestCluster

from $package.$part import webhooks
from $package.$part.types import $kind, ${kind}Spec

pytestmark = pytest.mark.cluster(crds=[$kind])


async def test_what_is_too_big_is_refused(cluster: TestCluster) -> None:
    await cluster.serve_webhooks(*webhooks())
    metadata = ObjectMeta(name="one", namespace="default")
    with pytest.raises(Forbidden, match="size must be at most 100"):
        await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=101)))
    await cluster.client.create($kind(metadata=metadata, spec=${kind}Spec(size=100)))
"""

EXAMPLE: Final = """\
apiVersion: $group/$version
kind: $kind
metadata:
  name: example
  namespace: default
spec:
  size: 3
"""

VERSION: Final = """\
\"\"\"$kind as $version had it: its clients go on reading and writing it. Make it differ, and convert.\"\"\"

from typing import Annotated

from quarterdeck.api import Model, Resource, omitempty
from quarterdeck.api.marker import Ge

from . import types as hub


class ${kind}Spec(Model):
    \"\"\"What is asked for.\"\"\"

    size: Annotated[int, Ge(0)] = 1


class $kind(Resource, group="$group", version="$version", storage=False, status=True):
    \"\"\"An older version.\"\"\"

    spec: ${kind}Spec = ${kind}Spec()
    status: hub.${kind}Status = omitempty(hub.${kind}Status())

    def to_hub(self) -> hub.$kind:
        spec = hub.${kind}Spec(size=self.spec.size)
        return hub.$kind(metadata=self.metadata, spec=spec, status=self.status)

    @classmethod
    def from_hub(cls, obj: hub.$kind) -> "$kind":
        return cls(metadata=obj.metadata, spec=${kind}Spec(size=obj.spec.size), status=obj.status)
"""

VERSION_TEST: Final = """\
\"\"\"Nothing is lost between the versions of $kind.\"\"\"

from quarterdeck.runtime.webhook import Conversion, assert_roundtrip

from $package.$part import KIND, $version


def test_objects_survive_the_way_there_and_back() -> None:
    assert_roundtrip(Conversion(KIND, $version.$kind))
"""
