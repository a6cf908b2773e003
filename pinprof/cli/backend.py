"""The options that choose between a GPU and host emulation, shared by all commands that have them."""

from __future__ import annotations

import click

BACKEND = click.option(
    "--backend",
    type=click.Choice(["auto", "cuda", "host"]),
    default="auto",
    show_default=True,
    help="Use a GPU or host emulation. auto: a GPU if there is one.",
)
DEVICE = click.option("--device", type=int, default=0, show_default=True, help="Index of the GPU.")
