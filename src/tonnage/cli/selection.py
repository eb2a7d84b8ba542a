"""Which objects are meant, as kubectl takes it: `-l SELECTOR`, `pod/NAME`."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tonnage.objects.meta import LabelSelector

_SET = re.compile(r"(?P<key>[^\s!=,()]+)\s+(?P<how>in|notin)\s+\((?P<values>[^()]*)\)")
_PAIR = re.compile(r"(?P<key>[^\s!=,()]+)\s*(?P<how>==|=|!=)\s*(?P<value>[^\s,()]*)")
_KEY = re.compile(r"(?P<no>!?)\s*(?P<key>[^\s!=,()]+)")


def _parsed(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> "LabelSelector | None":
    if value is None:
        return None
    try:
        return parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), ctx=ctx, param=param) from None


selector_option = click.option(
    "-l",
    "--selector",
    metavar="LABELS",
    callback=_parsed,
    help="Only those with such labels, as for kubectl: app=db, tier!=cache, app in (a,b), !x.",
)


def parse(text: str) -> "LabelSelector":
    """A selector as kubectl takes it; `ValueError` if it is none."""
    from tonnage.objects.meta import LabelRequirement, LabelSelector

    found = []
    for part in _parts(text):
        if match := _SET.fullmatch(part):
            values = tuple(one.strip() for one in match["values"].split(","))
            how = "In" if match["how"] == "in" else "NotIn"
            found.append(LabelRequirement(key=match["key"], operator=how, values=values))
        elif match := _PAIR.fullmatch(part):
            how = "NotIn" if match["how"] == "!=" else "In"
            requirement = LabelRequirement(key=match["key"], operator=how, values=(match["value"],))
            found.append(requirement)
        elif match := _KEY.fullmatch(part):
            how = "DoesNotExist" if match["no"] else "Exists"
            found.append(LabelRequirement(key=match["key"], operator=how))
        else:
            raise ValueError(f"{part!r}: expected KEY=VALUE, KEY!=VALUE, KEY in (A,B), KEY or !KEY")
    return LabelSelector(match_expressions=tuple(found))


def matches(selector: "LabelSelector", labels: Mapping[str, str]) -> bool:
    from tonnage.objects import selectors

    return selectors.matches(selector, labels)


def name_of(text: str, *kinds: str) -> str:
    """The name in `pod/NAME`; a namespace may be called like a kind only if nothing is lost."""
    kind, slash, name = text.partition("/")
    return name if slash and kind.lower() in kinds and name else text


def _parts(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    return [part for part in (one.strip() for one in re.split(r",(?![^()]*\))", text)) if part]
