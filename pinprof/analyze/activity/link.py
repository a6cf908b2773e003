"""The link between host and GPU, and the rate it delivers in practice.

Practical rates of pinned copies, GB/s per direction at x16: generation 3 and 4 from public nvbandwidth and
bandwidthTest figures (11–12, 25–26), generation 5 measured on an H200 (55.4–55.6 to the device, 55.3 back).
NVLink-C2C: measured on a GH200, arXiv 2407.07850.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pinprof.analyze.activity.results import Link

PCIE_X16_GB_PER_S: Mapping[int, tuple[float, float]] = {3: (11.5, 11.5), 4: (25.5, 25.5), 5: (55.6, 55.3)}
"""PCIe generation → practical rate at 16 lanes (to the device, to the host)."""
C2C_GB_PER_S = (375.0, 297.0)

_X16, _X8 = 16, 8
_CHIPS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("GM200", "GM204", "GM206", "GP100", "GP102", "GP104", "GP106"), (3, _X16)),
    **dict.fromkeys(("GV100", "TU102", "TU104", "TU106", "TU116", "TU117"), (3, _X16)),
    **dict.fromkeys(("GA100", "GA102", "GA103", "GA104", "GA106"), (4, _X16)),
    "GA107": (4, _X8),
    **dict.fromkeys(("AD102", "AD103", "AD104"), (4, _X16)),
    **dict.fromkeys(("AD106", "AD107"), (4, _X8)),
    **dict.fromkeys(("GH100", "GB202", "GB203", "GB205"), (5, _X16)),
    **dict.fromkeys(("GB206", "GB207"), (5, _X8)),
}
"""Chip → the PCIe generation and lanes that it supports (NVIDIA's data sheets). Others stay unknown: those of Tegra
have no such link, those of a Grace superchip another one."""
_NARROWER: tuple[tuple[str, str, int], ...] = (("GA106", "RTX 3050", _X8),)
"""(chip, part of the card's name, lanes) of cards that do not connect all lanes of their chip."""
_UNKNOWN_WIRING = ("Laptop", "Mobile", "Max-Q", "NVIDIA A16", "CMP ")
"""In the names of GPUs whose lanes the maker of the machine decides, that share a card, or that are limited."""
_OTHER_LINK = ("ppc64le", "ppc64el")
"""Machines whose GPUs reach the processor by NVLink or PCIe: the chip does not say which."""


def link_of(host: Mapping[str, Any]) -> Link | None:
    """The link of the machine's GPUs; None when unknown, or when GPUs have different ones."""
    gpus = host.get("gpus")
    if not isinstance(gpus, (list, tuple)) or not gpus:
        return None
    by_chip = host.get("arch") not in _OTHER_LINK
    links = {_link(gpu, by_chip=by_chip) if isinstance(gpu, Mapping) else None for gpu in gpus}
    return links.pop() if len(links) == 1 else None


def _link(gpu: Mapping[str, Any], *, by_chip: bool) -> Link | None:
    if "GH200" in str(gpu.get("name")):
        return Link("NVLink-C2C", *C2C_GB_PER_S, "by the GPU's name; rate measured on a GH200")
    # The current generation drops while a GPU idles, so the highest that both sides support is what counts.
    generation = lanes_or_generation(gpu.get("link_generation_max")) or lanes_or_generation(gpu.get("link_generation"))
    lanes = lanes_or_generation(gpu.get("link_width_max")) or lanes_or_generation(gpu.get("link_width"))
    how = "link as the driver reports it"
    chip = _of_chip(gpu) if by_chip else None
    if chip and not (generation and lanes):
        generation, lanes = generation or chip[0], lanes or chip[1]
        how = f"link by what the GPU's chip {gpu['chip']} supports; the slot may provide less"
    if generation is None or lanes is None or generation not in PCIE_X16_GB_PER_S:
        return None
    to_device, to_host = (rate * lanes / 16 for rate in PCIE_X16_GB_PER_S[generation])
    return Link(f"PCIe {generation}.0 x{lanes}", to_device, to_host, f"{how}; practical rate of pinned copies")


def _of_chip(gpu: Mapping[str, Any]) -> tuple[int, int] | None:
    """(generation, lanes) of the chip on its card; None when unknown."""
    chip, name = str(gpu.get("chip")), str(gpu.get("name"))
    known = _CHIPS.get(chip)
    if known is None or any(word in name for word in _UNKNOWN_WIRING):
        return None
    narrower = (lanes for of, part, lanes in _NARROWER if chip == of and part in name)
    return known[0], next(narrower, known[1])


def lanes_or_generation(value: object) -> int | None:
    """A number that a link can have, None for anything else: facts may come from anybody's file."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 64 else None
