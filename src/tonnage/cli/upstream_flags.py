"""cluster-autoscaler's flags on the command line of `tonnage run`.

Each flag of version 1.37 is followed, or accepted with one line that says why it has no effect.
Spelling is as upstream takes it: one dash or two, underscores for dashes, `--flag=value` or, but
for switches, `--flag value`.
"""

import difflib
from types import MappingProxyType
from typing import Any

import click

from tonnage.cli import console

SETTINGS = "tonnage.cli.upstream_flags"
"""Where the context keeps the settings that flags come to, by their name in AutoscalerConfig."""

VERBOSE = 4
"""From this `--v` on, upstream tells what it does with single pods: our level `debug`."""

FORMER = MappingProxyType(
    {
        "max-empty-bulk-delete": "max-scale-down-parallelism",
        "max-autoprovisioned-node-group-count": "",
        "node-autoprovisioning-enabled": "",
        "user-agent-suffix": "",
        "unneeded-node-removal-timeout": "",
    }
)
"""Flags of earlier versions, and what they are called now, if anything."""

_HELP = ("-h", "--help")


class UpstreamFlags(click.Command):
    """A command that takes the flags of cluster-autoscaler beside its own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own, foreign = self._divided(ctx, args)
        ctx.meta[SETTINGS] = _settings(foreign) if foreign else {}
        return super().parse_args(ctx, own)

    def _divided(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """Arguments that click knows, spelt as it knows them, and those of upstream alone."""
        from tonnage.migration import flags

        options = {name: param for param in self.params for name in param.opts}
        own: list[str] = []
        foreign: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if not word.startswith("-") or word in _HELP or word in ("-", "--"):
                own.append(word)
                continue
            name, equals, value = word.partition("=")
            plain = flags.normal(name)
            option = options.get(f"--{plain}")
            flag = flags.known(plain)
            if option is not None:
                own.append(f"--{plain}{equals}{value}")
                if not equals and rest and not _is_switch(option):
                    own.append(rest.pop(0))
                continue
            if flag is None and plain in FORMER:
                if not equals and rest and not rest[0].startswith("-"):
                    value = rest.pop(0)
                if FORMER[plain]:
                    foreign.append(f"--{FORMER[plain]}={value}")
                else:
                    console.note(f"--{plain} has no effect: cluster-autoscaler 1.37 dropped it")
                continue
            if flag is None:
                known = {*options, *_dashed(flags.FLAGS)}
                near = difflib.get_close_matches(f"--{plain}", sorted(known))
                raise click.NoSuchOption(name, possibilities=near or None, ctx=ctx)
            if not equals:
                takes_next = flag.value != "bool" and rest
                value = rest.pop(0) if takes_next else "true"
            if plain == "v":
                own += _level(value, ctx)
            foreign.append(f"--{plain}={value}")
        return own, foreign


def settings(ctx: click.Context) -> dict[str, Any]:
    """What the flags of upstream come to."""
    found: dict[str, Any] = ctx.meta.get(SETTINGS, {})
    return dict(found)


def _settings(foreign: list[str]) -> dict[str, Any]:
    from tonnage.migration import cluster_autoscaler, flags

    command = cluster_autoscaler.Command("command line", tuple(foreign))
    # Flags override the configuration: one for the log must not give nodes back.
    made = cluster_autoscaler.migrate(command, defaults=False)
    for one in made.followed:
        given = f"{one.setting}={one.value}"
        if one.setting == "--v":
            continue
        if one.outcome == flags.NOT_NEEDED:
            console.note(f"{given} has no effect here: {one.note}")
        elif one.outcome == flags.NOT_SUPPORTED:
            flag = flags.known(one.setting)
            if flag is None or one.value != flag.default:
                console.warn(f"{given} is not supported: {one.note}")
        elif one.note:
            console.note(f"{given}: {one.note}")
    return {
        name: value for name, value in made.config.items() if name not in ("apiVersion", "kind")
    }


def _level(verbosity: str, ctx: click.Context) -> list[str]:
    if not verbosity.isdecimal():
        told = f"{verbosity!r}: expected a number"
        raise click.BadParameter(told, ctx=ctx, param_hint="'--v'")
    return ["--log-level", "debug"] if int(verbosity) >= VERBOSE else []


def _is_switch(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and (option.is_flag or option.flag_value is not None)


def _dashed(names: Any) -> list[str]:
    return [f"--{name}" for name in names]
