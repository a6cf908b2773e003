"""Generated loops that read numbers and copy rows of tensors: aliases, closures, exceptions, early returns, async.

They run on the GPU where there is one, else on the CPU: what `pinprof fix` inserts makes no difference between both.
"""

from __future__ import annotations

import contextlib
import io
import random
import traceback
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from pinprof.fix.source import File, NotCertain
from pinprof.fix.transformations import CodeChange, line_changes
from pinprof.fix.transformations import changed as with_changes

HERE = "# HERE"
_HEAD = """\
import asyncio
import contextlib

import numpy as np
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
w = torch.linspace(-1, 2, 8, device=DEVICE)
rows = torch.arange(24, dtype=torch.float32, device=DEVICE).reshape(8, 3)
host = torch.zeros(8, 3)
order = [3, 1, 0, 2, 5]
losses, kept, calls, seen = [], [], [], {}
total = 0.0
count = 0
v = w.sum()
d = w.double()
def step_of(x): x.add_(1); return True
"""
_TAIL = """
print(losses, repr(total), repr(count), kept, seen)
for call in calls:
    print(call())
print(w.tolist(), host.tolist(), rows.tolist())
"""
_MAKES = (
    "v = (w * (i + {k})).sum()", "v = w[i % 4]", "v = (w > i / 3).sum()", "v = (w > i).any()", "v = w.half().mean()",
    "v = w[i % 8 : i % 8 + 1]", "v = w.double().prod() / 3", "v = (w * 1e30).sum() * 1e9", "v = torch.tensor(i * 1.1)",
    "v = np.float32(i)", "v = w.sum().long() << 40", "v = d[i % 4]",
)  # fmt: skip
_READS = (
    "losses.append(v.item())", "losses.append(float(v))", "losses.append(v.item() if i % 2 else {k})",
    "total += v.item()", "total += float(v)", "count += (w > 0).sum().item()", "total += v.item() if i % 3 else {k}",
    "count += v.item()", "losses.append(float(v.item()))", "total += v.item() * 2", "print(v.item())",
)  # fmt: skip
_LATER = (
    "h = v.item(){h}\n{s}if i % 2: kept.append(h)",
    "h = float(v){h}\n{s}g = w.mean().item(){h}\n{s}if i > 2:\n{s}    print(h, g)\n{s}elif i: print(i)",
    "h = w.detach().cpu().tolist(){h}\n{s}if i == 1 or not w.ndim:\n{s}    kept.append(h)\n{s}    w += 1",
    "h = v.item(){h}\n{s}if i % 2 == 0: calls.append(lambda: h)",
    "h = w.sum().item(){h}\n{s}if step_of(w): print(h)",
    "h = np.asarray(w.tolist()){h}\n{s}if i: print(h)\n{s}if not i: print(h)",
    "h = w[i % 3].item(){h}\n{s}w.mul_(2)\n{s}if i: kept.append(h)",
    "h = w.abs().detach().cpu().numpy(){h}\n{s}if i > 1: seen[i] = h.tolist()",
    "h = w.mean().item(){h}\n{s}if i < 3:\n{s}    for h in range(2): print(h)",
    "h = w.norm().item(){h}\n{s}if (x := i) > 1: print(h, x)",
    "for j in range(3):\n{s}    w += j\n{s}    h = w.sum().item(){h}\n{s}print(h)",
    "for j in range(3):\n{s}    w += j\n{s}    h = w.sum().item(){h}\n{s}    if j == i: break\n{s}print(h)",
    "for j in range(2):\n{s}    w += j\n{s}    h = w[0].detach().cpu(){h}\n{s}w += 1\n{s}kept.append(h.tolist())",
    "for j in range(i + 1):\n{s}    w += j\n{s}    h = w[0].item(){h}\n{s}kept.append(h)",
)  # fmt: skip
"""Values that few steps use; some a transformation must refuse."""
_AFTER = (
    "w += 1", "d.mul_(0.5)", "w.mul_(0.5)", "v = v + 1", "print(losses[-1:])", "print(f'{{total:.6f}} {{count}}')",
    "kept.append(total)",
    "total = 0.0", "losses.clear()", "losses.insert(0, 7)", "x = total + 1; print(x)", "print(sum(losses))",
    "losses[0:1] = [3]", "del losses[:1]", "total = total", "y = max(losses, default=0); print(y)", "losses.sort()",
    "seen[i] = total", "print(len(losses))", "print(type(total).__name__)", "losses.append(i)", "losses = [1.5]",
    "print(sorted(losses), total > 1)", "losses.pop() if losses else None", "count += 1",
    "losses.append(losses[-1] if losses else 2)",
    "kept.append(list(losses))", "kept.append([*losses, total])",
    "losses.reverse()",
    "kept.append(losses)", "calls.append(lambda: total)", "calls.append(lambda: list(losses))",
    "for x in losses: print(x)",
    "total *= 2", "losses += [2]", "losses = losses[-3:]", "print(f'{{total=}}')", "seen['same'] = losses",
    "del total; total = 1.0", "x = losses; x.append(4)", "print(torch.tensor(losses).sum())",
)  # fmt: skip
"""What a loop does besides; the last ones a transformation cannot follow."""
_COPIES = (
    "for a, b in enumerate(order):\n{s}    host[a].copy_(rows[b]){h}",
    "for a, b in enumerate(order):\n{s}    host[b] = rows[a]{h}",
    "for a, b in zip(order, reversed(order)):\n{s}    host[a].copy_(rows[b], non_blocking=False){h}",
    "for a in range(i % 8):\n{s}    host[a].copy_(rows[a]){h}",
    "for a, b in enumerate([1, 1, -1]):\n{s}    host[b].copy_(rows[a]){h}",
    "for a, b in ((0, 9), (1, 2)):\n{s}    host[a].copy_(rows[b]){h}",
    "for a, b in enumerate(order):\n{s}    host[a] = w[b]{h}",
    "for a, b in enumerate(order):\n{s}    rows[a].copy_(rows[b]){h}",
    "for a, b in enumerate(order):\n{s}    host[a].copy_(rows[b].double()){h}",
    "for a in order:\n{s}    host[a].copy_(rows[a]){h}\n{s}print(a)",
    "for a in order:\n{s}    if a == 2: break\n{s}    host[a].copy_(rows[a]){h}",
)  # fmt: skip


