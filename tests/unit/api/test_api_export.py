"""What is public is listed, and the room imports nothing of ours."""

import ast
import pkgutil
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import quarterdeck.api
import quarterdeck.api.k8s
import quarterdeck.client
import quarterdeck.errors
import quarterdeck.runtime
import quarterdeck.runtime.cache
import quarterdeck.runtime.webhook
import quarterdeck.testing

API = """
    Column Condition Duration DynamicObject GroupVersionKind Key LabelSelector Map Maybe Model
    ObjectMeta OwnerReference PartialObjectMetadata Quantity Resource Scheme Selector Seq Time UNSET
    UnsetType Writable controller_of crd decode encode from_dict is_controlled_by omitempty
    owner_reference set_controller_reference to_dict value_or
"""
CLIENT = """
    AnyKind Backoff Bookmark Call Client Clock Config HttpTransport Impersonation InProcessTransport
    JsonPatch MergePatch MetadataKind Observer Patch RequestRecord Response RestMapper
    StrategicMergePatch Stream Subresource TlsOptions Transport Watch WatchEvent dry_run field_owner
    intercept merge_from metadata_of namespaced retry_on_conflict
"""
RUNTIME = """
    Builder Cache CacheOptions Channel ChannelSource Context Controller ControllerOptions DeleteContext
    Index KindOptions LeaderElectionLost Manager ManagerOptions MapContext Predicate Reconciler Requeue
    Result Rule Wait create_or_patch field generation_changed install_definitions keep_only label
    owned_by roles until until_condition until_gone
"""
WITH_OLD_NAMES = [
    quarterdeck.api,
    quarterdeck.client,
    quarterdeck.runtime,
    quarterdeck.runtime.cache,
    quarterdeck.runtime.webhook,
    quarterdeck.testing,
]


@pytest.mark.parametrize(
    ("module", "names"),
    [(quarterdeck.api, API), (quarterdeck.client, CLIENT), (quarterdeck.runtime, RUNTIME)],
)
def test_a_public_face_fits_a_page(module: ModuleType, names: str) -> None:
    # a name that only some programs need is imported from its module: add it there, not to this list
    assert sorted(module.__all__) == sorted(names.split())


@pytest.mark.parametrize(
    "module", [quarterdeck.api, quarterdeck.api.k8s, quarterdeck.client, quarterdeck.errors]
)
def test_every_listed_name_exists_once(module: ModuleType) -> None:
    names = module.__all__
    assert len(names) == len(set(names))
    assert [name for name in names if not hasattr(module, name)] == []


@pytest.mark.parametrize("module", [quarterdeck.api, quarterdeck.client])
def test_every_public_name_is_listed(module: ModuleType) -> None:
    submodules = {info.name for info in pkgutil.iter_modules(module.__path__)}
    # pytest rewrites the assertions of packages that bring a plugin, and leaves "@" names behind.
    public = {name for name in vars(module) if not name.startswith(("_", "@"))} - submodules
    assert public - set(module.__all__) - {"crd", "TYPE_CHECKING"} == set()


@pytest.mark.parametrize(
    ("module", "name", "place"),
    [
        (quarterdeck.api, "ListMap", "quarterdeck.api.marker"),
        (quarterdeck.client, "RestClient", "quarterdeck.client.rest"),
        (quarterdeck.runtime, "ClusterProvider", "quarterdeck.runtime.manager.cluster"),
    ],
)
def test_a_name_that_moved_is_found_and_told_where_it_is(module: ModuleType, name: str, place: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"import {name} from {place}$"):
        found = getattr(module, name)
    assert found is getattr(import_module(place), name)


@pytest.mark.parametrize("module", WITH_OLD_NAMES)
def test_every_name_that_moved_is_where_the_table_says(module: ModuleType) -> None:
    call = next(
        node.value
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__getattr__"
    )
    assert isinstance(call, ast.Call)
    modules: dict[str, str] = ast.literal_eval(call.args[1])
    missing = [
        f"{place}.{name}"
        for place, names in modules.items()
        for name in names.split()
        if not hasattr(import_module(f"quarterdeck.{place}"), name.rpartition("=")[2])
    ]
    assert missing == []


@pytest.mark.parametrize("module", WITH_OLD_NAMES)
def test_a_name_that_never_was_there_is_an_error(module: ModuleType) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        _ = module.Nothing


@pytest.mark.parametrize(
    ("room", "allowed"),
    [
        ("api", ("quarterdeck.api", "quarterdeck.errors")),
        ("wire", ("quarterdeck.api", "quarterdeck.wire", "quarterdeck.errors")),
        (
            "client",
            (
                "quarterdeck.api",
                "quarterdeck.wire",
                "quarterdeck.client",
                "quarterdeck.errors",
                "quarterdeck",
            ),
        ),
    ],
)
def test_room_imports_only_what_it_may(room: str, allowed: tuple[str, ...]) -> None:
    root = Path(quarterdeck.errors.__file__).parent / room
    for path in root.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("quarterdeck"):
                ok = any(
                    node.module == name or node.module.startswith(f"{name}.")
                    for name in allowed
                    if name != "quarterdeck"
                )
                assert ok or (node.module == "quarterdeck" and "quarterdeck" in allowed), (
                    f"{path}: {node.module}"
                )
