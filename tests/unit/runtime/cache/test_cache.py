"""Reading from the cache: objects, lists, indexes, namespaces, representations."""

from __future__ import annotations

from typing import Any

import pytest

from quarterdeck.api import DynamicObject, PartialObjectMetadata
from quarterdeck.api.k8s.pod import Pod
from quarterdeck.client import metadata_of
from quarterdeck.errors import CacheError, NotCached, NotFound, NotSynced
from quarterdeck.runtime.cache import (
    ALL_NAMESPACES,
    Cache,
    CacheOptions,
    Index,
    IndexQuery,
    KindOptions,
    WatchSettings,
    field,
    keep_only,
    label,
    owned_by,
    owner_uid,
    rewrite,
)
from quarterdeck.runtime.cache.decoding import DEFAULT_REMEMBERED_BYTES
from quarterdeck.testing import DelayEvents, FaultPlan, Refuse
from tests.unit.runtime.cachekit import Recorder, running, until
from tests.unit.runtime.runtimewidget import Widget, WidgetSpec
from tests.unit.runtime.widgetcluster import (
    WIDGET,
    WIDGETS,
    colored_widgets,
)


async def test_cached_read_gives_the_typed_object_and_misses_say_so() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(Widget)
        widget = await cache.get(Widget, "a1", "ns")
        assert widget.spec.color == "a1"
        with pytest.raises(NotFound, match='Widget "nope" not found') as missed:
            await cache.get(Widget, "nope", "ns")
        assert missed.value.from_cache


async def test_one_watch_serves_typed_dynamic_and_metadata_reads() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(Widget)
        typed = await cache.get(Widget, "a1", "ns")
        dynamic = await cache.get(WIDGET, "a1", "ns")
        partial = await cache.get(metadata_of(Widget), "a1", "ns")
    assert isinstance(dynamic, DynamicObject)
    assert dynamic["spec"]["color"] == typed.spec.color
    assert isinstance(partial, PartialObjectMetadata)
    assert partial.kind == "Widget"
    assert api.link.count("watch", WIDGETS) == 1


async def test_metadata_informer_asks_for_metadata_only() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(metadata_of(Widget))
        partial = await cache.get(metadata_of(Widget), "a1", "ns")
        assert partial.metadata.labels == {"app": "a"}
    assert "as=PartialObjectMetadata;" in api.link.log[0].accept


async def test_metadata_is_borrowed_of_a_cache_that_holds_the_whole_kind() -> None:
    async with colored_widgets("a1") as api, running(api.link) as lender, running(api.link) as cache:
        cache.borrow_from(lender)
        lent = lender.informer(Widget)
        assert cache.informer(metadata_of(Widget)) is lent
        partial = await cache.get(metadata_of(Widget), "a1", "ns")
        assert isinstance(partial, PartialObjectMetadata)
        assert api.link.count("watch", WIDGETS) == 1
        assert cache.informer(Widget) is not lent, "whole objects are the borrower's own affair"


@pytest.mark.parametrize(
    "options",
    [
        KindOptions(namespaces=["ns"]),
        KindOptions(labels={"app": "a"}),
        KindOptions(fields="metadata.name=a1"),
        KindOptions(fields="metadata.namespace=ns"),
        KindOptions(transform=keep_only(["metadata.name", "metadata.namespace"])),
    ],
    ids=lambda options: repr(options)[:60],
)
async def test_a_cache_with_less_than_the_whole_kind_lends_nothing(options: KindOptions) -> None:
    restricted = CacheOptions(by_kind={Widget: options})
    async with (
        colored_widgets("a1") as api,
        running(api.link, restricted) as lender,
        running(api.link) as cache,
    ):
        cache.borrow_from(lender)
        assert cache.informer(metadata_of(Widget)) is not lender.informer(Widget)


async def test_reads_of_a_kind_are_served_once_somebody_asked_for_its_informer() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        assert not cache.has_informer(Widget)
        informer = cache.informer(Widget)
        await informer.wait_synced()
        assert informer.is_running
        assert cache.has_informer(Widget)
        assert cache.has_informer(WIDGET)
        await cache.remove_informer(Widget)
        assert not cache.has_informer(Widget)


async def test_the_first_of_a_list_is_its_first_object_or_none() -> None:
    async with colored_widgets("b1", "a1") as api, running(api.link) as cache:
        cache.informer(Widget)
        found = await cache.list(Widget, namespace="ns")
        assert found.first() == next(iter(found))
        assert (await cache.list(Widget, namespace="elsewhere")).first() is None


async def test_a_handler_that_has_handled_everything_is_idle() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        handler = Recorder()
        registration = informer.add_handler(handler)
        await registration.wait_synced()
        assert not registration.statistics().is_handling
        assert registration.statistics().handled == 1