def _body(pick: random.Random, indent: str) -> list[str]:
    lines = [f"{indent}{pick.choice(_MAKES)}"]
    for _ in range(pick.randint(1, 3)):
        lines.append(f"{indent}{pick.choice(_READS)}  {HERE}")
        most = len(_AFTER) if pick.random() < 0.3 else len(_AFTER) - 12  # most loops do what can be followed
        lines += [indent + pick.choice(_AFTER[:most]) for _ in range(pick.randint(0, 2))]
        if pick.random() < 0.3:
            lines.append(indent + pick.choice(_MAKES))
    lines = [line.format(k=pick.choice(["1", "0.5", "3"])) for line in lines]
    if pick.random() < 0.3:
        lines.append(indent + pick.choice(_COPIES).format(s=indent, h=f"  {HERE}"))
    if pick.random() < 0.5:
        lines.append(indent + pick.choice(_LATER).format(s=indent, h=f"  {HERE}"))
    return lines


def program(seed: int) -> str:
    """A program; its lines that end in HERE are to be changed."""
    pick = random.Random(seed)
    kinds = ["plain", "function", "generator", "async", "returned", "exception", "nested", "method", "with"]
    kind, names = pick.choice(kinds), "global losses, total, count, v, w"
    own = "losses, total, count, v = [], 0.0, 0, w.sum()"
    start = pick.choice([names, own.replace("v = ", "v = ", 1), f"global w; {own}"])
    start = start if "w" in start.partition(";")[0] else f"global w; {start}"
    if kind == "plain":
        middle = ["for i in range(6):", *_body(pick, "    ")]
    elif kind in ("function", "nested"):
        stop = pick.choice(["return total", "break", "continue", "return losses", "return sum(losses), total"])
        middle = ["def run(n):", f"    {start}", "    for i in range(n):", *_body(pick, " " * 8)]
        middle += [
            f"        if i == 3: {stop}",
            f"    return {pick.choice(['total', 'losses', 'losses, total', 'None'])}",
        ]
        if kind == "nested":
            inner = ["    def once(i):", "        nonlocal_", *_body(pick, " " * 8), "    for i in range(n): once(i)"]
            bind = (
                "global losses, total, count, v, w" if start == names else "nonlocal losses, total, count, v; global w"
            )
            middle = ["def run(n):", f"    {start}", *(line.replace("nonlocal_", bind) for line in inner)]
            middle += ["    return losses, total"]
        middle += ["for n in range(4):", "    kept.append(run(n * 2))"]
    elif kind == "generator":
        middle = ["def steps():", f"    {start}", "    for i in range(5):", *_body(pick, " " * 8)]
        middle += [f"        yield {pick.choice(['total', 'losses[-1:]', 'i', 'losses'])}"]
        middle += [pick.choice(["kept += list(steps())", "for one in steps():\n    print(one)"])]
    elif kind == "async":
        middle = [
            "async def step(i):",
            f"    {names}",
            *_body(pick, "    "),
            "    await asyncio.sleep(0)",
            "    return total",
        ]
        middle += ["async def main():", "    kept.extend(await asyncio.gather(*(step(i) for i in range(5))))"]
        middle += ["asyncio.run(main())"]
    elif kind == "returned":
        back = pick.choice(["v.item()", "float(v)", "v.item() if i % 2 else 0.25", "(v.item())"])
        middle = [
            "def step(i):",
            f"    {names}",
            f"    {pick.choice(_MAKES).format(k=2)}",
            f"    return {back}  {HERE}",
        ]
        calls = ("total += step(i)", "losses.append(step(i))", "step(i)", "print(step(i))", "kept.append([step(i)])",
                 "x = step(i) + 1; print(x)", "losses.append(step(i) if i else 1)")  # fmt: skip
        middle += [
            "for i in range(5):",
            *(f"    {pick.choice(calls)}" for _ in range(3)),
            f"    {pick.choice(_AFTER)}".format(),
        ]
        middle += [pick.choice(["print(sum(step(i) for i in range(9)))", "kept += [step(i) for i in range(3)]",
                                "print(max(step(i) for i in range(3)))", "print(sum([step(i) for i in range(9)]))",
                                "kept += list(map(step, range(3)))"])]  # fmt: skip
    elif kind == "exception":
        middle = [
            "for i in range(6):",
            "    try:",
            *_body(pick, " " * 8),
            "        if i % 2: raise ValueError(i, total)",
        ]
        middle += ["    except ValueError as error:", "        print(error, losses[-2:])", "    finally:"]
        middle += [f"        {pick.choice(_AFTER).format()}"]
    elif kind == "method":
        middle = ["class Meter:", "    def __init__(self): self.total, self.losses = 0.0, []", "    def step(self, i):"]
        middle += [f"        {names}", *_body(pick, " " * 8), f"        self.total += v.item() if i else 0  {HERE}"]
        middle += [f"        self.losses.append(float(v))  {HERE}", f"        return v.item() if i else 0  {HERE}"]
        middle += ["meter = Meter()", "for i in range(4):", "    print(meter.step(i), meter.total, meter.losses)"]
    else:
        middle = ["with torch.no_grad():", "    for i in range(4):", *_body(pick, " " * 8)]
        middle += ["    print(total)", "for i in range(2):", *_body(pick, "    ")]
    return "\n".join([_HEAD, *middle, _TAIL])


