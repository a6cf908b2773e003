"""`pinprof list`: the scenarios, by family, one line each."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any

import click

from pinprof.workload.spec import WorkloadSpec


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the scenarios as JSON.")
def command(as_json: bool) -> None:
    """List the scenarios by family."""
    from pinprof import workload

    specs = sorted(workload.specs(), key=lambda spec: (spec.family, spec.name))
    if as_json:
        click.echo(json.dumps([_described(spec) for spec in specs], indent=1))
        return
    names = [name for spec in specs for name in (spec.name, *(f"  {variant.name}" for variant in spec.variants))]
    width = max(map(len, names))
    for family, members in groupby(specs, key=lambda spec: spec.family):
        click.secho(family, bold=True)
        for spec in members:
            click.echo(f"  {spec.name:<{width}}  {spec.summary}")
            for variant in spec.variants:
                click.echo(f"    {variant.name:<{width - 2}}  {variant.summary}")
    click.echo("\nRun one with `pinprof run NAME [--variant VARIANT] --record`; the first variant is the default.")


def _described(spec: WorkloadSpec) -> dict[str, Any]:
    variants = [{"name": variant.name, "summary": variant.summary} for variant in spec.variants]
    return {"name": spec.name, "family": spec.family, "summary": spec.summary, "variants": variants}