async def test_every_mutation_attempt_on_a_cached_object_raises() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(Widget)
        widget: Any = await cache.get(Widget, "a1", "ns")
        dynamic: Any = await cache.get(WIDGET, "a1", "ns")
        entry: Any = next(iter(cache.informer(Widget).entries()))
        attempts: list[Any] = [
            lambda: setattr(widget, "spec", WidgetSpec()),
            lambda: setattr(widget.spec, "replicas", 5),
            lambda: setattr(widget.metadata, "name", "x"),
            lambda: widget.metadata.labels.update(x="y"),
            lambda: widget.metadata.labels.pop("app"),
            lambda: widget.metadata.labels.__setitem__("a", "b"),
            lambda: widget.status.conditions.append(1),
            lambda: dynamic.__setitem__("spec", {}),
            lambda: dynamic["spec"].__setitem__("color", "x"),
            lambda: setattr(entry, "raw", b""),
            lambda: entry.labels.clear(),
        ]
        for attempt in attempts:
            with pytest.raises((AttributeError, TypeError)):
                attempt()
        assert (await cache.get(Widget, "a1", "ns")).spec.color == "a1"


async def test_uncached_kind_is_refused_with_both_fixes_named() -> None:
    async with colored_widgets() as api, running(api.link) as cache:
        with pytest.raises(NotCached, match=r"example.com/v1, Kind=Widget is not cached.*live=True"):
            await cache.get(Widget, "a", "ns")


async def test_lazy_mode_starts_an_informer_at_the_first_read() -> None:
    async with colored_widgets("a1") as api, running(api.link, CacheOptions(fail_on_uncached=False)) as cache:
        assert (await cache.get(Widget, "a1", "ns")).metadata.name == "a1"


async def test_reading_before_the_cache_runs_is_an_error_and_waits_once_it_does() -> None:
    async with colored_widgets("a1") as api:
        cache = Cache(api.link.client, api.link.client.mapper)
        cache.informer(Widget)
        with pytest.raises(NotSynced, match="the cache is not started"):
            await cache.get(Widget, "a1", "ns")
        with pytest.raises(NotSynced):
            cache.lookup(Widget, owner_uid("x"))


async def test_reading_a_kind_that_cannot_be_listed_says_why_instead_of_hanging() -> None:
    denied = FaultPlan(0, Refuse(403, message="widgets is forbidden", verbs=frozenset({"watch"})))
    async with colored_widgets("a1", plan=denied) as api, running(api.link) as cache:
        cache.informer(Widget)
        with pytest.raises(NotSynced, match=r"cannot watch widgets\.example\.com"):
            await cache.get(Widget, "a1", "ns")


async def test_list_filters_by_namespace_labels_and_limit() -> None:
    async with colored_widgets("a1", "a2", "b1") as api, running(api.link) as cache:
        await api.put(Widget, "a3", "other", metadata={"labels": {"app": "a"}})
        cache.informer(Widget)
        assert len(await cache.list(Widget)) == 4
        assert [w.metadata.name for w in await cache.list(Widget, namespace="other")] == ["a3"]
        assert sorted(k.name for k in (await cache.list(Widget, labels="app=a")).object_keys()) == [
            "a1",
            "a2",
            "a3",
        ]
        assert len(await cache.list(Widget, labels={"app": "a"}, namespace="ns")) == 2
        assert len(await cache.list(Widget, limit=3)) == 3
        with pytest.raises(CacheError, match="continue list option is not supported by the cache"):
            await cache.list(Widget, continue_token="x")


async def test_field_selector_needs_an_exact_match_on_a_declared_index() -> None:
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        cache.informer(Widget).declare_index(field("spec.color"))
        assert [w.metadata.name for w in await cache.list(Widget, fields="spec.color=a2")] == ["a2"]
        assert len(await cache.list(Widget, fields="metadata.name=a1")) == 1
        with pytest.raises(CacheError, match="non-exact field matches are not supported by the cache"):
            await cache.list(Widget, fields="spec.color!=a2")
        with pytest.raises(CacheError, match=r"index with name field:spec\.size does not exist"):
            await cache.list(Widget, fields="spec.size=1")


async def test_several_requirements_are_intersected() -> None:
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        await api.put(Widget, "a3", spec={"color": "red", "replicas": 3})
        await api.put(Widget, "a4", spec={"color": "red", "replicas": 4})
        informer = cache.informer(Widget)
        informer.declare_index(field("spec.color"))
        informer.declare_index(field("spec.replicas"))
        found = await cache.list(Widget, fields="spec.color=red,spec.replicas=4")
        assert [k.name for k in found.object_keys()] == ["a4"]


