"""Facts about the machine that a reader of a capture needs; no host name, no user name, nothing of other programs.

A fact that this machine does not tell is None: absence is shown, never guessed.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
from pathlib import Path
from typing import Any

from pinprof.machine.children import asked
from pinprof.machine.process_limits import control_groups
from pinprof.machine.small_files import number, text

_SYS = Path("/sys")
_PROC = Path("/proc")
_NVIDIA_FIELDS = {
    "name": "name",
    "memory": "memory.total",
    "driver": "driver_version",
    "pci": "pci.bus_id",
    "link_generation": "pcie.link.gen.current",
    "link_generation_max": "pcie.link.gen.max",
    "link_width": "pcie.link.width.current",
    "link_width_max": "pcie.link.width.max",
    "persistence": "persistence_mode",
}
"""Our name → `nvidia-smi --query-gpu` field."""


def facts() -> dict[str, Any]:
    """`host` of the capture's manifest."""
    return {
        "kernel": os.uname().release,
        "arch": os.uname().machine,
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)),
        "cores_online": os.cpu_count(),
        "numa_nodes": numa_nodes(),
        "memory_bytes": meminfo("MemTotal"),
        "swap_bytes": meminfo("SwapTotal"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "huge_page_bytes": meminfo("Hugepagesize"),
        "huge_pages": meminfo("HugePages_Total"),
        "thp_enabled": chosen(text(_SYS / "kernel/mm/transparent_hugepage/enabled")),
        "thp_defrag": chosen(text(_SYS / "kernel/mm/transparent_hugepage/defrag")),
        "thp_shmem": chosen(text(_SYS / "kernel/mm/transparent_hugepage/shmem_enabled")),
        "init_on_alloc": init_on_alloc(),
        "numa_balancing": number(_PROC / "sys/kernel/numa_balancing"),
        "iommu_groups": len(_listing(_SYS / "kernel/iommu_groups")),
        "virtual_machine": virtual_machine(),
        "perf_event_paranoid": number(_PROC / "sys/kernel/perf_event_paranoid"),
        "kptr_restrict": number(_PROC / "sys/kernel/kptr_restrict"),
        "memlock_bytes": memlock(),
        "memory_limit_bytes": memory_limit(),
        "gpus": gpus(),
        "nvidia_driver": nvidia_driver(),
        "cuda_driver": cuda_driver(),
    }


def chosen(choices: str | None) -> str | None:
    """The word in brackets of sysfs choices such as `always [madvise] never`."""
    match = re.search(r"\[(\S+)\]", choices or "")
    return match[1] if match else None


def meminfo(name: str) -> int | None:
    """One value of /proc/meminfo: bytes, or a count for those without unit."""
    match = re.search(rf"^{name}:\s+(\d+)( kB)?$", text(_PROC / "meminfo") or "", re.MULTILINE)
    return int(match[1]) * (1024 if match[2] else 1) if match else None


def cpu_model() -> str | None:
    """The processor's name: `model name` on x86; arm64 has only numbers for it (`CPU implementer`, `CPU part`)."""
    info = text(_PROC / "cpuinfo") or ""
    for name in ("model name", "Model", "CPU part"):
        match = re.search(rf"^{name}\s*:\s*(.+)$", info, re.MULTILINE)
        if match:
            return match[1]
    return None


def numa_nodes() -> int | None:
    """How many NUMA nodes have memory or CPUs."""
    nodes = [name for name in _listing(_SYS / "devices/system/node") if re.fullmatch(r"node\d+", name)]
    return len(nodes) or None


def virtual_machine() -> str | None:
    """A hint at the hypervisor: the vendor the firmware names, or `yes` by the CPU flag; None on bare metal."""
    if not re.search(r"^flags\s*:.*\bhypervisor\b", text(_PROC / "cpuinfo") or "", re.MULTILINE):
        return text(_SYS / "hypervisor/type")
    return text(_SYS / "class/dmi/id/sys_vendor") or "yes"


