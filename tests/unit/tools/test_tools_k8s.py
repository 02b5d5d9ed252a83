"""The classes of the built-in kinds follow from the recorded facts, and a bump brings along what is new."""

import json
import subprocess
import sys
from typing import Any

import pytest

from k8s import models
from k8s.layout import MODULES
from kube import server

BATCH = next(module for module in MODULES if module.name == "batch")


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    return tuple(json.loads((models.DATA / name).read_text()) for name in ("types.json", "resources.json"))


def generated(job_spec_field: list[Any], new_types: dict[str, Any] | None = None) -> str:
    """The batch module, had a release given jobs one more field."""
    types, resources = recorded()
    types["types"]["io.k8s.api.batch.v1.JobSpec"]["fields"].append(job_spec_field)
    types["types"] |= new_types or {}
    return models.Source(models.Facts(types, resources), BATCH).text()


def test_the_committed_classes_are_what_the_facts_give() -> None:
    assert models.drift(server.VERSION) == []


def test_a_changed_fact_is_drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    types, resources = recorded()
    del types["types"]["io.k8s.api.batch.v1.JobSpec"]["fields"][0]
    (tmp_path / "types.json").write_text(json.dumps(types))
    (tmp_path / "resources.json").write_text(json.dumps(resources))
    monkeypatch.setattr(models, "DATA", tmp_path)
    assert models.drift(server.VERSION) == ["batch.py"]


def test_another_release_changes_the_version_everywhere() -> None:
    assert "__init__.py" in models.drift("v1.99.0")
    assert 'KUBERNETES_VERSION: Final = "v1.99.0"' in models.sources("v1.99.0")["__init__.py"]


@pytest.mark.parametrize(
    ("field", "line"),
    [
        (["plain", "string", 99, 1], 'plain: str = omitempty("")'),
        (["needed", "string", 99, 8], 'needed: Annotated[str, Required()] = omitempty("")'),
        (["maybe", "string", 99, 3], "maybe: Maybe[str] = UNSET"),
        (["count", "int32", 99, 1], "count: Annotated[Maybe[int], Int32] = UNSET"),
        (["at", "time", 99, 1], "at: OptionalTime = UNSET"),
        (["set", "[]string", 99, 1, {"list": "set"}], "set: Annotated[Seq[str], ListSet()] = omitempty(())"),
        (["sizes", "{}quantity", 99, 1], "sizes: Map[str, Quantity] = omitempty(EMPTY_MAP)"),
        (["who", "{}strings", 99, 1], "who: Map[str, Seq[str]] = omitempty(EMPTY_MAP)"),
        (["raw", "rawExtension", 99, 1], "raw: Annotated[Maybe[JsonObjectField], Preserve()] = UNSET"),
        (["mode", "string", 99, 3, {"default": "A"}], "mode: Annotated[Maybe[str], Default('A')] = UNSET"),
        (
            ["storageUri", "string", 99, 3],
            'storage_uri: Maybe[str] = field(name="storageUri", default=UNSET)',
        ),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_new_field_is_declared_by_its_facts(field: list[Any], line: str) -> None:
    assert f"    {line}\n" in generated(field)


def test_a_new_type_comes_along_before_the_one_that_uses_it() -> None:
    news = {"io.k8s.api.batch.v1.News": {"fields": [["text", "string", 1, 1]], "atomic": True}}
    text = generated(["news", "io.k8s.api.batch.v1.News", 99, 1], news)
    assert "class News(Model, rules=[Atomic()]):" in text
    assert text.index("class News(") < text.index("class JobSpec(")
    assert '"News"' in text.partition("__all__")[2].partition("]")[0]


def test_a_type_of_another_module_is_imported_from_there() -> None:
    text = generated(["affinity", "io.k8s.api.core.v1.Affinity", 99, 3])
    assert "from quarterdeck.api.k8s.placement import Affinity\n" in text
    assert "class Affinity(" not in text


def test_a_type_that_is_gone_is_named_with_the_place_to_change() -> None:
    types, resources = recorded()
    del types["types"]["io.k8s.api.batch.v1.CronJob"]
    with pytest.raises(
        SystemExit, match=r"no io\.k8s\.api\.batch\.v1\.CronJob any more: .* tools/k8s/layout\.py"
    ):
        models.Facts(types, resources)


def test_no_class_carries_a_description() -> None:
    sources = models.sources(server.VERSION)
    assert [name for name, text in sources.items() if name != "__init__.py" and text.count('"""') != 2] == []


def test_only_the_modules_that_are_asked_for_are_loaded() -> None:
    program = (
        "import sys; from quarterdeck.api.k8s import Lease;"
        "print([m for m in sys.modules if m.startswith('quarterdeck.api.k8s.')])"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "['quarterdeck.api.k8s.coordination']"


def test_an_unknown_name_is_refused() -> None:
    import quarterdeck.api.k8s as package

    with pytest.raises(AttributeError, match="has no attribute 'Podd'"):
        package.Podd  # type: ignore[attr-defined]  # noqa: B018
    assert {"Pod", "k8s_scheme"} <= set(dir(package))
