"""How code changes, and where it stays as it is."""

from __future__ import annotations

import ast
import difflib
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pinprof.base.errors import missing_package
from pinprof.fix import source
from pinprof.fix.native import NativeFile
from pinprof.fix.source import File, NotCertain
from pinprof.fix.transformations import TRANSFORMATIONS, line_changes, program_changes
from pinprof.fix.transformations import changed as with_changes
from pinprof.trial.cures import CURES
from tests.support import loops

TORCH = "import torch\n\n"


def changed(text: str, line: int, cure: str) -> str:
    file = File(text)
    return with_changes(file, line_changes(file, line, cure)[:1])


def started(text: str, name: str) -> str:
    """With the lines at its top that a transformation inserts."""
    file = File(text)
    return with_changes(file, [one for cure in TRANSFORMATIONS[name].cures for one in program_changes(file, cure)
                               if one.transformation.id == name][:1])  # fmt: skip


def reason(text: str, line: int, cure: str) -> str:
    with pytest.raises(NotCertain) as refused:
        changed(text, line, cure)
    return str(refused.value)


def lines_of(text: str, line: int, cure: str) -> list[str]:
    """The lines that are new or other than before, but for inserted functions."""
    after = changed(text, line, cure)
    added = [one[2:] for one in difflib.ndiff(text.splitlines(), after.splitlines()) if one.startswith("+ ")]
    tree = [node for node in ast.parse(after).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    ours = [node for node in tree if "pinprof fix" in (ast.get_docstring(node) or "") or node.name[:1] == "_"]
    own = {one for node in ours for one in after.splitlines()[node.lineno - 1 : node.end_lineno]}
    return [one.strip() for one in added if one not in own and one.strip() and not one.startswith(("import", "_"))]


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("y = [g.cpu() for g in x]", "y = [_to_host(g) for g in x]"),
        ('y = f(x).to("cpu").numpy()', "y = _to_host(f(x)).numpy()"),
        ('y = x.to(device="cpu")', "y = _to_host(x)"),
        ('y = torch.ones(8, 8).to("cuda:1")', 'y = torch.ones(8, 8, pin_memory=True).to("cuda:1")'),
        ("y = torch.rand(n).cuda()", "y = torch.rand(n, pin_memory=True).cuda()"),
        ("y = torch.rand(n).to(device)", "y = torch.rand(n, pin_memory=True).to(device)"),
        ("y = x.to(device, non_blocking=True)", "y = _to_device(x, device, non_blocking=True)"),
        ("for y in n: y.to(device=device)", "for y in n: _to_device(y, device)"),
        ("with save_on_cpu(): y = m(x)", "with save_on_cpu(pin_memory=True): y = m(x)"),
        ("with save_on_cpu(pin_memory=False): y = m(x)", "with save_on_cpu(pin_memory=True): y = m(x)"),
        ("p = CPUOffloadPolicy()", "p = CPUOffloadPolicy(pin_memory=True)"),
        ("for y in DataLoader(x, 8): f(y)", "for y in DataLoader(x, 8, pin_memory=True): f(y)"),
    ],
)
def test_copies_are_pinned(line: str, after: str) -> None:
    text = f"{TORCH}def step(x, m, f, n, device):\n    {line}\n"
    assert changed(text, 4, "pinned-buffer").endswith(f"def step(x, m, f, n, device):\n    {after}\n")


MADE = """\
import torch as t

class Net:
    def __init__(self, n):
        self.kept = {k: t.zeros(n) for k in range(3)}
    def step(self, x):
        for k, kept in self.kept.items():
            kept.cuda()
def run(device):
    weights, other = [t.randn(8) for _ in range(4)], t.empty(3)
    for i, (a, b) in enumerate(zip(weights, reversed(weights))):
        a.to(device, non_blocking=True)
    other[1:].copy_(b[:2])
    host = t.empty(8).zero_()
    host.copy_(b, non_blocking=True)
    t.cuda.synchronize()
    print(host)
"""


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (8, ["self.kept = {k: t.zeros(n, pin_memory=True) for k in range(3)}"]),
        (13, ["weights, other = [t.randn(8, pin_memory=True) for _ in range(4)], t.empty(3)"]),
        (15, ["weights, other = [t.randn(8, pin_memory=True) for _ in range(4)], t.empty(3)"]),
    ],
)
def test_what_is_copied_is_followed_to_where_it_is_made(line: int, after: list[str]) -> None:
    text = MADE.replace("enumerate(zip(weights, reversed(weights)))", "enumerate(weights)").replace("(a, b)", "b")
    text = text.replace("a.to", "b.to")
    assert lines_of(text, line, "pin-source") == after


