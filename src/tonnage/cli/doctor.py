"""`tonnage doctor`: what will go wrong with volumes in a cluster, and what to do about it."""

import time
from typing import TYPE_CHECKING

import click

from tonnage.cli import cluster_access, cluster_source, console, progress_line

if TYPE_CHECKING:
    from tonnage.doctor.evidence import Evidence
    from tonnage.doctor.findings import Finding
    from tonnage.doctor.preview import OptInPreview

FOUND = 1
"""The exit code when something is wrong with the cluster, not with the question."""
NOTHING_TO_LOOK_AT = "Nothing to look at: no node, no pod, no volume and no CSI driver."


@click.group(invoke_without_command=True)
@cluster_source.filename_option
@cluster_access.options
@cluster_source.node_groups_option(
    "NodeGroup manifests, or a KubeSchedulerConfiguration, beside the cluster"
)
@cluster_source.version_option
@cluster_source.gates_option
@click.option(
    "--preview",
    metavar="opt-in=DRIVER",
    help="Say which nodes and pods it would affect if the driver opted in.",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning", "never"]),
    default="error",
    show_default=True,
    help="The least severity for which the exit code is 1.",
)
@console.output_option
@click.pass_context
def doctor(
    ctx: click.Context,
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    node_groups: tuple[str, ...],
    kubernetes_version: str,
    feature_gates: dict[str, bool],
    preview: str | None,
    fail_on: str,
    form: console.Format,
) -> None:
    """Find what will go wrong with volumes, before it does.

    Looks at drivers that opted in, attach limits, startup taints, rights of autoscalers, extenders
    and storage capacity. Every finding has a code that never changes its meaning: "tonnage doctor
    explain CODE" says what it means and what to do. Nothing is changed.

    \b
    Examples:
      tonnage doctor
      tonnage doctor --context production --node-groups groups.yaml
      tonnage doctor -f cluster/ -f kube-scheduler.yaml -o json
      tonnage doctor --preview opt-in=ebs.csi.aws.com
      tonnage doctor explain TON304
    """
    if ctx.invoked_subcommand is not None:
        return
    from tonnage.doctor.evidence import KINDS_BESIDE

    driver = _driver(preview)
    evidence = gathered(
        filenames,
        live,
        beside=node_groups,
        kubernetes_version=kubernetes_version,
        feature_gates=feature_gates,
        documents=KINDS_BESIDE,
    )
    if driver is not None:
        from tonnage.doctor import preview as previews

        _print_preview(previews.opting_in(evidence, driver), form)
        return
    from tonnage.doctor import inspection

    with progress_line.shown("inspecting"):
        findings = inspection.inspect(evidence)
    if evidence.nothing_to_look_at and not findings:
        _print_nothing(form)
    else:
        _print_findings(findings, form)
    severities = {"error": {"error"}, "warning": {"error", "warning"}, "never": set()}[fail_on]
    if any(one.severity in severities for one in findings):
        ctx.exit(FOUND)


@doctor.command(short_help="Say what the code of a finding means, and what to do.")
@click.argument("code", required=False)
@console.output_option
def explain(code: str | None, form: console.Format) -> None:
    """Say what a finding's code means and what to do; all codes if none is given.

    \b
    Examples:
      tonnage doctor explain TON304
      tonnage doctor explain
    """
    from tonnage.doctor import codes

    chosen = [codes.explained(code)] if code else list(codes.ALL.values())
    if form in ("json", "yaml"):
        console.print_document("FindingCodeList", form=form, codes=chosen)
    elif code is None:
        console.print_table(["CODE", "TITLE"], [[one.code, one.title] for one in chosen])
    else:
        (one,) = chosen
        console.echo(f"{one.code}: {one.title}", bold=True)
        console.echo()
        console.print_lines(f"{click.wrap_text(one.meaning, 79)}\n\n")
        console.print_lines(click.wrap_text(f"What to do: {one.fix}", 79) + "\n")


def gathered(
    filenames: tuple[str, ...],
    live: cluster_access.ClusterChoice,
    *,
    beside: tuple[str, ...] = (),
    kubernetes_version: str = "",
    feature_gates: dict[str, bool] | None = None,
    documents: frozenset[str] = frozenset(),
) -> "Evidence":
    """What there is to look at, leniently: an object that cannot be read is told, and left out.

    `documents` are kinds to be looked at beside those that decisions read.
    """
    from tonnage.doctor.evidence import Evidence
    from tonnage.files import ScenarioOptions
    from tonnage.rules import features

    loaded = cluster_source.read(filenames, live, lenient=True, beside=beside, documents=documents)
    scenario = loaded.scenario or ScenarioOptions()
    return Evidence(
        loaded.objects,
        features=features.of_version(
            kubernetes_version or scenario.kubernetes_version,
            {**scenario.feature_gates, **(feature_gates or {})},
        ),
        now=time.time(),
        beside=loaded.beside,
    )


def _driver(preview: str | None) -> str | None:
    if preview is None:
        return None
    what, _, driver = preview.partition("=")
    if what != "opt-in" or not driver:
        raise click.BadParameter(f"{preview!r}: expected opt-in=DRIVER", param_hint="'--preview'")
    return driver


def _print_findings(findings: "list[Finding]", form: console.Format) -> None:
    if form in ("json", "yaml"):
        console.print_document("FindingList", form=form, findings=findings)
        return
    if not findings:
        console.echo("No findings.")
        return
    console.print_table(
        ["CODE", "SEVERITY", "OBJECT", "FINDING"],
        [[one.code, one.severity, one.object, one.message] for one in findings],
        alarming={at for at, one in enumerate(findings) if one.severity == "error"},
    )
    console.echo()
    console.echo('Meaning and remedy of each: "tonnage doctor explain CODE".')


def _print_nothing(form: console.Format) -> None:
    """No finding on nothing is no good news."""
    if form in ("json", "yaml"):
        _print_findings([], form)
        console.note(NOTHING_TO_LOOK_AT)
    else:
        console.echo(NOTHING_TO_LOOK_AT)


def _print_preview(found: "OptInPreview", form: console.Format) -> None:
    if form in ("json", "yaml"):
        console.print_record(found, form=form)
        return
    if found.opted_in_already:
        console.echo(f"{found.driver} has opted in already.")
    console.echo(
        f"{len(found.nodes)} of {found.nodes_in_all} nodes lack {found.driver} and would take no"
        " pod with its volumes" + _named(found.nodes)
    )
    end = ":" if found.waiting else "."
    console.echo(f"{len(found.waiting)} waiting pods would fit on fewer nodes{end}")
    if found.waiting:
        rows = [[one.pod, str(one.fits_now), str(one.fits_then)] for one in found.waiting]
        console.print_table(["POD", "FITS NOW", "FITS THEN"], rows)
    console.echo(
        f"{len(found.running)} pods run on such nodes; they stay, and could not come back"
        + _named(found.running)
    )
    console.echo(f"{len(found.groups)} node groups could not grow for it" + _named(found.groups))


def _named(names: tuple[str, ...], *, most: int = 10) -> str:
    if not names:
        return "."
    rest = f", and {len(names) - most:,} more" if len(names) > most else ""
    return f": {', '.join(names[:most])}{rest}."
