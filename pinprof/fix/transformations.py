"""The transformations of code, as a table: which cures each carries out, and how it changes a program.

Those of the first kind change lines: they mark nodes of a file's syntax tree and say what each becomes, or refuse with
the reason in a sentence. Those of the second kind only insert lines at the top of the program, which set how memory is
allocated. What an expression is at run time the inserted functions look at themselves.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType

from pinprof.base.errors import packages_named
from pinprof.base.lazy_dataclass import dataclass
from pinprof.fix.gathering import gather_rows
from pinprof.fix.later import read_later
from pinprof.fix.native import NativeFile
from pinprof.fix.numbers import keep_numbers
from pinprof.fix.options import offload_pinned, on_line, option, weights_pinned
from pinprof.fix.pinning import pin_made, pin_results, stage, unpin
from pinprof.fix.source import File, Marks, NotCertain, become, has_comment

with packages_named():
    import libcst as cst


@dataclass(frozen=True)
class Transformation:
    """One way to carry out cures in code."""

    id: str
    title: str
    """As the subject of `… saves 0.4 s`."""
    does: str
    """What it changes, one sentence."""
    cures: frozenset[str]
    """Those of opportunities that it carries out."""
    library: str
    """The module that a file must import; empty: any file."""
    mark: Callable[[File, int], Marks] | None
    """What changes for a line; empty where no such code is there; NotCertain where the change is not certain. None: it
    only inserts lines at the top of the program."""
    costs: str
    inserts: tuple[str, ...] = ()
    """The modules of `inserted/` whose lines are inserted."""
    alike: str = ""
    """The cure of `pinprof try` that does the same without a change of code."""


@dataclass(frozen=True)
class CodeChange:
    """One transformation of a file: of one statement, or of the whole program."""

    transformation: Transformation
    line: int
    """0: the whole program."""
    marks: Marks = field(repr=False)


def line_changes(file: File, line: int, cure: str) -> list[CodeChange]:
    """The changes of a line that carry out a cure; NotCertain with the first reason where there is none."""
    refused: list[NotCertain] = []
    found = []
    rows = [row for row in TRANSFORMATIONS.values() if cure in row.cures]
    if not rows:
        raise NotCertain(f"No transformation carries out {cure}.")
    for row in rows:
        if row.mark is None or (row.library and not file.imports(row.library)):
            continue
        try:
            if marks := row.mark(file, line):
                found.append(CodeChange(row, line, marks))
        except NotCertain as error:
            refused.append(error)
    if not found:
        none = f"Line {line} has no expression that a transformation for {cure} is certain about."
        raise refused[0] if refused else NotCertain(none)
    return found


def program_changes(file: File | NativeFile, cure: str) -> list[CodeChange]:
    """The lines at the top of a program, or at the end of a source in C, that carry out a cure."""
    rows = [row for row in TRANSFORMATIONS.values() if row.mark is None and cure in row.cures]
    return [CodeChange(row, 0, {}) for row in rows if not row.library or file.imports(row.library)]


def changed(file: File | NativeFile, changes: Sequence[CodeChange]) -> str:
    """A file's text with changes; NotCertain where it would not be valid."""
    marks = {node: made for change in changes for node, made in change.marks.items()}
    return file.changed(marks, [name for change in changes for name in change.transformation.inserts])


def _copy_mapped(file: File, line: int) -> Marks:
    """`numpy.memmap(…, "c")` is read at once: the one of a line, of the names in it, or of the file."""
    calls = [
        node for node in file.nodes() if isinstance(node, cst.Call) and file.qualified(node.func) == "numpy.memmap"
    ]
    calls = [call for call in calls if '"c"' in file.code(call) or "'c'" in file.code(call)]
    if len(calls) > 1:
        calls = [call for call in calls if on_line(file, line, call)]
    if any(word in file.text for word in ("._mmap", ".filename", ".offset", ".mode")):
        raise NotCertain("The file looks at the mapping itself.")
    if len(calls) != 1:
        raise NotCertain("No numpy.memmap in mode 'c' is certainly what this line writes to.")
    return {calls[0]: _copied} if isinstance(file.parent(calls[0]), cst.AssignTarget | cst.Assign | cst.Return) else {}


