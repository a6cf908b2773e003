"""`pinprof list`: the scenarios, by family, one line each; with a name, what that one does."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import click

from pinprof.base.terminal import say
from pinprof.scenario.spec import ScenarioSpec, Variant

FAMILIES = ("transfer", "pinning", "mistake and cure", "unified memory", "kernel", "PyTorch")
"""In the order of docs/scenarios.md; families of other packages follow."""

_NARROWEST = 24
"""Columns of text below which it is not wrapped."""


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--json", "as_json", is_flag=True, help="Print the scenarios as JSON.")
def command(names: tuple[str, ...], as_json: bool) -> None:
    """List the scenarios by family, or describe those with the given names."""
    from pinprof import scenario

    if names:
        specs = [scenario.load(name).spec for name in dict.fromkeys(scenario.resolve(name)[0] for name in names)]
    else:
        specs = sorted(scenario.specs(), key=_place)
    if as_json:
        say(json.dumps([_described(spec) for spec in specs], indent=1))
    elif names:
        for number, spec in enumerate(specs):
            say("\n" * bool(number) + spec.name, style="bold", end="")
            say("\n".join(_explained(spec)))
    else:
        _list(specs)


def _list(specs: list[ScenarioSpec]) -> None:
    shown = [name for spec in specs for name in (spec.name, *(f"  {variant.name}" for variant in spec.variants))]
    width = max(map(len, shown))
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for family, members in groupby(specs, key=lambda spec: spec.family):
        say(family, style="bold")
        for spec in members:
            say(_row(f"  {spec.name:<{width}}  ", f"{spec.summary}{_also(*spec.aliases)}", room))
            for variant in spec.variants:
                say(_row(f"    {variant.name:<{width - 2}}  ", f"{variant.summary}{_also(variant.alias)}", room))
    say("\nTo run one: pinprof run NAME [--variant VARIANT] --record")
    say("The first variant is the default. `pinprof list NAME` describes a scenario.")


def _row(name: str, text: str, room: int) -> str:
    """A name and what it stands for, wrapped beside it in a terminal of `room` columns; 0 for no terminal."""
    if room < len(name) + _NARROWEST:
        return name + text
    beside = " " * len(name)
    return textwrap.fill(text, room, initial_indent=name, subsequent_indent=beside, break_on_hyphens=False)


def _place(spec: ScenarioSpec) -> tuple[int, str, str]:
    known = FAMILIES.index(spec.family) if spec.family in FAMILIES else len(FAMILIES)
    return known, spec.family, spec.name


def _also(*aliases: str) -> str:
    names = ", ".join(alias for alias in aliases if alias)
    return f" (also: pinprof run {names})" if names else ""


def _explained(spec: ScenarioSpec) -> Iterator[str]:
    """A scenario in full, its name apart: what it does, its variants, and what it calls in each phase."""
    yield f": {spec.summary}{_also(*spec.aliases)}"
    for paragraph in spec.description.splitlines():
        yield ""
        yield click.wrap_text(paragraph, 100, initial_indent="  ", subsequent_indent="  ")
    if spec.emulation:
        yield ""
        yield click.wrap_text(f"Without a GPU: {spec.emulation}.", 100, initial_indent="  ", subsequent_indent="  ")
    for variant in spec.variants or (None,):
        yield ""
        yield f"  pinprof run {spec.name}" + (f" --variant {variant.name}: {variant.summary}" if variant else "")
        yield from _phases(spec, variant)


def _phases(spec: ScenarioSpec, variant: Variant | None) -> Iterator[str]:
    chosen, _ = spec.chosen(variant.name if variant else None)
    calls = chosen.calls.get("cuda", {})
    width = max(map(len, chosen.phases), default=0)
    for phase in chosen.phases:
        yield f"    {phase:<{width}}  {calls.get(phase, '')}".rstrip()


def _described(spec: ScenarioSpec) -> dict[str, Any]:
    variants = [
        {"name": variant.name, "summary": variant.summary, "alias": variant.alias or None} for variant in spec.variants
    ]
    return {
        "name": spec.name,
        "family": spec.family,
        "summary": spec.summary,
        "description": spec.description,
        "aliases": list(spec.aliases),
        "variants": variants,
    }
