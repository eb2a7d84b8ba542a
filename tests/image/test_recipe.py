"""What the images are made of: packages and wheels that are locked, and a bill that names them."""

import importlib.machinery
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent.parent
TOOLS = REPOSITORY / "tools"


@pytest.fixture(scope="module")
def image() -> ModuleType:
    """`tools/image` as a module; what stands beside it is found as when it runs."""
    sys.path.insert(0, str(TOOLS))
    try:
        loader = importlib.machinery.SourceFileLoader("image_tool", str(TOOLS / "image"))
        spec = importlib.util.spec_from_loader("image_tool", loader)
        assert spec is not None
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    finally:
        sys.path.remove(str(TOOLS))
    return module


@pytest.mark.parametrize("architecture", ["amd64", "arm64"])
def test_every_package_is_locked_by_digest(image: ModuleType, architecture: str) -> None:
    locked = json.loads(image.LOCK.read_text())
    assert locked["suite"] == image.SUITE
    packages = locked["packages"][architecture]
    assert [one["name"] for one in packages] == list(image.PACKAGES)
    assert all(re.fullmatch("[0-9a-f]{64}", one["sha256"]) for one in packages)
    assert {one["architecture"] for one in packages} == {architecture, "all"}


def test_both_recipes_have_the_same_python(image: ModuleType) -> None:
    text = (REPOSITORY / "deploy" / "Containerfile").read_text()
    assert f"library/python:{image.PYTHON}-slim" in text


def test_both_recipes_have_the_same_user_and_program(image: ModuleType) -> None:
    text = (REPOSITORY / "deploy" / "Containerfile").read_text()
    assert text.count(f"USER {image.USER}\n") == len(image.FLAVOURS)
    assert text.count(f'ENTRYPOINT ["/{image.ENTRYPOINT}"]\n') == len(image.FLAVOURS)


def test_the_full_image_has_what_every_provider_needs(image: ModuleType) -> None:
    assert {"numpy", "boto3", "grpcio", "rich", "aiohttp"} <= image.needed(image.FLAVOURS[0])


def test_the_image_of_the_node_agent_is_without_numpy_and_a_cloud(image: ModuleType) -> None:
    names = image.needed(image.FLAVOURS[1])
    assert names.isdisjoint({"numpy", "boto3", "botocore", "rich"})
    assert {"grpcio", "protobuf", "aiohttp", "prometheus-client"} <= names


def test_nothing_for_development_is_in_an_image(image: ModuleType) -> None:
    for flavour in image.FLAVOURS:
        assert image.needed(flavour).isdisjoint({"pytest", "mypy", "moto", "pip", "hatchling"})


def test_a_wheel_that_would_write_elsewhere_is_refused(image: ModuleType, tmp_path: Path) -> None:
    import zipfile

    wheel = tmp_path / "x.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("../outside.py", "")
    with pytest.raises(image.ImageError, match="outside of where wheels go"):
        image.unpack_wheel(wheel, tmp_path / "site")


def test_scripts_of_wheels_are_left_out_and_their_libraries_are_not(
    image: ModuleType, tmp_path: Path
) -> None:
    import zipfile

    wheel, site = tmp_path / "x.whl", tmp_path / "site"
    site.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in ("a.py", "x-1.data/scripts/run", "x-1.data/platlib/b.py"):
            archive.writestr(name, "")
    image.unpack_wheel(wheel, site)
    assert sorted(path.name for path in site.rglob("*") if path.is_file()) == ["a.py", "b.py"]


def test_the_bill_names_packages_and_distributions(image: ModuleType, tmp_path: Path) -> None:
    info = tmp_path / "Some_Thing-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: Some_Thing\nVersion: 1.2\nLicense-Expression: MIT\n\n")
    package = image.sbom.Package("libc6", "2.41", "arm64", "0" * 64)
    bill = json.loads(
        image.sbom.document(
            "tonnage",
            "1",
            packages=[package],
            site_packages=tmp_path,
            created="2026-01-01T00:00:00Z",
        )
    )
    assert [one["purl"] for one in bill["components"]] == [
        "pkg:deb/debian/libc6@2.41?arch=arm64",
        "pkg:pypi/some-thing@1.2",
    ]
    assert bill["components"][1]["licenses"] == [{"expression": "MIT"}]
