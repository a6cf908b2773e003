"""How code changes, and where it stays as it is."""

from __future__ import annotations

import ast
import difflib

import numpy as np
import pytest

from pinprof.base.errors import missing_package
from pinprof.fix import kept
from pinprof.fix.transformations import TRANSFORMATIONS, File, NotCertain
from tests.support import loops

SIZE = 20_000


def changed(text: str, line: int, cure: str = "reuse-memory") -> str:
    file = File(text)
    return file.changed([file.changes(line, cure)])


def reason(text: str, line: int, cure: str = "reuse-memory") -> str:
    with pytest.raises(NotCertain) as refused:
        changed(text, line, cure)
    return str(refused.value)


NUMPY = "import numpy as np\n\n"


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("x = a * b + c  # why", 'x = _kept("+", _kept("*", a, b), c)  # why'),
        ("return(a*b)", 'return(_kept("*", a, b))'),
        ("x[i + 1] = np.sqrt( a )", "x[i + 1] = _kept(np.sqrt, a)"),
        ("x = f(np.zeros(5, dtype=np.float32), b - 1)", 'x = f(_kept(np.zeros, 5, np.float32), _kept("-", b, 1))'),
        ("x = [(y := a / k) for k in b]", 'x = [(y := _kept("/", a, k)) for k in b]'),
        ("x = np.concatenate([a, b])", "x = _kept(np.concatenate, [a, b])"),
        ("x = (yield) * (await_ - 2)", 'x = _kept("*", (yield), _kept("-", await_, 2))'),
    ],
)
def test_arrays_are_kept(line: str, after: str) -> None:
    text = f"{NUMPY}def step(a, b, c, f, i, x):\n    {line}\n"
    assert changed(text, 4).endswith(f"def step(a, b, c, f, i, x):\n    {after}\n")


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("y = [g.cpu() for g in x]", "y = [_to_host(g) for g in x]"),
        ('y = f(x).to("cpu").numpy()', "y = _to_host(f(x)).numpy()"),
        ('y = torch.ones(8, 8).to("cuda:1")', 'y = torch.ones(8, 8, pin_memory=True).to("cuda:1")'),
        ("y = torch.rand(n).cuda()", "y = torch.rand(n, pin_memory=True).cuda()"),
        ("with save_on_cpu(): y = m(x)", "with save_on_cpu(pin_memory=True): y = m(x)"),
        ("with save_on_cpu(pin_memory=False): y = m(x)", "with save_on_cpu(pin_memory=True): y = m(x)"),
        ("p = CPUOffloadPolicy()", "p = CPUOffloadPolicy(pin_memory=True)"),
    ],
)
def test_copies_are_pinned(line: str, after: str) -> None:
    text = f"import torch\n\ndef step(x, m, f, n):\n    {line}\n"
    assert changed(text, 4, "pinned-buffer").endswith(f"def step(x, m, f, n):\n    {after}\n")


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
    ("text", "line", "said"),
    [
        (f"{NUMPY}@jit\ndef f(a):\n    return a * 2\n", 5, "f is decorated"),
        (f"{NUMPY}x = (a *  # why\n     b)\n", 3, "A comment stands inside the expression"),
        (f"{NUMPY}def _kept(): pass\nx = a * b\n", 4, "The file has the name _kept already"),
        (f"{NUMPY}np = other\nx = a * b\n", 4, "has no expression"),
        ("def f(a):\n    import numpy as np\n    return a * 2\n", 3, "has no expression"),
        (f"{NUMPY}f = lambda a: a * 2\n", 3, "has no expression"),
        (f"{NUMPY}import sys\nx = a * b\nprint(sys.getrefcount(x))\n", 4, "The file has getrefcount"),
        (f"{NUMPY}x = np.sqrt(a, where=b)\n", 3, "has no expression"),
        (f"{NUMPY}x = a @ b\n", 3, "has no expression"),
        ("x = = 1\n", 1, "syntax is unknown"),
    ],
)
def test_what_is_not_certain_stays(text: str, line: int, said: str) -> None:
    assert said in reason(text, line)


