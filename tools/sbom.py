"""A bill of materials in CycloneDX 1.6: Debian packages and Python distributions of an image."""

import email.parser
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Package(NamedTuple):
    """A Debian package as the lock names it."""

    name: str
    version: str
    architecture: str
    sha256: str


def document(
    name: str, version: str, *, packages: Iterable[Package], site_packages: Path, created: str
) -> str:
    """Sorted and without a serial number, so that the same contents give the same text."""
    components = [_debian(one) for one in packages] + list(_distributions(site_packages))
    components.sort(key=lambda one: (one["purl"], one["name"]))
    made = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": created,
            "component": {
                "type": "container",
                "bom-ref": name,
                "name": name,
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
        },
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [str(one["bom-ref"]) for one in components]}],
    }
    return json.dumps(made, indent=1) + "\n"


def _debian(package: Package) -> dict[str, Any]:
    purl = f"pkg:deb/debian/{package.name}@{package.version}?arch={package.architecture}"
    return {
        "type": "library",
        "bom-ref": purl,
        "name": package.name,
        "version": package.version,
        "purl": purl,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def _distributions(site_packages: Path) -> Iterable[dict[str, Any]]:
    for path in sorted(site_packages.glob("*.dist-info/METADATA")):
        said = email.parser.Parser().parsestr(path.read_text(), headersonly=True)
        yield _distribution({key.lower(): value for key, value in said.items()})


def _distribution(said: Mapping[str, str]) -> dict[str, Any]:
    name, version = said["name"], said["version"]
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    made: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    if expression := said.get("license-expression"):
        made["licenses"] = [{"expression": expression}]
    return made
