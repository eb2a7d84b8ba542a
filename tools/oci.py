"""An OCI image layout, written without an engine: the same files give the same bytes.

Entries of a layer are in order of their names, owned by root, with one time for all; everything
in a layout is named by its digest, and JSON has its keys in order.
"""

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
REFERENCE = "org.opencontainers.image.ref.name"
_LEVEL = 6


class Layer(NamedTuple):
    """`data` is compressed; `diff_id` is the digest of what it was before."""

    data: bytes
    diff_id: str
    comment: str


class Image(NamedTuple):
    """For one architecture; `settings` is the `config` part of an image's configuration."""

    architecture: str
    layers: Sequence[Layer]
    settings: Mapping[str, Any]


def layer(root: Path, *, time: int, comment: str) -> Layer:
    """All of a directory. Modes are kept as far as they say who may run and write."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(_below(root), key=lambda path: path.relative_to(root).parts):
            entry = archive.gettarinfo(path, arcname=str(path.relative_to(root)))
            if entry.islnk():
                # Which of two names for one file comes first must not matter.
                entry.type, entry.linkname, entry.size = tarfile.REGTYPE, "", path.stat().st_size
            _make_anonymous(entry, path, time=time)
            if entry.isreg():
                with path.open("rb") as file:
                    archive.addfile(entry, file)
            elif entry.isdir() or entry.issym():
                archive.addfile(entry)
            else:
                raise ValueError(f"{path}: expected a file, a directory or a link")
    plain = packed.getvalue()
    return Layer(gzip.compress(plain, _LEVEL, mtime=0), digest(plain), comment)


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def write_layout(
    directory: Path,
    images: Iterable[Image],
    *,
    name: str,
    created: str,
    annotations: Mapping[str, str],
) -> str:
    """One image for several architectures as a layout; gives the digest of its index."""
    blobs = directory / "blobs" / "sha256"
    blobs.mkdir(parents=True)

    def keep(data: bytes, kind: str) -> dict[str, Any]:
        found = digest(data)
        (blobs / found.removeprefix("sha256:")).write_bytes(data)
        return {"mediaType": kind, "digest": found, "size": len(data)}

    manifests = []
    for image in sorted(images, key=lambda image: image.architecture):
        config = {
            "created": created,
            "architecture": image.architecture,
            "os": "linux",
            "config": image.settings,
            "rootfs": {"type": "layers", "diff_ids": [one.diff_id for one in image.layers]},
            "history": [{"created": created, "comment": one.comment} for one in image.layers],
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": keep(_json(config), CONFIG),
            "layers": [keep(one.data, LAYER) for one in image.layers],
            "annotations": annotations,
        }
        platform = {"architecture": image.architecture, "os": "linux"}
        manifests.append({**keep(_json(manifest), MANIFEST), "platform": platform})
    index = keep(
        _json(
            {
                "schemaVersion": 2,
                "mediaType": INDEX,
                "manifests": manifests,
                "annotations": annotations,
            }
        ),
        INDEX,
    )
    top = {
        "schemaVersion": 2,
        "mediaType": INDEX,
        "manifests": [{**index, "annotations": {REFERENCE: name}}],
    }
    (directory / "index.json").write_bytes(_json(top))
    (directory / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    return str(index["digest"])


def _make_anonymous(entry: tarfile.TarInfo, path: Path, *, time: int) -> None:
    """Who packed it, and when, must not matter."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = time
    entry.mode = _mode(path)


def pack(directory: Path, archive: Path, *, time: int) -> None:
    """A layout as one tar file, as `skopeo copy oci-archive:` reads it."""
    with tarfile.open(archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(_below(directory)):
            entry = tar.gettarinfo(path, arcname=str(path.relative_to(directory)))
            _make_anonymous(entry, path, time=time)
            if entry.isreg():
                with path.open("rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)


def unpack(directory: Path, architecture: str, into: Path) -> Mapping[str, Any]:
    """The file system of an image in a layout, every digest checked; gives its settings."""

    def read(descriptor: Mapping[str, Any]) -> bytes:
        name = str(descriptor["digest"])
        data = (directory / "blobs" / "sha256" / name.removeprefix("sha256:")).read_bytes()
        if digest(data) != name:
            raise ValueError(f"{name}: the blob is another one")
        return data

    top = json.loads((directory / "index.json").read_bytes())
    index = json.loads(read(top["manifests"][0]))
    (chosen,) = [
        one for one in index["manifests"] if one["platform"]["architecture"] == architecture
    ]
    manifest = json.loads(read(chosen))
    config = json.loads(read(manifest["config"]))
    for descriptor, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        plain = gzip.decompress(read(descriptor))
        if digest(plain) != diff_id:
            raise ValueError(f"{diff_id}: the layer is another one")
        with tarfile.open(fileobj=io.BytesIO(plain)) as archive:
            archive.extractall(into, filter="fully_trusted")  # its digest is known
    settings: Mapping[str, Any] = config["config"]
    return settings


def _below(root: Path) -> Iterable[Path]:
    for folder, directories, files in os.walk(root):
        for name in (*directories, *files):
            yield Path(folder) / name


def _mode(path: Path) -> int:
    found = path.lstat().st_mode
    if stat.S_ISLNK(found):
        return 0o777
    if stat.S_ISDIR(found):
        return 0o1777 if found & stat.S_ISVTX else 0o755
    return 0o755 if found & stat.S_IXUSR else 0o644


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