def test_a_copy_waits_where_something_else_uses_the_memory() -> None:
    """A copy of pageable memory is finished, or has its bytes, when the call returns."""
    read = f"{TORCH}def f(y):\n    host = torch.empty(8)\n    host.copy_(y, non_blocking=True)\n"
    assert lines_of(read, 5, "pinned-buffer") == ["host = torch.empty(8, pin_memory=True)"]
    both = ["host = torch.empty(8, pin_memory=True)", "host.copy_(y, non_blocking=False)"]
    assert lines_of(f"{read}    print(host)\n", 5, "pinned-buffer") == both
    waits = f"{read}    torch.cuda.synchronize()\n    print(host)\n"
    assert lines_of(waits, 5, "pinned-buffer") == both[:1]
    again = read.replace("    host.copy_", "    while y: print(host); torch.cuda.synchronize(); host.copy_")
    assert "non_blocking=False" in changed(again, 5, "pinned-buffer")
    written = (
        f"{TORCH}def f(d):\n    w = torch.ones(8)\n    y = w.to(d, non_blocking=True)\n    for x in [w]: x.mul_(2)\n"
    )
    assert "w.to(d, non_blocking=False)" in changed(written, 5, "pin-source")
    other = f"{written}    z.to(d, non_blocking=True)\n"
    assert "_to_device(w, d, non_blocking=True)" in changed(other, 5, "pin-source")
    assert "torch.ones(8)\n" in changed(other, 5, "pin-source")


def test_a_program_that_runs_without_a_gpu_as_well_still_does() -> None:
    text = f'{TORCH}d = "cuda" if torch.cuda.is_available() else "cpu"\ny = torch.ones(8).to(d)\n'
    assert "torch.ones(8, pin_memory=torch.cuda.is_available()).to(d)" in changed(text, 4, "pin-source")


def test_memory_that_is_hardly_copied_is_not_pinned() -> None:
    assert "torch.ones(8, pin_memory=False)" in changed(f"{TORCH}x = torch.ones(8, pin_memory=True)\n", 3, "pin-less")
    text = f"{TORCH}x = torch.ones(8)\nx = x.pin_memory()  # why\nprint(x)\n"
    assert changed(text, 4, "pin-less") == f"{TORCH}x = torch.ones(8)\npass  # why\nprint(x)\n"
    assert "is used before" in reason(text.replace("x = x", "y = x[1:]\nx = x"), 5, "pin-less")
    assert "stays beside" in reason(text.replace("x = x", "y = x"), 4, "pin-less")
    assert "is not made by PyTorch" in reason(text.replace("torch.ones(8)", "load()"), 4, "pin-less")
    assert "is_pinned" in reason(f"{text}x.is_pinned()\n", 4, "pin-less")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("losses.append(x.item())", "_append(losses, _later(x, _item))"),
        ("losses.append(float(f(x)))", "_append(losses, _later(f(x), float))"),
        ("losses.append(x.detach() if c else x.item())", "_append(losses, x.detach() if c else _later(x, _item))"),
        ("total += x.sum().item()", "total = _add(total, _later(x.sum(), _item))"),
    ],
)
def test_numbers_wait(line: str, after: str) -> None:
    text = f"{TORCH}losses, total = [], 0.0\nfor x in xs:\n    {line}\nprint(losses, f'{{total:.3f}}')\n"
    read = "print(_numbers(losses), f'{total:.3f}')" if "loss" in line else "print(losses, f'{_number(total):.3f}')"
    assert changed(text, 5, "sync-less").endswith(f"for x in xs:\n    {after}\n{read}\n")


