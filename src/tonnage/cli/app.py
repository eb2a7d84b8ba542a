"""The root of the command line: which commands there are, and how every one of them ends.

Commands raise; here, once, what they raise becomes one line on standard error and an exit code.
"""

import os
import re
import sys
from collections.abc import Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

import click

from tonnage.cli import console
from tonnage.cli.lazy import LazyCommand, LazyGroup
from tonnage.errors import InputError, TonnageError

EXIT_FAILURE = 1
EXIT_INPUT = 2  # click's own code for a wrong flag
EXIT_INTERRUPTED = 128 + 2  # what a shell reports for SIGINT
EXIT_BROKEN_PIPE = 128 + 13  # and for SIGPIPE

_EXTRA = r"Got unexpected extra argument \((.+)\)|No such command '(.+)'\."

_SUMMARIES = {
    "demo": "Show in a minute what Tonnage is for.",
    "board": "Show a cluster live on one page, in a browser.",
    "top": "Show nodes by what is fullest, live in a terminal.",
    "explain": "Say where each pending pod fits, and why not elsewhere.",
    "slots": "Count volume attach slots of every node, used and free.",
    "plan": "Say which node groups to grow for the pending pods.",
    "advise": "Say which instance types would carry a cluster cheaper.",
    "groups": "Say which node groups a cluster has.",
    "limits": "Say how many volumes new nodes attach, and who says so.",
    "diff": "Compare two plans, say of today and of yesterday.",
    "export": "Write a cluster as one file, for bug reports and replay.",
    "run": "Run the autoscaler on a live cluster.",
    "migrate": "Turn settings of another autoscaler into Tonnage's.",
    "compare-decisions": "Show where cluster-autoscaler and Tonnage differ.",
    "capacity-templates": "Publish capacity for nodes that do not exist yet.",
    "node-agent": "Publish the true attach limits of a node, on every node.",
    "scheduler": "Schedule pods on nodes that can attach their volumes.",
    "extender": "Answer kube-scheduler about pods with volumes.",
    "embedded": "Serve a Kubernetes API from memory, nothing installed.",
    "simulate": "Play a whole cluster in virtual time.",
    "record": "Write down what happens in a cluster, as a trace.",
    "replay": "Play a trace with other settings, beside what happened.",
    "why": "Say what the running autoscaler decided about a pod.",
    "doctor": "Find what will go wrong with volumes, before it does.",
    "rescue": "Find pods stuck on nodes over their attach limit.",
    "schema": "Print the JSON schema of a document.",
    "completion": "Print a script for completion in a shell.",
    "sweep": "Ask one question of many variants of a cluster.",
    "batch": "Answer many scenarios, one line of JSON each.",
}
_SERVICES = ("run", "capacity-templates", "node-agent", "scheduler", "extender")
_LASTING = (*_SERVICES, "board", "top", "embedded", "record")
"""Those that run until they are stopped."""


def _lazy(name: str, summary: str) -> LazyCommand:
    """A command is the function of its name, in the module of its name."""
    module = name.replace("-", "_")
    return LazyCommand(f"tonnage.cli.{module}:{module}", summary, lasting=name in _LASTING)


COMMANDS = MappingProxyType({name: _lazy(name, text) for name, text in _SUMMARIES.items()})


class Program(LazyGroup):
    """The root group: no exception raised on purpose leaves it as a traceback."""

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run, and tell what click found wrong in the same words as everything else."""
        words = list(sys.argv[1:] if args is None else args)
        run = partial(super().main, args, prog_name, complete_var, standalone_mode=False, **extra)
        if not standalone_mode:
            return run()
        try:
            code: Any = run()
        except click.exceptions.NoArgsIsHelpError as error:
            for line in error.format_message().splitlines():
                console.echo(line, err=True)
            sys.exit(EXIT_INPUT)
        except click.UsageError as error:
            message = _sentence(error.format_message()) + _instead(error)
            _complain(f"{message} See {_path(error, words)} --help")
            sys.exit(EXIT_INPUT)
        except click.ClickException as error:
            _complain(error.format_message())
            sys.exit(error.exit_code)
        except click.Abort:
            sys.exit(EXIT_INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The root's own options count wherever they stand, as those of kubectl do."""
        return super().parse_args(ctx, _color_first(args))

    def invoke(self, ctx: click.Context) -> None:
        try:
            super().invoke(ctx)
            # Here, not at the interpreter's exit, where a closed pipe can no longer be handled.
            sys.stdout.flush()
        except TonnageError as error:
            _complain(str(error), *getattr(error, "__notes__", ()))
            ctx.exit(EXIT_INPUT if isinstance(error, InputError) else EXIT_FAILURE)
        except EOFError as error:
            # What gzip raises for a file that was cut off; click would say "Aborted!".
            _complain(str(error) or "the input ends too early")
            ctx.exit(EXIT_INPUT)
        except KeyboardInterrupt:
            ctx.exit(EXIT_INTERRUPTED)
        except BrokenPipeError:
            _discard_output()
            ctx.exit(EXIT_BROKEN_PIPE)


@click.group(
    name="tonnage",
    cls=Program,
    lazy=COMMANDS,
    epilog="Begin with tonnage demo, or with tonnage slots on a cluster of your own. Every command "
    "has a --help with examples.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="tonnage", message="%(prog)s %(version)s")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="Colours: auto on a terminal, unless NO_COLOR is set or TERM is dumb. Before or after the "
    "command.",
)
@click.pass_context
def program(ctx: click.Context, color: str) -> None:
    """Say what the nodes of a Kubernetes cluster can carry: CPU, memory and volume attach slots."""
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"
    ctx.color = {"always": True, "never": False}.get(color, False if plain else None)


def _color_first(args: Sequence[str]) -> list[str]:
    """The arguments with `--color` and its value before the command."""
    end = args.index("--") if "--" in args else len(args)
    first: list[str] = []
    rest: list[str] = []
    words = iter(args[:end])
    for word in words:
        if word == "--color":
            first += [word, *(value for value in [next(words, None)] if value is not None)]
        elif word.startswith("--color="):
            first.append(word)
        else:
            rest.append(word)
    return [*first, *rest, *args[end:]]


def _path(error: click.UsageError, words: Sequence[str]) -> str:
    """The command whose help leads on; the parser's own errors do not know it."""
    if error.ctx is not None:
        return error.ctx.command_path
    return " ".join(["tonnage", *(word for word in words if word in COMMANDS)][:2])


def _instead(error: click.UsageError) -> str:
    """What somebody meant who names a file as other programs take it."""
    extra = re.fullmatch(_EXTRA, error.message)
    takes = (
        {option for param in error.ctx.command.params for option in param.opts} if error.ctx else ()
    )
    name = (extra[1] or extra[2]) if extra else ""
    if name and "-f" in takes and os.path.exists(name):
        return f" Did you mean -f {name}?"
    return ""


def _sentence(message: str) -> str:
    """With its full stop, so that another one can follow."""
    text = message.rstrip()
    return text if text.endswith((".", "?", "!", ")")) else f"{text}."


def _complain(message: str, *advice: str) -> None:
    """Say what is wrong in one line, and what to do about it in others."""
    one_line = " ".join(message.split())
    console.echo(f"tonnage: error: {one_line}", err=True)
    for line in advice:
        console.echo(f"  {line}", err=True)


def _discard_output() -> None:
    """Give what is still buffered somewhere to go, or the interpreter complains as it exits."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
