"""Bytes in, bytes kept: headers, transforms, field paths, list cutting, watch lines, versions."""

from __future__ import annotations

import gc

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterdeck.client.watchline import bookmark_of, error_of, split_line
from quarterdeck.errors import ConfigError, Gone, ProtocolError, SchemaError
from quarterdeck.runtime.cache.entry import EntryFactory
from quarterdeck.runtime.cache.fieldpath import FieldReader, parse_path
from quarterdeck.runtime.cache.listing import _BATCH as BATCH
from quarterdeck.runtime.cache.listing import ListSplitter
from quarterdeck.runtime.cache.transform import keep_only, rewrite, strip_last_applied, strip_managed_fields
from quarterdeck.runtime.cache.version import is_at_least, is_newer

encode = msgspec.json.encode
decode = msgspec.json.decode

METADATA = {
    "name": "a",
    "namespace": "ns",
    "uid": "u",
    "resourceVersion": "7",
    "generation": 3,
    "labels": {"app": "x"},
    "annotations": {"note": 'say "managedFields":[1] twice'},
    "ownerReferences": [
        {"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": True, "new": 1}
    ],
    "managedFields": [{"manager": "m", "fieldsV1": {"f:spec": {"f:a": {}}}}],
    "deletionTimestamp": "2030-01-01T00:00:00Z",
}
DOC = {"apiVersion": "v1", "kind": "Pod", "metadata": METADATA, "spec": {"nodeName": "n1", "n": 5}}


def test_header_has_names_versions_labels_owners_and_deletion() -> None:
    entry = EntryFactory().make(encode(DOC))
    assert (entry.name, entry.namespace, entry.uid, entry.resource_version) == ("a", "ns", "u", "7")
    assert entry.generation == 3
    assert entry.is_deleting
    assert entry.labels == {"app": "x"}
    owner = entry.owner_references[0]
    assert (owner.kind, owner.uid, owner.controller, owner.unknown_fields) == ("K", "ou", True, {"new": 1})
    assert str(entry.key) == "ns/a"


def test_equal_labels_and_owners_are_shared() -> None:
    factory = EntryFactory()
    one, two = factory.make(encode(DOC)), factory.make(encode(DOC))
    assert one.labels is two.labels
    assert one.owner_references is two.owner_references


def test_items_of_a_list_get_their_type_back() -> None:
    bare = {key: value for key, value in DOC.items() if key not in ("kind", "apiVersion")}
    entry = EntryFactory(kind="Pod", api_version="v1").make(encode(bare))
    assert decode(entry.raw) == DOC


NO_PODS = [
    b"{",
    b"[]",
    b'{"metadata":{}}',
    b'{"metadata":{"name":5}}',
    b'{"kind":"Node"}',
    b'{"metadata":{"name":"\xff"}}',
    b'{"metadata":{"name":"a"},"spec":' + b'{"a":' * 100_000,
]


@pytest.mark.parametrize("raw", NO_PODS, ids=range(len(NO_PODS)))
def test_what_is_no_object_of_the_kind_is_refused(raw: bytes) -> None:
    with pytest.raises(SchemaError):
        EntryFactory(kind="Pod", api_version="v1").make(raw)


@pytest.mark.parametrize("order", [["managedFields", "name"], ["name", "managedFields"], ["managedFields"]])
def test_managed_fields_are_cut_wherever_they_stand(order: list[str]) -> None:
    metadata = {key: METADATA[key] for key in order} | {"name": "a"}
    raw = encode({"metadata": {k: metadata[k] for k in order if k in metadata} | metadata, "spec": {"x": 1}})
    entry = EntryFactory(transforms=[strip_managed_fields]).make(raw)
    assert decode(entry.raw) == {"metadata": {"name": "a"}, "spec": {"x": 1}}
    assert EntryFactory(transforms=[strip_managed_fields]).make(entry.raw).raw == entry.raw


def test_cutting_managed_fields_leaves_every_other_byte_as_it_came() -> None:
    raw = b'{"metadata": {"name":"a",  "managedFields":[{"manager":"m"}],"uid":"u" }, "spec":{ "x" : 1}}'
    entry = EntryFactory(transforms=[strip_managed_fields]).make(raw)
    assert entry.raw == b'{"metadata": {"name":"a",  "uid":"u" }, "spec":{ "x" : 1}}'


