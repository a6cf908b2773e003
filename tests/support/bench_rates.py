"""Rates as a machine with a PCIe 5.0 GPU might have them: round numbers, made up, for what is computed from them."""

from __future__ import annotations

from pinprof.data.rates import Rate, Rates

SIZES = tuple(1 << power for power in range(16, 33, 2))
GIB = 1 << 30
LATENCY_NS = 5_000.0

MACHINE = {
    "cpu": "A processor",
    "gpus": [{"name": "A GPU", "link_generation_max": 5, "link_width_max": 16}],
}
NS_PER_GIB = {
    "alloc.malloc": 0.0,
    "touch.first": 260e6,
    "touch.huge": 155e6,
    "pin.alloc": 340e6,
    "pin.hostalloc": 345e6,
    "pin.register-touched": 33e6,
    "pin.register-untouched": 275e6,
    "free.pinned": 88e6,
    "free.unregister": 20e6,
    "free.pageable": 60e6,
    "prefault.t1": 420e6,
    "prefault.t2": 260e6,
    "prefault.t4": 150e6,
    "prefault.t8": 108e6,
    "prefault.t16": 78e6,
    "h2d.pageable": GIB / 9.0,
    "h2d.pinned": GIB / 55.0,
    "h2d.staged": GIB / 11.0,
    "h2d.write-combined": GIB / 55.1,
    "d2h.pageable": GIB / 15.0,
    "d2h.pinned": GIB / 55.2,
    "uvm.first-touch": 300e6,
    "uvm.ondemand": 132e6,
    "uvm.prefetch": 21.6e6,
    "uvm.prefetched-kernel": 0.96e6,
    "uvm.cpu-readback": 200e6,
    "zerocopy.pass": GIB / 40.0,
    "memcpy.host": GIB / 12.0,
}


def gpu_rates(*measures: str) -> Rates:
    """A rate for each size, of these measures or of all."""
    rows = [Rate("kernel.launch-sync", 0, 8_000.0, 7_500.0, 9_000.0)] if not measures else []
    for name, ns_per_gib in NS_PER_GIB.items():
        for size in SIZES:
            ns = LATENCY_NS + ns_per_gib * size / GIB
            if not measures or name in measures:
                rows.append(Rate(name, size, ns, 0.95 * ns, 1.1 * ns))
    return Rates(MACHINE, "cuda", "2026-01-02T03:04:05+00:00", tuple(rows))