def test_a_function_may_return_a_number_that_waits() -> None:
    text = f"{TORCH}def step(x):\n    return x.item()\n\nstep(0)\nprint(sum(step(x) for x in xs), step(1) + 2)\n"
    after = (
        "def step(x):\n    return _later(x, _item)\n\nstep(0)\nprint(_sum(step(x) for x in xs), _number(step(1)) + 2)\n"
    )
    assert changed(text, 4, "sync-less").endswith(after)
    file = File(text, main=False)
    with pytest.raises(NotCertain, match="Other files may call step"):
        line_changes(file, 4, "sync-less")


USED = f"""{TORCH}def train(n, model):
    for step in range(n):
        x = model(step)
        # how good it is
        loss = x.mean().item()  # read
        best = float(x.max)
        if step % 100 == 0 and not model.quiet:
            print(loss, best)
        elif n: pass
"""


def test_a_value_that_few_steps_use_is_read_there() -> None:
    moved = (
        "\n            # how good it is\n            loss = x.mean().item()  # read\n            best = float(x.max)\n"
    )
    after = changed(USED, 7, "sync-less")
    assert f"model.quiet:{moved}            print(loss, best)\n        elif" in after
    assert after.count("loss =") == 1
    one_line = f"{TORCH}for i in x:\n    v = x.item()\n    if i: print(v)\n"
    assert changed(one_line, 4, "sync-less").endswith(
        "for i in x:\n    if i:\n        v = x.item()\n        print(v)\n"
    )


def test_a_value_that_is_used_after_a_loop_is_read_there() -> None:
    text = "import jax\n\nN = 3\nfor i in range(N):\n    s = f(s)\n    host = jax.device_get(s)\nprint(host)\n"
    after = changed(text, 6, "keep-resident")
    assert after.endswith("    s = f(s)\nhost = jax.device_get(s)\nprint(host)\n")
    for other in ("range(len(s))", "range(0)", "s"):
        assert "not certain" in reason(text.replace("range(N)", other), 6, "keep-resident")
    assert "not certain" in reason(text.replace("f(s)", "f(s)\n    if s: break"), 7, "keep-resident")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("step % 100 == 0 and", "step_of(x) and"),  # a test may change what is read
        ("step % 100 == 0 and", "(x := step) and"),
        ("print(loss, best)", "calls.append(lambda: loss)"),  # which would see an older value
        ("elif n: pass", "elif n: print(loss)"),
        ("        if step", "        x += 1\n        if step"),
        ("x.mean().item()", "queue.get()"),  # each read takes something
        ("x.mean().item()", "x.cpu()"),  # a module's moves the module
        ("x = model(step)", "x = model(step)\n        loss = 3"),
    ],
)  # fmt: skip
def test_a_value_stays_where_it_may_be_another_later(old: str, new: str) -> None:
    text = USED.replace(old, new)
    assert text != USED
    line = next(at for at, one in enumerate(text.splitlines(), 1) if "# read" in one)
    with pytest.raises(NotCertain):
        changed(text, line, "sync-less")


def test_a_read_may_be_what_waits_for_a_copy() -> None:
    copied = USED.replace("x = model(step)", "host.copy_(model(step), non_blocking=True); x = host")
    assert "also waits for copies" in reason(copied, 7, "sync-less")
    summed = f"{TORCH}t = 0.0\nfor x in y:\n    h = x.to('cpu', non_blocking=True)\n    t += x.item()\nprint(t, h)\n"
    assert "also waits for copies" in reason(summed, 6, "sync-less")
    loaded = USED.replace("x = model(step)", "x = model(b.to('cuda', non_blocking=True))")
    assert changed(f"{loaded}b = DataLoader(y, pin_memory=True)\n", 7, "sync-less")
    assert "also waits for copies" in reason(f"{loaded}b = torch.empty(\n    f(3), pin_memory=True)\n", 7, "sync-less")


@pytest.mark.parametrize("line", [4, 6])
def test_a_module_that_goes_to_the_host_and_back_is_pinned_there(line: int) -> None:
    text = f"{TORCH}for layer in layers:\n    layer.to('cuda')\n    x = layer(x)\n    layer.to('cpu')\n"
    assert changed(text, line, "pin-source").endswith("    x = layer(x)\n    _to_host(layer)\n")


