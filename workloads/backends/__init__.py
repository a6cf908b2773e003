"""Machines that scenarios run on; `open_backend` chooses one and never falls back in silence."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from pinprof.base.errors import ScenarioError, UsageError
from pinprof.scenario import Backend


def open_backend(name: str, device: int) -> Backend:
    """`auto` is `cuda` where there is a GPU and `host` where there is none; errors when the choice cannot run."""
    if name == "host" or (name == "auto" and not gpu_present()):
        from .host import HostBackend

        if device != 0:
            raise UsageError(
                f"The host backend has no device {device}.", "Leave --device out, or use --backend cuda.", "device"
            )
        return HostBackend()
    if not gpu_present():
        raise ScenarioError(
            "There is no NVIDIA GPU on this machine, or its driver is not loaded.",
            "Check nvidia-smi, or choose --backend host for the emulation.",
            "no-gpu",
        )
    from .cuda import CudaBackend

    return CudaBackend(device)


def gpu_present() -> bool:
    """Whether the NVIDIA driver shows a GPU; true also when CUDA itself cannot use it, which is then an error."""
    if any(Path("/proc/driver/nvidia/gpus").glob("*")) or _opens("/dev/nvidiactl"):
        return True
    # WSL and Tegra have neither; there the driver library knows.
    try:
        libcuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    count = ctypes.c_int(0)
    return libcuda.cuInit(0) == 0 and libcuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0


def _opens(device: str) -> bool:
    """Whether a driver serves a device node: packages create nodes on machines without any GPU (ENXIO then)."""
    try:
        os.close(os.open(device, os.O_RDWR | os.O_CLOEXEC))
    except PermissionError:
        return True
    except OSError:
        return False
    return True