def test_text_that_looks_like_managed_fields_is_left_alone() -> None:
    entry = EntryFactory(transforms=[strip_managed_fields]).make(encode(DOC))
    expected = {key: value for key, value in METADATA.items() if key != "managedFields"}
    assert decode(entry.raw)["metadata"] == expected


def test_managed_fields_elsewhere_and_spaced_json_are_handled() -> None:
    raw = b'{"status":{"managedFields":[]},"metadata": {"managedFields" : [1, 2], "name": "a"}}'
    entry = EntryFactory(transforms=[strip_managed_fields]).make(raw)
    assert decode(entry.raw) == {"status": {"managedFields": []}, "metadata": {"name": "a"}}


@pytest.mark.parametrize("others", [{}, {"a": "b"}, {"z": 'q"\\', "a": "{}"}])
def test_last_applied_is_cut_and_other_annotations_stay(others: dict[str, str]) -> None:
    name = "kubectl.kubernetes.io/last-applied-configuration"
    for notes in ({name: '{"a":"\\"b"}\n', **others}, {**others, name: "{}"}):
        raw = encode({"metadata": {"name": "a", "annotations": notes}})
        entry = EntryFactory(transforms=[strip_last_applied]).make(raw)
        assert decode(entry.raw) == {"metadata": {"name": "a", "annotations": others}}


def test_keep_only_keeps_identity_and_the_named_paths() -> None:
    doc = {**DOC, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i", "env": []}]}}
    entry = EntryFactory(transforms=[keep_only(["spec.nodeName", "spec.containers[*].image"])]).make(
        encode(doc)
    )
    kept = decode(entry.raw)
    assert kept["spec"] == {"nodeName": "n", "containers": [{"image": "i"}]}
    assert "annotations" not in kept["metadata"]
    assert "managedFields" not in kept["metadata"]
    assert kept["metadata"]["deletionTimestamp"]
    assert entry.labels == {"app": "x"}


def test_keep_only_keeps_an_object_whole_that_is_shaped_otherwise() -> None:
    odd = encode({**DOC, "spec": {"containers": "none of them", "nodeName": "n"}})
    entry = EntryFactory(transforms=[keep_only(["spec.containers[*].image"])]).make(odd)
    assert decode(entry.raw)["spec"] == {"containers": "none of them", "nodeName": "n"}


def test_rewrite_may_change_the_header() -> None:
    def relabel(doc: dict[str, object]) -> dict[str, object]:
        return {**doc, "metadata": {"name": "a", "labels": {"new": "label"}}}

    entry = EntryFactory(transforms=[rewrite(relabel)]).make(encode(DOC))
    assert entry.labels == {"new": "label"}


@pytest.mark.parametrize(
    ("path", "steps"),
    [("spec.nodeName", ("spec", "nodeName")), (".a[*].b", ("a", "*", "b")), ("a[*][*]", ("a", "*", "*"))],
)
def test_paths_are_parsed(path: str, steps: tuple[str, ...]) -> None:
    assert parse_path(path) == steps


def test_index_paths_are_read_in_the_order_in_which_they_were_added() -> None:
    factory = EntryFactory(paths=["spec.a"])
    assert (factory.add_path("spec.b"), factory.add_path("spec.a")) == (1, 0)
    assert factory.paths == ("spec.a", "spec.b")


def test_an_object_of_no_known_kind_is_kept_as_it_came() -> None:
    raw = encode({"metadata": {"name": "a"}})
    assert EntryFactory().make(raw).raw == raw
    assert decode(EntryFactory(kind="Pod", api_version="v1").make(raw).raw)["kind"] == "Pod"
    named = encode({"kind": "Pod", "metadata": {"name": "a"}})
    assert EntryFactory(kind="Pod", api_version="v1").make(named).raw == named


def test_an_object_without_the_annotation_of_kubectl_is_kept_as_it_came() -> None:
    raw = encode({"metadata": {"name": "a", "annotations": {"b": "c"}}})
    assert EntryFactory(transforms=[strip_last_applied]).make(raw).raw is raw


def test_bad_path_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"a\[0\]"):
        parse_path("a[0]")