def inserted(name: str, **words: str) -> dict[str, Any]:
    """What a transformation inserts, with words changed so that it runs without a GPU."""
    text = (Path(source.__file__).parent / "inserted" / f"{name}.py").read_text().partition("# ---- inserted\n")[2]
    for old, new in words.items():
        assert old in text
        text = text.replace(old, new)
    made: dict[str, Any] = {}
    exec(text, made)
    return made


def test_a_module_is_moved_as_pytorch_does() -> None:
    torch = pytest.importorskip("torch")
    to_host = inserted("pinned", **{"is_cuda": "is_cpu", ", pin_memory=True": ""})["_to_host"]
    layer = torch.nn.LSTM(4, 4)
    names, before = {name: id(one) for name, one in layer.named_parameters()}, layer.weight_ih_l0.data_ptr()
    x = torch.ones(2, 4)
    layer(x)[0].sum().backward()
    expected = layer(x)[0].tolist()
    assert to_host(layer) is layer
    assert {name: id(one) for name, one in layer.named_parameters()} == names
    assert layer.weight_ih_l0.data_ptr() != before
    assert layer.weight_ih_l0.grad is not None
    assert layer(x)[0].tolist() == expected


def test_a_parameter_is_pinned_once_where_nothing_shares_its_memory() -> None:
    torch = pytest.importorskip("torch")
    pins = {'type != "cuda"': 'type != "meta"', "pin_memory()": "clone()", "value.is_pinned()": "value in pinned"}
    made = inserted("staged", **pins)
    made["pinned"] = pinned = _Identities()
    to_device = made["_to_device"]
    alone, shared, viewed = (torch.nn.Parameter(torch.ones(1 << 18)) for _ in range(3))
    mapped = torch.nn.Parameter(torch.from_numpy(np.ones(1 << 18, np.float32)))
    shared.share_memory_()
    view = viewed.detach()
    before = [one.data_ptr() for one in (alone, shared, viewed, mapped)]
    with torch.inference_mode():
        for one in (alone, shared, viewed, mapped):
            assert to_device(one, "meta").is_meta
    assert [one.data_ptr() for one in (alone, shared, viewed, mapped)][1:] == before[1:]
    assert alone.data_ptr() != before[0]
    assert not alone.is_inference()
    alone.sum().backward()
    assert view.data_ptr() == before[2]
    assert alone.grad is not None
    pinned.all.append(alone)
    waits = to_device(alone, "meta", non_blocking=True, dtype=torch.float64)
    assert waits.dtype is torch.float64
    assert waits.requires_grad


class _Identities:
    """A set of tensors, which == compares element by element."""

    def __init__(self) -> None:
        self.all: list[object] = []

    def __contains__(self, one: object) -> bool:
        return any(one is other for other in self.all)


def test_deepspeed_pins_what_it_offloads() -> None:
    text = 'c = {\n    "offload_optimizer": {"device": "cpu"},\n'
    text += '    "offload_param": {"device": "cpu", "pin_memory": False},\n}\n'
    pinned = '{"device": "cpu", "pin_memory": True}'
    after = changed(f"{text}engine.step()\n", 5, "pin-source")
    assert after == f'c = {{\n    "offload_optimizer": {pinned},\n    "offload_param": {pinned},\n}}\nengine.step()\n'
    lines = 'c = {"offload_param": {\n    "device": "cpu",\n    "ratio": 1,\n}}\n'
    assert changed(lines, 1, "pin-source") == lines.replace("1,\n", '1,\n    "pin_memory": True,\n')
    assert "pin_memory already" in reason(after, 5, "pin-source")
    assert "no dictionary with the device cpu" in reason(text.replace('"cpu"}', "where}"), 1, "pin-source")


def test_accelerate_gets_pinned_weights() -> None:
    text = 'from accelerate import cpu_offload\ncpu_offload(model, "cuda")\nmodel(x)\n'
    weights = "{name: tensor.cpu().pin_memory() for name, tensor in model.state_dict().items()}"
    assert f'cpu_offload(model, "cuda", state_dict={weights})\n' in changed(text, 3, "pin-source")
    assert "weights of its own" in reason(text.replace('"cuda"', "state_dict=w"), 3, "pin-source")