def _copied(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    copy = cst.Attribute(node.with_changes(lpar=(), rpar=()), cst.Name("copy"))
    return cst.Call(copy, [cst.Arg(cst.SimpleString('"K"'))], lpar=node.lpar, rpar=node.rpar)


def _spawn(file: File, line: int) -> Marks:
    """`pid = os.fork()` and `if not pid: os.execv(…)` become `pid = os.posix_spawn(…)`."""
    if "register_at_fork" in file.text:
        raise NotCertain("The file has register_at_fork: a fork does more there.")
    for statement in file.statements(line):
        block = next((one for one in file.around(statement) if isinstance(one, cst.IndentedBlock | cst.Module)), None)
        whole = next(file.around(statement))
        if not isinstance(statement, cst.Assign) or block is None or not any(one is whole for one in block.body):
            continue
        forks = isinstance(statement.value, cst.Call) and file.qualified(statement.value.func) == "os.fork"
        if not forks or file.code(statement.value) != "os.fork()":
            continue
        body = list(block.body)
        following = body[[id(one) for one in body].index(id(whole)) + 1 :][:1]
        executed = _executed(file, following[0], statement) if following else None
        if executed is None:
            raise NotCertain("What the child does is more than to start a program.")
        environment = cst.Arg(cst.parse_expression("os.environ"))
        spawn = cst.Call(cst.parse_expression("os.posix_spawn"), [*executed.args, environment])
        return {statement.value: become(spawn), following[0]: become(cst.RemoveFromParent())}
    raise NotCertain("A library forks here, and its child may read anything that the program has.")


def _executed(file: File, node: cst.CSTNode, fork: cst.Assign) -> cst.Call | None:
    """The call of os.execv that is all a child does, with arguments that are constants."""
    target = file.code(fork.targets[0].target) if len(fork.targets) == 1 else ""
    if not isinstance(node, cst.If) or node.orelse or has_comment(node):
        return None
    if file.code(node.test) not in (f"not {target}", f"{target} == 0") or not target.isidentifier():
        return None
    body = node.body.body
    line = body[0].body if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else body
    call = line[0].value if len(line) == 1 and isinstance(line[0], cst.Expr) else None
    if not isinstance(call, cst.Call) or file.code(call.func) != "os.execv" or len(call.args) != 2:
        return None
    try:
        path, words = (ast.literal_eval(file.code(argument.value)) for argument in call.args)
    except ValueError:
        return None
    fits = isinstance(path, str) and os.path.isabs(path) and os.access(path, os.X_OK)  # noqa: PTH117 - a text
    return call if fits and isinstance(words, list | tuple) and words else None


_FRESH = frozenset({"reuse-memory", "huge-pages"})
_PAGEABLE = frozenset({"pinned-buffer", "pin-source"})
_PINNED = "PyTorch keeps the pinned memory until the program ends."
_KEEPS = "Freed memory stays with the process."

TRANSFORMATIONS: Mapping[str, Transformation] = MappingProxyType(
    {
        row.id: row
        for row in (
            Transformation(
                "save-on-cpu-pinned", "save_on_cpu(pin_memory=True)", "Activations are saved in pinned memory.",
                _FRESH | _PAGEABLE, "torch", option("save_on_cpu", "pin_memory"), _PINNED,
            ),
            Transformation(
                "offload-pinned", "CPUOffloadPolicy(pin_memory=True)", "FSDP keeps what it offloads in pinned memory.",
                _FRESH | _PAGEABLE, "torch", option("CPUOffloadPolicy", "pin_memory"), _PINNED,
            ),
            Transformation(
                "pinned-results", "copying results into pinned memory", "`.cpu()` copies into pinned memory.",
                _FRESH | _PAGEABLE, "torch", pin_results, _PINNED, ("pinned",),
            ),
            Transformation(
                "pinned-when-made", "making tensors in pinned memory", "What a GPU copies is made in pinned memory.",
                _FRESH | _PAGEABLE, "torch", pin_made, _PINNED,
            ),
            Transformation(
                "staged-copies", "copying through pinned memory", "`.to(device)` copies through pinned memory.",
                _PAGEABLE, "torch", stage, _PINNED, ("staged",),
            ),
            Transformation(
                "loader-pinned", "DataLoader(pin_memory=True)", "A thread of the loader pins every batch.",
                _PAGEABLE, "torch", option("DataLoader", "pin_memory", 5), _PINNED,
            ),
            Transformation(
                "trainer-pinned", "TrainingArguments(dataloader_pin_memory=True)", "The Trainer's loader pins batches.",
                _PAGEABLE, "transformers", option("TrainingArguments", "dataloader_pin_memory", 1), _PINNED,
            ),
            Transformation(
                "deepspeed-pinned", '"offload_optimizer": {"pin_memory": True}', "DeepSpeed pins what it offloads.",
                _FRESH | _PAGEABLE, "", offload_pinned, "What is offloaded stays pinned.",
            ),
            Transformation(
                "accelerate-pinned", "cpu_offload(state_dict=…) with pinned tensors", "Weights are pinned once.",
                _FRESH | _PAGEABLE, "accelerate", weights_pinned, "A pinned copy of the weights.",
            ),
            Transformation(
                "loader-keeps-workers", "DataLoader(persistent_workers=True)", "Workers stay from epoch to epoch.",
                frozenset({"spawn"}), "torch", option("DataLoader", "persistent_workers", 5, "num_workers"),
                "The workers' memory stays between epochs.",
            ),
            Transformation(
                "trainer-keeps-workers", "TrainingArguments(dataloader_persistent_workers=True)",
                "Workers stay from epoch to epoch.", frozenset({"spawn"}), "transformers",
                option("TrainingArguments", "dataloader_persistent_workers", 1, "dataloader_num_workers"),
                "The workers' memory stays between epochs.",
            ),
            Transformation(
                "kept-numbers", "reading numbers later", "Numbers stay on the GPU until the program uses them.",
                frozenset({"sync-less"}), "torch", keep_numbers, "Up to 1,024 numbers wait on the GPU.",
                ("kept_numbers",),
            ),
            Transformation(
                "read-when-used", "reading values where they are used", "Only steps that use a value read it.",
                _FRESH | _PAGEABLE | {"sync-less", "keep-resident"}, "", read_later, "None.",
            ),
            Transformation(
                "gathered-rows", "copying rows together", "Rows are gathered, and copied at once.",
                frozenset({"batch-copies"}), "torch", gather_rows, "Memory for the gathered rows.", ("gathered",),
            ),
            Transformation(
                "not-pinned", "not pinning", "Memory that is hardly copied is not pinned.",
                frozenset({"pin-less"}), "torch", unpin,
                "None: copies of the memory wait.",
            ),
            Transformation(
                "copied-files", "reading instead of mapping", "A private mapping becomes memory with the bytes.",
                frozenset({"read-file", "record-mappings"}), "numpy", _copy_mapped, f"The whole file is read. {_KEEPS}",
                ("kept_memory",),
            ),
            Transformation(
                "spawned", "posix_spawn instead of fork", "os.posix_spawn starts the program.",
                frozenset({"spawn"}), "", _spawn, "None.",
            ),
            Transformation(
                "kept-memory", "malloc that keeps freed memory", "malloc gives no memory back to the kernel.",
                _FRESH | _PAGEABLE, "", None, _KEEPS, ("kept_memory",), "glibc-keep-memory",
            ),
            Transformation(
                "shared-arrays", "arrays in shared memory", "Processes hand large NumPy arrays over in shared memory.",
                frozenset({"share-memory"}), "numpy", None, f"A copy of each array on its way. {_KEEPS}",
                ("kept_memory", "shared_arrays"),
            ),
            Transformation(
                "registered-pins", "registering what PyTorch pins", "PyTorch touches pinned memory with 8 threads.",
                frozenset({"touch-then-register", "pool-pinned", "pin-less", "pin-in-pieces"}), "torch", None, "None.",
                ("registered_pins",), "torch-register-pins",
            ),
            Transformation(
                "exact-pins", "pinning the exact size", "PyTorch does not round large pinned blocks up.",
                frozenset({"pin-exact"}), "torch", None, "None: it pins less.", ("exact_pins",), "torch-exact-pins",
            ),
        )
    }
)  # fmt: skip
"""By id."""
