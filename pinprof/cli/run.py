"""`pinprof run NAME`: run a scenario, and with --record show where its time went."""

from __future__ import annotations

import sys
from typing import Any

import click

from pinprof.base.terminal import say
from pinprof.cli.backend import BACKEND, DEVICE
from pinprof.cli.recording import record, recording_options
from pinprof.machine.process_limits import require_memory


class _Command(click.Command):
    """Lets `--record` stand before NAME without taking it for a collector."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--record" in args:
            from pinprof.collect import AUTO, COLLECTORS

            place = args.index("--record")
            names = "".join(args[place + 1 : place + 2]).split(",")
            if {AUTO, *COLLECTORS}.isdisjoint(names):
                args = [*args[:place], f"--record={AUTO}", *args[place + 1 :]]
        return super().parse_args(ctx, args)


@click.command(cls=_Command)
@click.argument("name")
@click.option("--size", metavar="SIZE", default="256MiB", show_default=True, help="Size of each allocation.")
@click.option("--iterations", type=int, default=10, show_default=True, help="Number of measured iterations.")
@click.option("--warmup", type=int, default=1, show_default=True, help="Number of iterations before measuring.")
@BACKEND
@DEVICE
@click.option("--variant", help="A variant of the scenario; see `pinprof list`.")
@click.option("--threads", type=int, help="Number of threads, for scenarios that use threads (default: one per CPU).")
@click.option(
    "--record",
    "collectors",
    is_flag=False,
    flag_value="auto",
    metavar="[auto|native|perf|nsys|native,nsys]",
    help="Record the scenario and report on it. auto: pinprof's own recorder, or perf if it records more.",
)
@recording_options
def command(
    name: str,
    size: str,
    iterations: int,
    warmup: int,
    backend: str,
    device: int,
    variant: str | None,
    threads: int | None,
    collectors: str | None,
    **options: Any,
) -> int:
    """Run a scenario; every iteration verifies its result.

    With --record, pinprof samples the measured iterations, gives each sample its cause, and writes a page next to the
    capture. `pinprof list` shows the scenarios.
    """
    from pinprof import scenario
    from pinprof.base.units import parse_bytes

    require_memory()
    name, variant = scenario.resolve(name, variant)
    chosen = scenario.Options(parse_bytes(size), iterations, warmup, backend, device, variant, threads)
    scenario.load(name).spec.chosen(variant)
    if collectors is None:
        say(scenario.run(name, chosen).to_text())
        return 0
    arguments = [f"--iterations={iterations}", f"--warmup={warmup}", f"--backend={backend}", f"--device={device}"]
    arguments += [f"--variant={variant}"] if variant is not None else []
    arguments += [f"--threads={threads}"] if threads is not None else []
    program = [sys.executable, "-P", "-m", "pinprof.scenario", name, f"--size-bytes={chosen.size_bytes}", *arguments]
    shown = ["pinprof", "run", name, f"--size={size}", *arguments, f"--record={collectors}"]
    return record(collectors, program, name, options, scenario=True, shown=shown)