def test_fields_are_read_as_index_values() -> None:
    reader = FieldReader(
        ["spec.n", "spec.b", "spec.list[*].v", "metadata.name", "spec.none.x", "spec.o", "s"]
    )
    doc = {
        "metadata": {"name": "m"},
        "spec": {"n": 5, "b": True, "list": [{"v": "x"}, {"v": "y"}, {"v": "x"}, {}], "none": None, "o": {}},
        "s": "text",
    }
    assert reader.read(encode(doc)) == (("5",), ("true",), ("x", "y"), ("m",), (), (), ("text",))
    assert reader.read(b'{"spec":7}') == ((),) * 7


def test_what_is_read_for_indexes_is_none_of_the_garbage_collectors_work() -> None:
    reader = FieldReader(["spec.nodeName"])
    assert not gc.is_tracked(reader.decode(encode(DOC)))


def test_index_fields_come_with_the_entry_even_if_a_field_has_another_type() -> None:
    factory = EntryFactory(paths=["spec.nodeName", "metadata.name"])
    assert factory.make(encode(DOC)).fields == (("n1",), ("a",))
    odd = factory.make(encode({"metadata": {"name": "a"}, "spec": "text"}))
    assert odd.fields == ((), ("a",))
    assert factory.add_path("spec.n") == 2
    assert factory.make(encode(DOC)).fields == (("n1",), ("a",), ("5",))


def items(count: int) -> list[dict[str, object]]:
    nested = [{"metadata": {"name": "t1"}}, {"metadata": {"name": "t2"}}]
    return [
        {
            "metadata": {"name": f"i{i}", "note": '},{"metadata":'},
            "spec": {"templates": nested, "fill": "x" * 900},
        }
        for i in range(count)
    ]


@pytest.mark.parametrize("size", [100, 7777, 10_000_000])
@pytest.mark.parametrize("metadata_last", [False, True])
def test_list_is_cut_into_its_items_whatever_the_chunks(size: int, metadata_last: bool) -> None:
    wanted = items(2000)
    frame: dict[str, object] = {"metadata": {"resourceVersion": "9", "continue": "next"}}
    answer = (
        {"items": wanted, "kind": "L", **frame} if metadata_last else {"kind": "L", **frame, "items": wanted}
    )
    raw = encode(answer)
    splitter = ListSplitter()
    found = []
    for start in range(0, len(raw), size):
        found += [decode(bytes(item)) for item in splitter.feed(raw[start : start + size])]
    if size < 100_000:
        assert found
    found += [decode(bytes(item)) for item in splitter.finish()]
    assert found == wanted
    assert (splitter.resource_version, splitter.continue_token) == ("9", "next")


@pytest.mark.parametrize("raw", [b'{"items":null,"metadata":{"resourceVersion":"1"}}', b'{"metadata":{}}'])
def test_empty_list_has_no_items(raw: bytes) -> None:
    splitter = ListSplitter()
    splitter.feed(raw)
    assert list(splitter.finish()) == []


def test_pretty_printed_list_is_read_whole() -> None:
    import json

    splitter = ListSplitter()
    text = json.dumps({"metadata": {"resourceVersion": "1"}, "items": items(800)}, indent=2).encode()
    assert list(splitter.feed(text)) == []
    assert len(list(splitter.finish())) == 800


def test_items_come_as_they_arrive_and_not_only_at_the_end() -> None:
    items = [{"metadata": {"name": f"n{i}", "note": "x" * 2000}} for i in range(800)]
    raw = encode({"kind": "List", "metadata": {"resourceVersion": "7"}, "items": items})
    splitter = ListSplitter()
    pieces = [list(splitter.feed(raw[start : start + 1000])) for start in range(0, len(raw), 1000)]
    sizes = [sum(len(bytes(each)) for each in piece) for piece in pieces if piece]
    assert len(sizes) == len(raw) // BATCH, "each time enough has come together"
    assert all(BATCH - 4000 < size < BATCH + 4000 for size in sizes)
    found = [each for piece in pieces for each in piece]
    assert [decode(each) for each in [*found, *splitter.finish()]] == items
    assert splitter.resource_version == "7"