async def test_a_namespace_asked_for_twice_must_be_the_same() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        cache.informer(Widget).declare_index(field("spec.color"))
        color = field("spec.color")
        assert len(await cache.list(Widget, namespace="ns", fields="metadata.namespace=ns")) == 1
        assert len(await cache.list(Widget, namespace="other", fields="metadata.namespace=ns")) == 0
        assert len(await cache.list(Widget, namespace="ns", index=color("a1", "ns"))) == 1
        assert len(await cache.list(Widget, namespace="other", index=color("a1", "ns"))) == 0


async def test_indexes_follow_additions_updates_and_deletions() -> None:
    by_first = Index[Widget]("first-letter", lambda w: [w.metadata.name[0], w.spec.color])
    async with colored_widgets("a1", "a2") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        for index in (by_first, label("app"), field("spec.color")):
            informer.declare_index(index)
        await informer.wait_synced()
        view = cache.index(Widget, by_first)
        assert len(view.get("a")) == 2
        assert view.get("a").count(lambda w: w.spec.color == "a1") == 1
        await api.put(Widget, "a1", spec={"color": "blue"}, metadata={"labels": {"app": "z"}})
        await until(lambda: view.count("blue") == 1)
        assert view.count("a1") == 0
        assert cache.index(Widget, label("app")).values() == ("a", "z")
        assert cache.index(Widget, field("spec.color")).count("a1") == 0
        await api.remove(Widget, "a1")
        await until(lambda: view.count("blue") == 0)
        assert view.get("a", "ns").object_keys()[0].name == "a2"
        assert view.get("a", "elsewhere").entries == ()


async def test_index_added_after_start_is_built_from_the_store_and_can_go_again() -> None:
    async with colored_widgets("a1", "a2", "b1") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        await informer.wait_synced()
        by_color = Index[Widget]("color", lambda w: [w.spec.color])
        await informer.add_index(by_color)
        informer.declare_index(by_color)
        informer.declare_index(field("spec.color"))
        assert cache.index(Widget, by_color).count("b1") == 1
        assert cache.index(Widget, field("spec.color")).count("b1") == 1
        await api.put(Widget, "c1", spec={"color": "b1"})
        await until(lambda: cache.index(Widget, field("spec.color")).count("b1") == 2)
        informer.remove_index("color")
        with pytest.raises(CacheError, match="index with name color does not exist"):
            cache.index(Widget, by_color)


async def test_an_index_is_asked_in_one_namespace_or_in_all() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        await api.put(Widget, "a2", "default", metadata={"labels": {"app": "a"}})
        informer = cache.informer(Widget)
        informer.declare_index(label("app"))
        by_app = label("app")

        async def found(query: IndexQuery[Any], namespace: str = "") -> list[str]:
            return sorted(w.metadata.name for w in await cache.list(Widget, namespace=namespace, index=query))

        await until(lambda: len(list(informer.entries())) == 2)
        assert await found(by_app("a")) == ["a1", "a2"]
        assert await found(by_app("a", "ns")) == ["a1"]
        assert await found(by_app("a"), "default") == ["a2"]
        assert await found(by_app("a", "ns"), "default") == []
        with pytest.raises(CacheError, match="already declared with another function"):
            informer.declare_index(Index[Widget]("label:app", lambda w: []))


async def test_failing_index_function_does_not_lose_the_object() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        informer = cache.informer(Widget)
        informer.declare_index(Index[Widget]("bad", lambda w: [w.spec.nonsense]))  # type: ignore[attr-defined]
        await informer.wait_synced()
        assert len(await cache.list(Widget)) == 1


async def test_owner_index_finds_children() -> None:
    async with colored_widgets("a1") as api, running(api.link) as cache:
        owner = await api.client.get(Widget, "a1", "ns")
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "a1",
            "uid": owner.metadata.uid,
        }
        await api.put(Widget, "child", metadata={"ownerReferences": [reference]})
        cache.informer(Widget).declare_index(owner_uid)
        parent = await cache.get(Widget, "a1", "ns")
        assert [w.metadata.name for w in cache.lookup(Widget, owned_by(parent))] == ["child"]


async def test_namespaced_cache_watches_each_namespace_and_refuses_others() -> None:
    options = CacheOptions(namespaces=("one", "two"))
    async with colored_widgets("a1", namespace="one") as api, running(api.link, options) as cache:
        await api.put(Widget, "a1", "two")
        await api.put(Widget, "a1", "three")
        cache.informer(Widget)
        assert len(await cache.list(Widget)) == 2
        assert (await cache.get(Widget, "a1", "two")).metadata.namespace == "two"
        with pytest.raises(
            CacheError, match="unable to get: three/a1 because of unknown namespace for the cache"
        ):
            await cache.get(Widget, "a1", "three")
    assert sorted(call.target.namespace for call in api.link.log) == ["one", "two"]


