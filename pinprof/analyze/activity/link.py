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

_CHIP_GENERATION = (("GV100", 3), ("TU10", 3), ("GA10", 4), ("AD10", 4), ("GH100", 5), ("GB20", 5))
"""First letters of a chip's name → the PCIe generation it supports (NVIDIA's data sheets)."""


def link_of(host: Mapping[str, Any]) -> Link | None:
    """The link of the machine's GPUs; None when unknown, or when GPUs have different ones."""
    gpus = host.get("gpus")
    if not isinstance(gpus, (list, tuple)) or not gpus:
        return None
    links = {_link(gpu) if isinstance(gpu, Mapping) else None for gpu in gpus}
    return links.pop() if len(links) == 1 else None


def _link(gpu: Mapping[str, Any]) -> Link | None:
    if "GH200" in str(gpu.get("name")):
        return Link("NVLink-C2C", *C2C_GB_PER_S, "by the GPU's name; rate measured on a GH200")
    # The current generation drops while a GPU idles, so the highest that both sides support is what counts.
    generation = lanes_or_generation(gpu.get("link_generation_max")) or lanes_or_generation(gpu.get("link_generation"))
    width = lanes_or_generation(gpu.get("link_width_max")) or lanes_or_generation(gpu.get("link_width"))
    how = "link as the driver reports it"
    if generation is None:
        chip = str(gpu.get("chip") or "")
        generation = next((number for prefix, number in _CHIP_GENERATION if chip.startswith(prefix)), None)
        how = "link by the GPU's chip, 16 lanes assumed"
    if generation is None or generation not in PCIE_X16_GB_PER_S:
        return None
    lanes = width or 16
    to_device, to_host = (rate * lanes / 16 for rate in PCIE_X16_GB_PER_S[generation])
    return Link(f"PCIe {generation}.0 x{lanes}", to_device, to_host, f"{how}; practical rate of pinned copies")


def lanes_or_generation(value: object) -> int | None:
    """A number that a link can have, None for anything else: facts may come from anybody's file."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 64 else None