def test_a_source_in_c_gets_lines_at_its_end() -> None:
    before = "int main(void) { return 0; }"
    (change,) = program_changes(NativeFile(before), "reuse-memory")
    after = with_changes(NativeFile(before), [change])
    assert after.startswith(f"{before}\n\n#include <malloc.h>\n")
    assert after.count("mallopt(") == 2
    assert not program_changes(NativeFile(before), "share-memory")


ROWS = f"""{TORCH}def f(t, s, order):
    for a, b in enumerate(order):
        t[a].copy_(s[b], non_blocking=True)  # why
"""


def test_rows_are_copied_together() -> None:
    after = "def f(t, s, order):\n    _gather(t, s, [(a, b) for a, b in enumerate(order)], True)  # why\n"
    assert changed(ROWS, 5, "batch-copies").endswith(after)
    assert "does something else" in reason(f"{ROWS}        print(a)\n", 5, "batch-copies")
    assert "used outside" in reason(f"{ROWS}    print(a)\n", 5, "batch-copies")
    assert "numbered by the loop alone" in reason(ROWS.replace("t[a]", "t[c]"), 5, "batch-copies")


def test_a_private_mapping_is_copied() -> None:
    text = 'from numpy import memmap\n\nx = memmap(f, "u1", mode="c")\nx += 1\n'
    assert 'x = memmap(f, "u1", mode="c").copy("K")\n' in changed(text, 4, "read-file")
    assert "looks at the mapping" in reason(f"{text}x._mmap.madvise(1)\n", 4, "read-file")
    assert "No numpy.memmap" in reason(text.replace('"c"', '"r+"'), 4, "read-file")


def test_a_copied_mapping_is_as_the_mapping_was(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(range(12)))
    plain = np.memmap(tmp_path / "x", np.uint8, "c", 0, (3, 4), "F")
    copied = plain.copy("K")
    assert type(copied) is np.memmap
    assert (copied.strides, copied.flags.writeable) == (plain.strides, True)
    copied += 1
    assert (tmp_path / "x").read_bytes() == bytes(range(12))


def test_a_fork_that_starts_a_program_is_a_spawn() -> None:
    text = (
        'import os\n\npid = os.fork()  # here\nif not pid:\n    os.execv("/bin/true", ["true"])\nos.waitpid(pid, 0)\n'
    )
    spawned = 'import os\n\npid = os.posix_spawn("/bin/true", ["true"], os.environ)  # here\nos.waitpid(pid, 0)\n'
    assert changed(text, 3, "spawn") == spawned
    for other in ("/bin/no-such", "true"):
        assert reason(text.replace("/bin/true", other), 3, "spawn").startswith("What the child does")
    assert reason(text.replace("    os.exec", "    print()\n    os.exec"), 3, "spawn").startswith("What the child does")


