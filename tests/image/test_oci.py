"""The writer of image layouts: the same files give the same bytes, and come out as they went in."""

import importlib.util
import json
import os
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _loaded(name: str) -> ModuleType:
    path = Path(__file__).resolve().parent.parent.parent / "tools" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


oci = _loaded("oci")
SETTINGS = {"User": "65532:65532", "Entrypoint": ["/bin/x"]}


def a_root(directory: Path, *, order: int = 1) -> Path:
    """A few files, made in one order or the other."""
    directory.mkdir()
    for name in ("a", "b")[::order]:
        (directory / name).mkdir()
        (directory / name / "file").write_text(name)
    (directory / "program").write_text("run")
    (directory / "program").chmod(0o700)
    (directory / "link").symlink_to("a/file")
    (directory / "tmp").mkdir()
    (directory / "tmp").chmod(0o1777)
    return directory


def a_layout(directory: Path, root: Path, *, architectures: tuple[str, ...] = ("amd64",)) -> str:
    layer = oci.layer(root, time=0, comment="files")
    images = [oci.Image(one, [layer], SETTINGS) for one in architectures]
    made: str = oci.write_layout(
        directory, images, name="x:1", created="2026-01-01T00:00:00Z", annotations={"a": "b"}
    )
    return made


def test_the_same_files_give_the_same_layer_whenever_and_however_they_were_made(
    tmp_path: Path,
) -> None:
    first, second = a_root(tmp_path / "1"), a_root(tmp_path / "2", order=-1)
    os.utime(second / "program", (5, 5))
    assert oci.layer(first, time=0, comment="") == oci.layer(second, time=0, comment="")


def test_two_names_of_one_file_are_two_files(tmp_path: Path) -> None:
    root, other = a_root(tmp_path / "1"), a_root(tmp_path / "2")
    os.link(root / "a" / "file", root / "same")
    (other / "same").write_text("a")
    assert oci.layer(root, time=0, comment="") == oci.layer(other, time=0, comment="")


def test_another_byte_gives_another_digest(tmp_path: Path) -> None:
    root = a_root(tmp_path / "1")
    before = oci.layer(root, time=0, comment="").diff_id
    (root / "a" / "file").write_text("x")
    assert oci.layer(root, time=0, comment="").diff_id != before


def test_what_comes_out_of_a_layout_is_what_went_in(tmp_path: Path) -> None:
    a_layout(tmp_path / "layout", a_root(tmp_path / "root"))
    out = tmp_path / "out"
    settings = oci.unpack(tmp_path / "layout", "amd64", out)
    assert settings == SETTINGS
    assert (out / "link").read_text() == "a"
    modes = [(out / name).stat().st_mode & 0o7777 for name in ("program", "tmp", "a/file")]
    assert modes == [0o755, 0o1777, 0o644]


def test_every_architecture_is_in_the_index(tmp_path: Path) -> None:
    digest = a_layout(
        tmp_path / "layout", a_root(tmp_path / "root"), architectures=("arm64", "amd64")
    )
    blob = tmp_path / "layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")
    platforms = [
        one["platform"]["architecture"] for one in json.loads(blob.read_text())["manifests"]
    ]
    assert platforms == ["amd64", "arm64"]


def test_every_blob_has_the_name_of_its_digest(tmp_path: Path) -> None:
    a_layout(tmp_path / "layout", a_root(tmp_path / "root"))
    for blob in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        assert oci.digest(blob.read_bytes()) == f"sha256:{blob.name}"


def test_a_blob_that_was_changed_is_noticed(tmp_path: Path) -> None:
    digest = a_layout(tmp_path / "layout", a_root(tmp_path / "root"))
    blob = tmp_path / "layout" / "blobs" / "sha256" / digest.removeprefix("sha256:")
    blob.write_bytes(blob.read_bytes() + b" ")
    with pytest.raises(ValueError, match="the blob is another one"):
        oci.unpack(tmp_path / "layout", "amd64", tmp_path / "out")


def test_a_layout_packed_twice_is_the_same_file(tmp_path: Path) -> None:
    for name in ("1", "2"):
        a_layout(tmp_path / f"layout{name}", a_root(tmp_path / f"root{name}"))
        oci.pack(tmp_path / f"layout{name}", tmp_path / f"{name}.tar", time=0)
    assert (tmp_path / "1.tar").read_bytes() == (tmp_path / "2.tar").read_bytes()


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(a_root(tmp_path / "root") / "pipe")
    with pytest.raises(ValueError, match="expected a file"):
        oci.layer(tmp_path / "root", time=0, comment="")