async def test_all_other_namespaces_are_watched_by_excluding_the_listed_ones() -> None:
    spaces = {"one": WatchSettings(labels="app=x"), "two": WatchSettings(), ALL_NAMESPACES: WatchSettings()}
    options = CacheOptions(namespaces=spaces)
    async with colored_widgets("a1", namespace="one") as api, running(api.link, options) as cache:
        await api.put(Widget, "a1", "two")
        await api.put(Widget, "a1", "three")
        cache.informer(Widget)
        assert sorted(k.namespace for k in (await cache.list(Widget)).object_keys()) == ["three", "two"]
    rest = next(call for call in api.link.log if not call.target.namespace)
    assert rest.query["fieldSelector"] == "metadata.namespace!=one,metadata.namespace!=two"


async def test_field_selector_on_the_namespace_becomes_a_namespaced_request() -> None:
    options = CacheOptions(by_kind={Widget: KindOptions(fields="metadata.namespace=ns,metadata.name=a1")})
    async with colored_widgets("a1", "a2") as api, running(api.link, options) as cache:
        cache.informer(Widget)
        assert len(await cache.list(Widget)) == 1
        with pytest.raises(CacheError, match="unknown namespace"):
            await cache.get(Widget, "a1", "other")
    assert api.link.log[0].target.namespace == "ns"
    assert api.link.log[0].query["fieldSelector"] == "metadata.name=a1"


def test_how_much_is_remembered_decoded_is_said_by_kind_then_by_cache() -> None:
    assert CacheOptions().remembered(WIDGET) == DEFAULT_REMEMBERED_BYTES
    assert CacheOptions(remembered_bytes=5).remembered(WIDGET) == 5
    nothing = KindOptions(remembered_bytes=0)
    assert CacheOptions(remembered_bytes=5, by_kind={Widget: nothing}).remembered(WIDGET) == 0
    assert CacheOptions(remembered_bytes=5, by_kind={Pod: KindOptions()}).remembered(WIDGET) == 5


def test_settings_are_resolved_field_by_field_from_the_most_specific() -> None:
    strip = rewrite(lambda doc: doc)
    options = CacheOptions(
        labels="global=1",
        silence=5,
        bookmarks=False,
        transform=None,
        namespaces={"a": WatchSettings(labels="space=1", silence=6, resync_period=60)},
        by_kind={
            Widget: KindOptions(
                transform=strip,
                silence=7,
                namespaces={"a": WatchSettings(transform=keep_only(["spec"])), "b": WatchSettings()},
            )
        },
    )
    a, b = options.resolve(WIDGET, is_namespaced=True)
    assert (a.namespace, str(a.labels), a.silence, a.bookmarks, a.resync_period) == (
        "a",
        "space=1",
        7,
        False,
        60,
    )
    assert repr(a.transforms[0]).startswith("keep_only")
    assert (b.namespace, str(b.labels), b.resync_period, b.transforms) == ("b", "global=1", 0, (strip,))
    (whole,) = options.resolve(WIDGET, is_namespaced=False)
    assert (whole.namespace, str(whole.labels)) == ("", "global=1")


async def test_managed_fields_are_dropped_unless_asked_for() -> None:
    for options, kept in ((None, 0), (CacheOptions(transform=None), 1)):
        async with colored_widgets("red") as api, running(api.link, options) as cache:
            cache.informer(Widget)
            widget = await cache.get(Widget, "red", "ns")
            assert len(widget.metadata.managed_fields) == kept
            assert widget.spec.color == "red"


async def test_read_with_a_minimum_version_waits_for_it() -> None:
    late = FaultPlan(0, DelayEvents((5.0, 5.0), types=frozenset({"MODIFIED"})))
    async with colored_widgets("a1", plan=late) as api, running(api.link) as cache:
        cache.informer(Widget)
        old = await cache.get(Widget, "a1", "ns")
        written = await api.put(Widget, "a1", spec={"color": "new"})
        assert (await cache.get(Widget, "a1", "ns")).spec.color == "a1"
        new = await cache.get(Widget, "a1", "ns", min_version=written.metadata.resource_version)
        assert new.spec.color == "new"
        assert (await cache.get(Widget, "a1", "ns", min_version=old)).spec.color == "new"


async def test_decoded_objects_are_remembered_within_their_budget() -> None:
    async with (
        colored_widgets(*(f"w{i}" for i in range(50))) as api,
        running(api.link, CacheOptions(remembered_bytes=2000)) as cache,
    ):
        cache.informer(Widget)
        for widget in await cache.list(Widget):
            assert widget.spec.replicas == 1
        decoding = cache.statistics().informers[0].decoding[0]
        assert decoding.misses == 50
        assert decoding.remembered_bytes <= 2000
