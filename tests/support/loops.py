"""Generated Python loops over arrays: aliases, closures, exceptions, early returns, comprehensions, async, threads."""

from __future__ import annotations

import contextlib
import io
import random
import traceback
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from pinprof.fix.transformations import File, NotCertain

HERE = "# HERE"
_HEAD = """\
import asyncio
import threading
import weakref

import numpy as np

SIZE = 9000
a, b, c = (np.linspace(low, low + 1, SIZE) for low in (1, 2, 3))
g = np.arange(SIZE, dtype=np.float32) / 99
kept, calls, seen = [], [], {}
x = y = z = a


def told(value):
    if not isinstance(value, (np.ndarray, np.flatiter)) and hasattr(value, "__next__"):
        value = list(value)
    value = np.asarray(value) if isinstance(value, np.flatiter) else value
    if not isinstance(value, np.ndarray):
        return repr(value)
    return f"{value.shape} {value.dtype} {value.tobytes()[:80]} {value.sum()}"
"""
_TAIL = """
for one in [x, y, z, *kept, *seen.values()]:
    print(told(one))
for call in calls:
    print(told(call()))
print(a.sum(), b.sum(), c.sum(), g.sum())
"""
_AFTER = (
    "y = {x}", "kept.append({x})", "kept.append({x}[1:])", "seen[i] = {x}[::2]", "calls.append(lambda {x}={x}: {x})",
    "kept = [*kept, {x}.reshape(-1, 2)] if {x}.size % 2 == 0 else kept", "{x} += 1", "{x}[i] = 7",
    "z = {x}.T", "kept.append(memoryview({x}) [:3].tolist() if {x}.ndim == 1 else 0)", "del {x}; {x} = b",
    "{x}.flags.writeable = False; {x} = {x} + 0", "seen['ref'] = weakref.ref({x})() is None",
    "kept.append(iter({x}[:2]))if i == 1 else None", "y, z = z, {x}", "{x} = {x}[:-1] if i == 7 else {x}",
    "kept.append(({x}.sum(), {x}.dtype.name))", "{x} = {x}.astype(np.float32) if i == 3 else {x}", "pass",
    "if i == 2: {x}.shape = (-1, 1); {x} = a", "kept.append({x}.flat)if i == 1 else None", "{x} = np.ravel({x})",
    "kept.append(np.broadcast_to({x}, (2, *{x}.shape)))", "kept.append(np.frombuffer({x}))",
)  # fmt: skip
"""What a loop does with an array after it is made."""


def _operand(pick: random.Random) -> str:
    return pick.choice(["a", "b", "c", "g", "x", "y", "z", "2.5", "3", "x", "np.float32(2)"])


def _expression(pick: random.Random, depth: int = 0) -> str:
    kind = pick.randrange(10)
    if depth > 2 or kind == 0:
        return _operand(pick)
    if kind < 6:
        left, right = (_expression(pick, depth + 1) for _ in range(2))
        return f"({left} {pick.choice('+-*/')} {right})"
    if kind == 6:
        return f"np.{pick.choice(['sqrt', 'abs', 'square', 'negative', 'sign'])}({_expression(pick, depth + 1)})"
    if kind == 7:
        return f"np.{pick.choice(['maximum', 'add', 'minimum'])}({_operand(pick)}, {_operand(pick)})"
    if kind == 8:
        return pick.choice(["np.zeros(SIZE)", "np.ones(SIZE, dtype=np.float32)", "np.zeros((SIZE, 2))[:, 0]"])
    return pick.choice(["np.concatenate([a[:99], b[99:]])", "np.concatenate((x, a))[:SIZE]", "np.stack([a, c])[1]"])


def _body(pick: random.Random, indent: str) -> list[str]:
    lines = []
    for _ in range(pick.randint(1, 4)):
        name = pick.choice("xyz")
        lines.append(f"{indent}{name} = {_expression(pick)}  {HERE}")
        lines += [f"{indent}{pick.choice(_AFTER).format(x=name)}" for _ in range(pick.randint(0, 2))]
    return lines


