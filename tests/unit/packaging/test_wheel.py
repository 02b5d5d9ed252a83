"""What is in the wheel, and what is not."""

from __future__ import annotations

import configparser
import hashlib
import re
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from hatchling.builders.wheel import WheelBuilder

import sbom

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel as the build makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    (made,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    return Path(made)


@pytest.fixture(scope="module")
def contents(wheel: Path) -> frozenset[PurePosixPath]:
    """Its files."""
    with zipfile.ZipFile(wheel) as archive:
        return frozenset(map(PurePosixPath, archive.namelist()))


def test_it_has_the_package_and_nothing_else(contents: frozenset[PurePosixPath]) -> None:
    tops = {path.parts[0] for path in contents}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"quarterdeck", "quarterdeck_pytest.py"}
    assert len(tops) == 3


def test_it_has_no_tests_no_harness_and_no_cases(contents: frozenset[PurePosixPath]) -> None:
    strange = {"tests", "harness", "cases", "conftest.py", "__pycache__"}
    assert [str(path) for path in contents if strange & set(path.parts)] == []
    examples = PurePosixPath("quarterdeck/examples")
    tests = [path for path in contents if path.name.startswith("test_")]
    assert [str(path) for path in tests if not path.is_relative_to(examples)] == []


def test_it_has_the_examples(contents: frozenset[PurePosixPath]) -> None:
    wanted = {
        PurePosixPath("quarterdeck") / path.relative_to(ROOT).as_posix()
        for path in (ROOT / "examples").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(map(str, wanted - contents)) == []
    assert len(wanted) > 50, "the examples are elsewhere"


def test_it_is_typed(contents: frozenset[PurePosixPath]) -> None:
    assert PurePosixPath("quarterdeck/py.typed") in contents


def test_it_has_every_module_and_every_data_file(contents: frozenset[PurePosixPath]) -> None:
    wanted = {
        PurePosixPath(path.relative_to(SOURCE).as_posix())
        for path in SOURCE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert sorted(map(str, wanted - contents)) == []
    kinds = {path.suffix for path in wanted}
    assert {".py", ".yaml"} <= kinds, "there are data files, or this test looks in the wrong place"


def test_its_entry_points_are_modules_of_it(wheel: Path, contents: frozenset[PurePosixPath]) -> None:
    (listed,) = (path for path in contents if path.name == "entry_points.txt")
    points = configparser.ConfigParser(delimiters=("=",))
    with zipfile.ZipFile(wheel) as archive:
        points.read_string(archive.read(str(listed)).decode())
    assert "quarterdeck.operators" in points.sections()
    for section in points.sections():
        for name, target in points.items(section):
            module = PurePosixPath(*target.partition(":")[0].split("."))
            assert {module.with_suffix(".py"), module / "__init__.py"} & contents, (section, name, target)


def test_the_library_of_the_page_is_the_one_that_was_published(contents: frozenset[PurePosixPath]) -> None:
    vendor = SOURCE / "quarterdeck" / "dashboard" / "page" / "vendor"
    digest = hashlib.sha256((vendor / "htm-preact.js").read_bytes()).hexdigest()
    assert digest in (ROOT / "docs" / "adr" / "0034-htm-preact.md").read_text()
    for licence in ("LICENSE.htm", "LICENSE.preact"):
        assert PurePosixPath("quarterdeck/dashboard/page/vendor") / licence in contents


def test_the_bill_of_materials_lists_every_dependency() -> None:
    document = sbom.bill()
    names = {each["name"].lower() for each in document["components"]}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {re.split(r"[<>=;\[ ]", each)[0].lower() for each in declared} <= names
    assert {"htm", "preact"} <= names
    known = {each["bom-ref"] for each in document["components"]}
    assert all(set(each["dependsOn"]) <= known for each in document["dependencies"])


def test_it_says_which_pythons_it_is_for(wheel: Path, contents: frozenset[PurePosixPath]) -> None:
    (listed,) = (path for path in contents if path.name == "METADATA")
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(str(listed)).decode()
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {version}" in metadata
    assert "Classifier: Typing :: Typed" in metadata


def test_chart_and_image_have_the_version_of_the_package() -> None:
    from quarterdeck import __version__

    chart = (ROOT / "deploy" / "chart" / "Chart.yaml").read_text()
    assert re.findall(r"^(?:version|appVersion): (.*)$", chart, re.MULTILINE) == [__version__] * 2
    base = (ROOT / "deploy" / "kustomize" / "production" / "kustomization.yaml").read_text()
    assert re.findall(r"newTag: (.*)$", base, re.MULTILINE) == [__version__]


def test_the_addresses_of_the_pages_are_the_same_everywhere() -> None:
    from quarterdeck.cli.argument import DOCS

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["urls"]["Documentation"] == DOCS
    assert f"site_url: {DOCS}/" in (ROOT / "mkdocs.yml").read_text()