def test_options_are_changed_where_only_one_call_can_be_meant() -> None:
    text = "import torch\nwith save_on_cpu(): y = m(x)\nwith save_on_cpu(): y = m(x)\n"
    assert "calls save_on_cpu 2 times" in reason(text, 2, "pinned-buffer")
    assert "without their names" in reason("import torch\nwith save_on_cpu(True): y = m(x)\n", 2, "pinned-buffer")


def test_no_transformation_for_a_cure_is_said() -> None:
    assert reason("x = 1\n", 1, "read-file") == "No transformation carries out read-file."


def test_everything_else_of_a_file_stays() -> None:
    text = (
        '"""What it does."""\nfrom __future__ import annotations\n\nimport   numpy as np # odd\n\n'
        "class  A( object ) :\n\tdef f( self,x ):\n\t\treturn  x*x  ;  # kept\n\n\nprint( A( ).f( 3 ) )\t\n"
    )
    after = changed(text, 8)
    lines = [line for line in difflib.ndiff(text.splitlines(), after.splitlines()) if line[0] == "-"]
    assert lines == ["- \t\treturn  x*x  ;  # kept"]
    whole = [ast.dump(node) for node in ast.parse(after).body]
    for node in ast.parse(text).body:
        if not isinstance(node, ast.ClassDef):
            assert ast.dump(node) in whole
    assert after.startswith('"""What it does."""\nfrom __future__ import annotations\n\nimport operator')


@pytest.mark.slow
def test_changed_loops_print_the_same() -> None:
    same, refused, wrong = loops.judged(range(1000, 1016))
    assert not wrong
    assert same > refused


@pytest.mark.slow
def test_the_loops_notice_arrays_that_are_overwritten(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """Without the count of references the same programs print something else."""
    before = File.changed

    def careless(file: File, changes: object) -> str:
        return before(file, changes).replace("_references(taken) == _ALONE", "True")  # type: ignore[arg-type]

    monkeypatch.setattr(File, "changed", careless)
    assert len(loops.judged(range(1000, 1016))[2]) > 2


def test_memory_that_nothing_refers_to_is_written_again() -> None:
    a = np.arange(SIZE, dtype=np.float64)
    address = kept._kept("*", a, 2.0).ctypes.data
    assert kept._kept("*", a, 2.0).ctypes.data == address
    assert kept._kept(np.zeros, SIZE).sum() == 0
    ones = kept._kept(np.ones, SIZE)
    assert ones.sum() == SIZE


@pytest.mark.parametrize("held", ["name", "view", "memory", "tuple"])
def test_memory_that_something_refers_to_stays(held: str) -> None:
    a = np.arange(SIZE, dtype=np.float64)
    made = kept._kept("+", a, 1.0)
    holder = {"name": made, "view": made[3:7], "memory": memoryview(made), "tuple": (made,)}[held]
    del made
    for _ in range(6):
        kept._kept("+", a, 1.0)[:] = -1
    first = holder[0][3] if held == "tuple" else holder[3] if held != "view" else holder[0]
    assert first == 4


def test_other_forms_and_types_are_computed_as_ever() -> None:
    class Own(np.ndarray):
        pass

    own = np.arange(SIZE).view(Own)
    assert type(kept._kept("+", own, 1)) is Own
    assert kept._kept("+", "a", "b") == "ab"
    assert kept._kept("*", [1], 2) == [1, 1]
    assert kept._kept(np.sqrt, np.float32(4)) == 2
    made = kept._kept("*", np.ones(SIZE), 2.0)
    made.flags.writeable = False
    del made
    assert kept._kept("*", np.ones(SIZE), 3.0).sum() == 3 * SIZE


def test_every_transformation_says_what_it_does() -> None:
    for row in TRANSFORMATIONS.values():
        assert row.does.endswith(".")
        assert row.costs.endswith(".")


def test_without_libcst_the_command_that_installs_it_is_named() -> None:
    missing = missing_package(ModuleNotFoundError(name="libcst"))
    assert missing is not None
    assert missing.remedy == "Install it: pip install 'pinprof[fix]'"
