"""`tonnage sweep`: one question asked of many variants of a cluster."""

from typing import Any

import click

from tonnage.cli import (
    cluster_access,
    cluster_source,
    console,
    engines,
    help_sections,
    plan_settings,
)

SECTIONS = {
    "Clusters": ("--filename", "--batch", "--node-groups", "--kubeconfig", "--context"),
    "Question": ("--ask", "--vary", "--now"),
    "Results": ("--results", "--resume", "--html", "--parquet", "--whole-answers", "--output"),
    "Where to work": ("--jobs", "--engine", "--tls-ca", "--tls-certificate", "--tls-key"),
    "As a Job of Kubernetes": ("--render-job", "--gather", "--image", "--parts"),
}
RARE = {
    "More of the Job": (
        "--job-name",
        "--namespace",
        "--parallelism",
        "--claim",
        "--write-bundle",
        "--bundle",
        "--part",
    ),
    "Cluster": ("--lenient", "--request-timeout"),
    "Decision": (
        "--expander",
        "--optimise",
        "--priorities",
        "--balance",
        "--csi-aware",
        "--max-nodes-total",
        "--time-budget",
        "--seed",
        "--option",
        "--enforce-opt-in",
    ),
}


@click.command(
    cls=help_sections.SectionedCommand,
    sections=SECTIONS,
    rare=RARE,
)
@click.argument("sweep_file", required=False, metavar="[SWEEP]")
@cluster_source.filename_option
@click.option(
    "--batch", metavar="FILE", help="Many clusters: a file of JSON lines, one Scenario on each."
)
@cluster_source.node_groups_option("NodeGroups beside a cluster")
@cluster_access.options
@cluster_source.lenient_option
@click.option(
    "--ask",
    type=click.Choice(["plan", "scale-down", "simulate", "explore"]),
    help="What is asked of each variant.  [default: plan, or what the file says]",
)
@click.option(
    "--vary",
    metavar="CHANGE",
    multiple=True,
    help="A change with several values, as --what-if of plan has it with one: "
    "limit=DRIVER:16,25,39, max-size=GROUP:0..40..5, min-size=, price=GROUP:0.1..0.5..0.05, "
    "replicas=NAMESPACE/POD:1..9, option=NAME:A,B, seed=0..99, add-pods=FILE,FILE, "
    "remove-node=A,B, opt-in=DRIVER; - is as it is. Repeatable: all values with all others.",
)
@plan_settings.takes_settings
@plan_settings.now_option
@console.file_option(
    "--results", "results_file", help="Write a line of JSON for each variant as it is answered."
)
@click.option("--resume", is_flag=True, help="Go on with the --results of a run that was stopped.")
@console.file_option(
    "--html", "html_file", help="Write the summary with charts; it needs no network and no scripts."
)
@click.option(
    "--parquet",
    "parquet_file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the results as a table of Apache Parquet (the extra parquet).",
)
@click.option("--whole-answers", is_flag=True, help="Keep each plan or timeline, not figures only.")
@console.output_as(
    "table",
    "json",
    "jsonl",
    "none",
    help="What to print: the summary as table or json, or the results as lines.",
)
@engines.options
@click.option(
    "--render-job",
    is_flag=True,
    help="Do not run: print an Indexed Job of Kubernetes that does.",
)
@click.option(
    "--gather",
    "gathered",
    metavar="SOURCE",
    multiple=True,
    help="Do not run: take the results of a Job from its logs (- for standard input), from files "
    "or folders; repeatable.",
)
@click.option("--image", metavar="NAME", help="Image of the Job.  [default: tonnage:VERSION]")
@click.option(
    "--parts",
    type=click.IntRange(min=1),
    metavar="N",
    help="Parts that variants are cut into: indexes of the Job.  [default: 8]",
)
@click.option(
    "--parallelism", type=click.IntRange(min=1), metavar="N", help="Pods at once.  [default: parts]"
)
@click.option("--job-name", metavar="NAME", default="tonnage-sweep", show_default=True)
@click.option("--namespace", metavar="NAME", default="default", show_default=True)
@click.option(
    "--claim",
    metavar="NAME",
    default="",
    help="PersistentVolumeClaim for results, which pods that start again go on with.",
)
@console.file_option(
    "--write-bundle", help="Do not run: write the sweep with its clusters into one file."
)
@click.option("--bundle", metavar="FILE", help="Run a sweep that --write-bundle or a Job has.")
@click.option(
    "--part",
    type=click.IntRange(min=0),
    metavar="K",
    envvar="JOB_COMPLETION_INDEX",
    help="With --bundle and --parts: only this part, from 0.  [env: JOB_COMPLETION_INDEX]",
)
@click.pass_context
def sweep(ctx: click.Context, /, **given: Any) -> None:
    """Ask one question of many variants of a cluster, and compare the answers.

    Variants are all values of all --vary, of every cluster; or SWEEP, a file that lists them. Each
    is planned for, or played, on its own. What fails is a line with its error, and the others go
    on. Exit code 3 says that some variants failed, 1 that the engine did or that results are
    missing.

    \b
    Examples:
      tonnage sweep -f cluster/ --vary limit=ebs.csi.aws.com:16,25,39 --vary max-size=db:0..20..5
      tonnage sweep examples/sweeps/slots-and-prices.yaml --html sweep.html
      tonnage sweep -f cluster/ --vary replicas=shop/orders-0:1..50 --results results.jsonl --resume
      tonnage sweep --ask simulate -f scenario.yaml --vary seed=0..29 --html seeds.html
      tonnage sweep --ask explore --vary seed=0..499 --engine tls://scheduler:8786 \\
        --tls-ca ca.pem --tls-certificate cert.pem --tls-key key.pem
      tonnage sweep -f cluster/ --vary seed=0..9999 --render-job --parts 20 | kubectl apply -f -
      kubectl logs -l app.kubernetes.io/instance=tonnage-sweep --tail=-1 | tonnage sweep --gather -
    """
    from tonnage.cli import sweep_input, sweep_run

    code = sweep_run.run(sweep_input.SweepOptions(**given))
    if code:
        ctx.exit(code)