def init_on_alloc() -> bool | None:
    """Whether the kernel zeroes every page it allocates: boot parameter, else the build's default, else unknown."""
    match = re.search(r"\binit_on_alloc=([01])", text(_PROC / "cmdline") or "")
    if match:
        return match[1] == "1"
    config = text(Path("/boot") / f"config-{os.uname().release}") or ""
    match = re.search(
        r"^(?:CONFIG_INIT_ON_ALLOC_DEFAULT_ON=(y)|# CONFIG_INIT_ON_ALLOC_DEFAULT_ON )", config, re.MULTILINE
    )
    return match[1] == "y" if match else None


def memlock() -> int | None:
    """Bytes this process may lock (RLIMIT_MEMLOCK, soft); None is unlimited."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def memory_limit() -> int | None:
    """The least memory that the control groups around this process may use; None where it is all of the machine's."""
    names = ("memory.max", "memory.limit_in_bytes")
    limits = [number(group / name) for group in control_groups("memory") for name in names]
    memory = meminfo("MemTotal") or 0
    return min((limit for limit in limits if limit is not None and limit < memory), default=None)


def nvidia_driver() -> str | None:
    """Version of the loaded NVIDIA kernel module; `(open)` for the open one."""
    version = text(_PROC / "driver/nvidia/version") or ""
    match = re.search(r"\b(\d{3,}\.\d+(?:\.\d+)?)\b", version)
    if not match:
        return None
    return match[1] + (" (open)" if "Open Kernel Module" in version else "")


def gpus() -> list[dict[str, Any]]:
    """Each NVIDIA GPU: what nvidia-smi says, else what the driver's /proc files say, with its place in sysfs."""
    return [gpu | {"numa_node": _numa_node(gpu.get("pci"))} for gpu in _from_nvidia_smi() or _from_proc()]


def cuda_driver() -> str | None:
    """The CUDA version that the installed driver supports."""
    # The table of all cards takes five times as long, and drivers before 530 say it there alone.
    match = re.search(r"CUDA(?: UMD)? Version\s*:\s*([\d.]+)", _smi("--version") or _smi())
    return match[1] if match else None


def _from_nvidia_smi() -> list[dict[str, Any]]:
    rows = _smi(f"--query-gpu={','.join(_NVIDIA_FIELDS.values())}", "--format=csv,noheader,nounits").splitlines()
    cards = []
    for row in rows:
        values: list[Any] = [_known(value.strip()) for value in row.split(",")]
        if len(values) != len(_NVIDIA_FIELDS):
            continue
        gpu = dict(zip(_NVIDIA_FIELDS, values, strict=True))
        memory = gpu.pop("memory")
        gpu["memory_bytes"] = int(memory) << 20 if memory and memory.isdigit() else None
        for name in ("link_generation", "link_generation_max", "link_width", "link_width_max"):
            gpu[name] = int(gpu[name]) if gpu[name] and gpu[name].isdigit() else None
        cards.append(gpu)
    return cards


def _from_proc() -> list[dict[str, Any]]:
    """/proc/driver/nvidia/gpus/PCI/information: `Model`, `Bus Location` (NVIDIA driver README, appendix)."""
    directory = _PROC / "driver/nvidia/gpus"
    cards = []
    for pci in _listing(directory):
        information = text(directory / pci / "information") or ""
        model = re.search(r"^Model:\s*(.+)$", information, re.MULTILINE)
        cards.append({"name": model[1] if model else None, "pci": pci})
    return cards


def _numa_node(pci: str | None) -> int | None:
    """The NUMA node of a PCI device, as sysfs has it."""
    match = re.search(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]$", pci or "")
    node = number(_SYS / "bus/pci/devices" / match[0].lower() / "numa_node") if match else None
    # The kernel says -1 where the firmware does not tell.
    return node if node is not None and node >= 0 else None


def _known(value: str) -> str | None:
    """A field of nvidia-smi, None for `[N/A]` and its kin."""
    return None if not value or value.startswith("[") or value in ("N/A", "Unknown") else value


def _smi(*arguments: str) -> str:
    """What nvidia-smi prints; empty when it is missing, fails or hangs on a broken driver."""
    if shutil.which("nvidia-smi") is None:
        return ""  # to find that out in a new process takes ten times as long
    done = asked("nvidia-smi", *arguments)
    return done.output if done.status == 0 else ""


def _listing(directory: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in directory.iterdir())
    except OSError:
        return []
