"""The page is plain JavaScript with types: those of what it is sent come from the records."""

import json
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from tests.board import typescript

STATIC = Path(str(resources.files("tonnage.board").joinpath("static")))
CHART = Path(str(resources.files("tonnage.report").joinpath("static/chart.js")))

TSC = Path(__file__).resolve().parents[2] / "tools" / "tsc"


def test_the_types_of_what_is_sent_are_those_of_the_records() -> None:
    assert (STATIC / "documents.d.ts").read_text() == typescript.declarations()


def test_the_compiler_has_no_complaint(tmp_path: Path) -> None:
    asked = subprocess.run([sys.executable, TSC, "path"], capture_output=True, text=True)
    if asked.returncode != 0:
        pytest.skip(asked.stderr.strip())
    compiler = asked.stdout.strip()
    vendor = STATIC / "vendor"
    settings = {
        "compilerOptions": {
            "allowJs": True,
            "checkJs": True,
            "noEmit": True,
            "strict": True,
            "noImplicitAny": False,
            "skipLibCheck": True,
            "target": "es2022",
            "module": "esnext",
            "moduleResolution": "bundler",
            "lib": ["es2022", "dom", "dom.iterable"],
            "types": [],
            "paths": {
                name: [str(tmp_path / "others.d.ts")]
                for name in ("preact", "preact/hooks", "@preact/signals", "htm")
            },
        },
        "files": [str(STATIC / "board.js"), str(STATIC / "documents.d.ts"), str(CHART)],
        "exclude": [str(vendor)],
    }
    # What others wrote has types in packages that are not here.
    (tmp_path / "others.d.ts").write_text(
        "declare const htm: {bind(one: any): any}; export default htm;\n"
        "export type Signal<T> = {value: T};\n"
        "export function signal<T>(value: T): Signal<T>;\n"
        "export function computed<T>(of: () => T): Signal<T>;\n"
        "export function effect(act: () => any): void;\n"
        "export function batch(act: () => any): void;\n"
        "export function h(kind: any, props: any): any;\n"
        "export function render(what: any, into: HTMLElement): void;\n"
        "export function useRef<T>(value: T): {current: T};\n"
        "export function useEffect(act: () => any, on?: any[]): void;\n"
        "export function useLayoutEffect(act: () => any, on?: any[]): void;\n"
    )
    project = tmp_path / "tsconfig.json"
    project.write_text(json.dumps(settings))
    ran = subprocess.run([compiler, "-p", str(project)], capture_output=True, text=True)
    assert ran.stdout == ""
    assert ran.returncode == 0
