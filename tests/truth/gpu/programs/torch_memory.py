"""Steps of a model on a GPU with batches from pinned memory; says what PyTorch's allocators hold.

usage: torch_memory.py FOLDER [STEPS]

FOLDER gets snapshot.pickle, stats.json and told.json: what PyTorch counts itself.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import torch


def build() -> Any:
    """A model, whose weights stay."""
    return torch.nn.Sequential(*(torch.nn.Linear(4096, 4096) for _ in range(4))).cuda()


def load(count: int) -> list[Any]:
    """Batches in pinned memory, which stay."""
    return [torch.empty(3000, 4096).pin_memory() for _ in range(count)]


def step(model: Any, batch: Any) -> None:
    """Activations that come and go."""
    model(batch.cuda(non_blocking=True)).sum().backward()
    model.zero_grad(set_to_none=True)


def main(folder: Path, steps: int) -> None:
    """Run, and write the files."""
    known = inspect.signature(torch.cuda.memory._record_memory_history_impl).parameters
    given = {"record_pinned_host_memory": True} if "record_pinned_host_memory" in known else {}
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python", **given)
    model, batches = build(), load(3)
    for number in range(steps):
        step(model, batches[number % len(batches)])
    torch.cuda.synchronize()
    stats = torch.cuda.memory_stats()
    torch.cuda.memory._dump_snapshot(str(folder / "snapshot.pickle"))
    host = torch.cuda.host_memory_stats() if hasattr(torch.cuda, "host_memory_stats") else {}
    (folder / "stats.json").write_text(json.dumps(host))
    names = ("reserved_bytes.all.current", "active_bytes.all.current", "requested_bytes.all.peak",
             "requested_bytes.all.current")  # fmt: skip
    told = {name: stats[name] for name in names} | {
        "weights": sum(one.numel() * one.element_size() for one in model.parameters()),
        "batches": sum(one.numel() * one.element_size() for one in batches),
        "torch": torch.__version__,
    }
    (folder / "told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