def test_answer_that_is_no_list_is_a_protocol_error() -> None:
    splitter = ListSplitter()
    splitter.feed(b"<html>")
    with pytest.raises(ProtocolError):
        splitter.finish()


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"])
def test_line_is_split_in_the_usual_and_in_any_other_form(kind: str) -> None:
    for text in ('{"type":"%s","object":{"a":1}}', '{ "object": {"a":1}, "type": "%s" }'):
        found, raw = split_line((text % kind).encode())
        assert found == kind
        assert decode(raw) == {"a": 1}


def test_line_that_is_no_event_is_a_protocol_error() -> None:
    for line in (b"", b"x", b"{}", b'{"type":"ADDED"}', b'{"type":"\xff"}', b"[" * 100_000):
        with pytest.raises(ProtocolError):
            split_line(line)


def test_bookmark_and_error_objects_are_read() -> None:
    raw = encode({"metadata": {"resourceVersion": "5", "annotations": {"k8s.io/initial-events-end": "true"}}})
    assert bookmark_of(raw) == ("5", True)
    assert bookmark_of(b'{"metadata":{"resourceVersion":"6"}}') == ("6", False)
    assert isinstance(error_of(b'{"kind":"Status","code":410,"reason":"Expired"}', "pods"), Gone)


@given(st.integers(1, 10**20), st.integers(1, 10**20))
def test_decimal_versions_compare_as_numbers(left: int, right: int) -> None:
    assert is_newer(str(left), str(right)) == (left > right)
    assert is_at_least(str(left), str(right)) == (left >= right)


@pytest.mark.parametrize("odd", ["", "0", "007", "12a", "-1", "v1"])
def test_malformed_versions_never_block(odd: str) -> None:
    assert is_at_least(odd, "5")
    assert is_at_least("5", odd)
    assert not is_newer(odd, "5")


def test_a_copy_of_the_object_is_dropped_also_where_its_name_stands_twice() -> None:
    """A pod template may carry kubectl's annotation, too; that one stays."""
    name = "kubectl.kubernetes.io/last-applied-configuration"
    document = {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": "a", "annotations": {name: "{}", "b": "c"}},
        "spec": {"template": {"metadata": {"annotations": {name: "kept"}}}},
    }
    entry = EntryFactory(transforms=[strip_last_applied]).make(encode(document))
    stored = decode(entry.raw)
    assert stored["metadata"]["annotations"] == {"b": "c"}
    assert stored["spec"] == document["spec"]


@given(st.lists(st.dictionaries(st.text(max_size=8), st.text(max_size=40), max_size=6), max_size=6))
def test_a_packed_entry_reads_as_it_came(specs: list[dict[str, str]]) -> None:
    plain, packed = EntryFactory(), EntryFactory(is_packed=True)
    for spec in specs:
        raw = encode({**DOC, "spec": spec})
        assert packed.make(raw).raw == plain.make(raw).raw == raw


@given(name=st.text(min_size=1, max_size=6), uid=st.text(max_size=6), version=st.text(max_size=4))
def test_what_an_entry_knows_of_its_object_is_put_back_wherever_it_stood(
    name: str, uid: str, version: str
) -> None:
    packed = EntryFactory(is_packed=True)
    for spec in ({}, {"owner": uid, name: [version, name, uid + name]}):
        metadata = {"name": name, "uid": uid, "resourceVersion": version}
        raw = encode({"kind": "Thing", "metadata": metadata, "spec": spec})
        entry = packed.make(raw)
        assert entry.raw == raw
        assert entry.resource_version == version


def test_packing_keeps_little_of_what_objects_have_in_common() -> None:
    factory = EntryFactory(is_packed=True)
    sizes = [len(factory.make(encode({**DOC, "spec": {"nodeName": f"n{i}"}})).body) for i in range(9)]
    assert max(sizes) < len(encode(DOC)) // 5


def test_owners_of_one_kind_share_its_names() -> None:
    factory = EntryFactory()
    one, other = (
        factory.make(encode({"metadata": {"name": "a", "ownerReferences": [{"kind": "K", "uid": uid}]}}))
        for uid in ("one", "other")
    )
    assert one.owner_references[0].kind is other.owner_references[0].kind