def changes(text: str) -> tuple[File, list[CodeChange]]:
    """All changes of marked lines that a transformation is certain about; NotCertain where there is none."""
    file = File(text)
    found, reason = [], NotCertain("No line is marked.")
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith(HERE):
            for cure in ("sync-less", "batch-copies"):
                try:
                    found += line_changes(file, number, cure)
                except NotCertain as refused:
                    reason = refused
    if not found:
        raise reason
    return file, found


def changed(text: str) -> str:
    """The program with all of them."""
    return with_changes(*changes(text))


def printed(text: str) -> tuple[str, str]:
    """What a program prints, and the error that ends it; in a thread of its own, as the caller's may have an event loop
    that runs (a browser's), beside which no other one does.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_printed, text).result()


def _printed(text: str) -> tuple[str, str]:
    said = io.StringIO()
    error = ""
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(compile(text, "generated", "exec", dont_inherit=True), {"__name__": "generated"})
        except Exception as raised:
            error = traceback.format_exception_only(raised)[-1]
    return said.getvalue(), error


def judged(seeds: Sequence[int]) -> tuple[int, int, list[int]]:
    """How many programs changed and print the same, how many are refused, and the seeds of those that print other."""
    same, refused, wrong = 0, 0, []
    for seed in seeds:
        text = program(seed)
        try:
            after = changed(text)
        except NotCertain:
            refused += 1
            continue
        if printed(text) == printed(after):
            same += 1
        else:
            wrong.append(seed)
    return same, refused, wrong