@pytest.mark.parametrize(
    ("text", "line", "cure", "said"),
    [
        (f"{TORCH}@jit\ndef f(a):\n    return a.cpu()\n", 5, "pinned-buffer", "f is decorated"),
        (f"{TORCH}x = (a  # why\n     ).cpu()\n", 3, "pinned-buffer", "A comment stands inside the expression"),
        (f"{TORCH}def _to_host(): pass\nx = a.cpu()\n", 4, "pinned-buffer", "The file has the name _to_host already"),
        (f"{TORCH}f = lambda a: a.cpu()\n", 3, "pinned-buffer", "has no expression"),
        (f"{TORCH}x = a.cpu(memory)\n", 3, "pinned-buffer", "has no expression"),
        ("x = = 1\n", 1, "pinned-buffer", "syntax is unknown"),
        ("x = 1\n", 1, "protect-less", "No transformation carries out protect-less"),
        ("p.start()\n", 1, "spawn", "A library forks here"),
        (f"{TORCH}t = 0.0\nfor x in y:\n    t += x.item()\n    print(f'{{t=}}')\n", 5, "sync-less", "shows the name"),
        (f"{TORCH}t = []\nfor x in y:\n    t.append(x.item())\n    z = t\n", 5, "sync-less", "may hold the list t"),
        (
            f"{TORCH}t = []\ndef f(y):\n    global t\n    for x in y: t.append(x.item())\n    return t\n",
            6, "sync-less", "may hold the list t",
        ),
        (f"{TORCH}t = z = []\nfor x in y:\n    t.append(x.item())\n", 5, "sync-less", "another name"),
        (f"{TORCH}t = w\nfor x in y:\n    t += x.item()\n", 5, "sync-less", "something else than a number"),
        (f"{TORCH}t = 0.0\nfor x in y:\n    t += x.item()\nprint(locals())\n", 5, "sync-less", "The file has locals"),
        (f"{TORCH}for x in y:\n    if x.item() < 3: break\n", 4, "sync-less", "used at once"),
        (f"{TORCH}for x in y: self.t += x.item()\n", 3, "sync-less", "is no name of its own"),
        (f"{TORCH}def f(x): return x.item()\ng(f)\n", 3, "sync-less", "f is passed on"),
    ],
)  # fmt: skip
def test_what_is_not_certain_stays(text: str, line: int, cure: str, said: str) -> None:
    assert said in reason(text, line, cure)


def test_options_are_changed_where_only_one_call_can_be_meant() -> None:
    text = f"{TORCH}with save_on_cpu(): y = m(x)\nwith save_on_cpu(): y = m(x)\nz = 1\n"
    assert "calls save_on_cpu 2 times" in reason(text, 5, "pinned-buffer")
    assert "without their names" in reason(f"{TORCH}with save_on_cpu(True): y = m(x)\n", 3, "pinned-buffer")
    assert "already" in reason(f"{TORCH}with save_on_cpu(pin_memory=True): y = m(x)\n", 3, "pinned-buffer")
    loaders = f"{TORCH}a = DataLoader(x)\nb = DataLoader(y)\nfor one in b: f(one)\n"
    assert lines_of(loaders, 5, "pin-source") == ["b = DataLoader(y, pin_memory=True)"]
    workers = f"{TORCH}a = DataLoader(x, num_workers=2)\nfor one in a: f(one)\n"
    assert lines_of(workers, 4, "spawn") == ["a = DataLoader(x, num_workers=2, persistent_workers=True)"]
    assert "other random numbers" in reason(f"{workers}torch.randn(3)\n", 4, "spawn")


def test_everything_else_of_a_file_stays() -> None:
    text = (
        '"""What it does."""\nfrom __future__ import annotations\n\nimport   torch # odd\n\n'
        "class  A( object ) :\n\tdef f( self,x ):\n\t\treturn  x.cpu( )  ;  # kept\n\n\nprint( A( ).f( 3 ) )\t\n"
    )
    after = changed(text, 8, "reuse-memory")
    lines = [line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] == "-"]
    assert lines == ["- \t\treturn  x.cpu( )  ;  # kept"]
    whole = [ast.dump(node) for node in ast.parse(after).body]
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            assert ast.dump(node) in whole
    above = '"""What it does."""\nfrom __future__ import annotations\n\nimport   torch # odd\n\n\n'
    assert after.startswith(f"{above}def _to_host")


def test_lines_at_the_top_change_how_memory_is_allocated() -> None:
    text = "import sys\n\nprint(bytes(5 << 20)[-1], sys.argv[1:])\n"
    after = started(text, "kept-memory")
    assert after.endswith(f"\n\n_keep_memory()\n{text.partition('sys')[2][1:]}")
    assert len(after.splitlines()) - len(text.splitlines()) < 14
    done = subprocess.run([sys.executable, "-c", after, "x"], capture_output=True, text=True, check=True)
    assert done.stdout == "0 ['x']\n"
    assert '"PYTORCH_CUDA_ALLOC_CONF", "pinned_use' in started("import torch\n", "registered-pins")