def program(seed: int) -> str:
    """A program; its lines that end in HERE are to be changed."""
    pick = random.Random(seed)
    kind = pick.choice(
        ["plain", "function", "generator", "async", "comprehension", "exception", "threads", "recursion"]
    )
    names = "global x, y, z, kept"
    if kind == "plain":
        middle = ["for i in range(5):", *_body(pick, "    ")]
    elif kind == "function":
        stop = pick.choice(["return x", "break", "continue"])
        middle = ["def step(n):", f"    {names}", "    for i in range(n):", *_body(pick, " " * 8)]
        middle += [f"        if i == 3: {stop}", f"    return {_expression(pick)}  {HERE}"]
        middle += ["for n in range(4):", "    kept.append(step(n))", "print(told(step(2)))"]
    elif kind == "generator":
        middle = ["def steps():", f"    {names}", "    for i in range(5):", *_body(pick, " " * 8)]
        middle += [f"        yield ({_expression(pick)})  {HERE}"]
        middle += [pick.choice(["kept += list(steps())", "for one in steps():\n    print(told(one))"])]
    elif kind == "async":
        middle = ["async def step(i):", f"    {names}", *_body(pick, "    "), "    await asyncio.sleep(0)"]
        middle += [f"    r = {_expression(pick)}  {HERE}", "    await asyncio.sleep(0)", "    return r"]
        middle += ["async def main():", "    kept.extend(await asyncio.gather(*(step(i) for i in range(5))))"]
        middle += ["asyncio.run(main())"]
    elif kind == "comprehension":
        middle = [f"kept += [{_expression(pick)} for i in range(5)]  {HERE}"]
        middle += [f"calls += [lambda v={_expression(pick)}: v for i in range(3)]  {HERE}"]
        middle += [f"seen |= {{i: (x := {_expression(pick)}) for i in range(4)}}  {HERE}"]
        middle += [f"print(sum(float(({_expression(pick)}).sum()) for i in range(4)))  {HERE}"]
    elif kind == "exception":
        middle = ["for i in range(6):", "    try:", *_body(pick, " " * 8), "        if i % 2: raise ValueError(i)"]
        middle += [f"        x = {_expression(pick)} + np.ones(i)  {HERE}", "    except ValueError as error:"]
        middle += ["        kept.append(str(error))", "    finally:", f"        y = {_expression(pick)}  {HERE}"]
    elif kind == "threads":
        middle = ["def work(k):", "    x = y = z = b", "    mine = []", "    for i in range(4):"]
        middle += [f"        x = {_expression(pick)}  {HERE}", f"        mine.append({_expression(pick)})  {HERE}"]
        middle += [
            f"        y = {_expression(pick)}  {HERE}",
            "    seen[k] = sum(float(one.sum()) for one in mine + [x, y]",
        ]
        middle[-1] += " if isinstance(one, np.ndarray))"
        middle += ["threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]"]
        middle += [
            "for one in threads: one.start()",
            "for one in threads: one.join()",
            "seen = dict(sorted(seen.items()))",
        ]
    else:
        middle = ["def down(i):", "    if i == 0: return a", "    x, y, z = a, b, c"]
        middle += [
            f"    x = {_expression(pick)}  {HERE}",
            "    y = down(i - 1)",
            f"    return {_expression(pick)}  {HERE}",
        ]
        middle += ["for n in range(4):", "    kept.append(down(n))"]
    return "\n".join([_HEAD, *middle, _TAIL])


def changed(text: str, cure: str = "reuse-memory") -> str:
    """The program with all lines changed that a transformation is certain about; NotCertain where there is none."""
    file = File(text)
    found, reason = [], NotCertain("No line is marked.")
    for number, line in enumerate(text.splitlines(), 1):
        if line.endswith(HERE):
            try:
                found.append(file.changes(number, cure))
            except NotCertain as refused:
                reason = refused
    if not found:
        raise reason
    return file.changed(found)


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
            with np.errstate(all="ignore"), warnings.catch_warnings():
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