def test_memory_that_malloc_keeps_is_written_again() -> None:
    made = "import resource\nfor k in range(12): bytes([k]) * (40 << 20)\n"
    made += "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)\n"
    texts = [made, started(made, "kept-memory")]
    faults = [int(subprocess.run([sys.executable, "-c", one], capture_output=True, check=True).stdout) for one in texts]
    assert faults[1] < faults[0] / 5


ARRAYS = """\
import multiprocessing
import numpy as np

def work(k):
    found = np.full((300, 1000), k, "f8")
    return [found, found, found[:, ::2], np.asfortranarray(found), np.arange(3), found.astype(">f8"), found * 1j]

def main(method):
    with multiprocessing.get_context(method).Pool(2) as pool:
        for found in pool.map(work, range(4)):
            found[0] += 1
            print([(type(x).__name__, x.dtype, x.shape, x.strides, x.flags.writeable, x.sum())
                   for x in found], found[0] is found[1])

if __name__ == "__main__":
    main({method!r})
"""


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_arrays_in_shared_memory_are_as_they_were(tmp_path: Path, method: str) -> None:
    text = ARRAYS.replace("{method!r}", repr(method))
    before = set(Path("/dev/shm").glob("pinprof-*"))
    said = []
    for number, one in enumerate([text, started(text, "shared-arrays")]):
        program = tmp_path / f"program{number}.py"
        program.write_text(one)
        said.append(subprocess.run([sys.executable, program], capture_output=True, text=True, check=True, timeout=120))
    assert said[0].stdout == said[1].stdout
    assert said[1].stderr == ""
    assert set(Path("/dev/shm").glob("pinprof-*")) == before


def test_shared_memory_that_nobody_read_is_freed(tmp_path: Path) -> None:
    text = "import multiprocessing, sys\nimport numpy as np\nq = multiprocessing.Queue()\nq.put(np.ones(1 << 20))\n"
    text += "import glob, os, time\nname = f'/dev/shm/pinprof-{os.getpid()}-*'\n"
    text += "while not glob.glob(name): time.sleep(0.01)\n"
    text += "print(glob.glob(name)[0])\nq.cancel_join_thread()\n"
    (tmp_path / "x.py").write_text(started(text, "shared-arrays"))
    done = subprocess.run([sys.executable, tmp_path / "x.py"], capture_output=True, text=True, check=True, timeout=120)
    assert not Path(done.stdout.strip()).exists()


@pytest.mark.slow
def test_changed_loops_print_the_same() -> None:
    pytest.importorskip("torch")
    same, refused, wrong = loops.judged(range(1000, 1024))
    assert not wrong
    assert same > refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "sound", "careless"),
    [
        ("    d += 1\n    x.append(d[0].item())  # HERE", ".to(kind, copy=True)", ".to(kind)"),
        ("    t += (d * 0.1).sum().item()  # HERE", "torch.float64 if real", "torch.float32 if real"),
        ("    x.append(d[i].item())  # HERE\n    x.sort()", "numbers[at] = one", "pass"),
        ("    for a, b in enumerate([1, -1]):\n        h[a].copy_(d[b])  # HERE", "min(to + at) < 0", "False"),
    ],
)
def test_inserted_code_is_as_careful_as_it_must_be(body: str, sound: str, careless: str) -> None:
    """Less careful, the same programs print something else."""
    pytest.importorskip("torch")
    text = "import torch\n\nx, t = [], 0.0\nd, h = torch.arange(3.0).double(), torch.zeros(3).double()\n"
    text += f"for i in range(3):\n{body}\nprint(x, repr(t), h)\n"
    after = loops.changed(text)
    assert loops.printed(text) == loops.printed(after)
    assert sound in after
    assert loops.printed(text) != loops.printed(after.replace(sound, careless))


def test_every_transformation_says_what_it_does() -> None:
    for row in TRANSFORMATIONS.values():
        assert row.does.endswith(".")
        assert row.costs.endswith(".")
        assert row.mark is not None or row.inserts
        if row.alike:
            assert row.cures & CURES[row.alike].answers


def test_without_libcst_the_command_that_installs_it_is_named() -> None:
    missing = missing_package(ModuleNotFoundError(name="libcst"))
    assert missing is not None
    assert missing.remedy == "Install it: pip install 'pinprof[fix]'"
