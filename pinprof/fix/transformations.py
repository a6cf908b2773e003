"""The transformations of code, as a table: which cures each carries out, and how it changes a line.

A transformation marks nodes of a file's syntax tree and says what each becomes; or it refuses, with the reason in a
sentence. Everything else of the file stays byte for byte. None guesses: what an expression is at run time the inserted
functions look at themselves (`kept.py`, `pinned.py`).
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path
from types import MappingProxyType

import numpy as np

from pinprof.base.errors import packages_named
from pinprof.base.lazy_dataclass import dataclass

with packages_named():
    import libcst as cst
    from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider

Become = Callable[[cst.CSTNode], "cst.CSTNode | cst.RemovalSentinel"]
"""What a marked node becomes, whose children may have changed already."""
_OPERATORS: Mapping[type[cst.BaseBinaryOp], str] = MappingProxyType(
    {cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/"}
)
_MAKERS = frozenset({"empty", "zeros", "ones"})
_JOINS = frozenset({"concatenate", "stack"})
_TORCH_MAKERS = frozenset({"empty", "zeros", "ones", "full", "rand", "randn", "arange", "tensor"})
_SEES = ("getrefcount", "get_referrers", ".resize(", "register_at_fork", "numba", "getsource")
"""Words of programs that see how many references an object has, what a fork does besides, or their own code."""
_PRIVATE = re.compile(r"(?<![\w.])_[a-zA-Z]\w*")
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
MARKER = "# ---- inserted\n"


class NotCertain(Exception):
    """A line stays as it is; the text is a sentence that says why."""


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
    mark: Callable[[File, int], Mapping[cst.CSTNode, Become]]
    """What changes for a line; empty where no such code is there; NotCertain where the change is not certain."""
    costs: str
    inserts: str = ""
    """The module of this package whose functions are inserted."""


@dataclass(frozen=True)
class CodeChange:
    """One transformation of one statement of a file."""

    transformation: Transformation
    line: int
    marks: Mapping[cst.CSTNode, Become] = field(repr=False)


class File:
    """A Python file with its tree; NotCertain where its text is none that can be written back."""

    def __init__(self, text: str) -> None:
        try:
            self.tree = ast.parse(text)
            self._wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
        except (SyntaxError, ValueError, RecursionError, cst.ParserSyntaxError) as error:
            raise NotCertain("The file's syntax is unknown to LibCST or to this Python.") from error
        self.text = text
        self._positions = self._wrapper.resolve(PositionProvider)
        self._parents = self._wrapper.resolve(ParentNodeProvider)

    def changes(self, line: int, cure: str) -> CodeChange:
        """The first transformation that carries out a cure at a line; NotCertain where there is none."""
        if seen := next((word for word in _SEES if word in self.text), ""):
            raise NotCertain(f"The file has {seen}: it may see the change.")
        rows = [row for row in TRANSFORMATIONS.values() if cure in row.cures]
        if not rows:
            raise NotCertain(f"No transformation carries out {cure}.")
        for row in rows:
            if row.library and not self.name_of(row.library):
                continue
            if marks := row.mark(self, line):
                return CodeChange(row, line, marks)
        raise NotCertain(f"Line {line} has no expression that a transformation for {cure} is certain about.")

    def changed(self, changes: Sequence[CodeChange]) -> str:
        """The text with changes; NotCertain where it would not be valid."""
        marks = {node: become for change in changes for node, become in change.marks.items()}
        try:
            module = self._wrapper.module.visit(_Marked(marks))
            assert isinstance(module, cst.Module)
            for name in dict.fromkeys(change.transformation.inserts for change in changes):
                module = self._with_inserted(module, name) if name else module
            text = module.code
            compile(text, "changed", "exec", dont_inherit=True)
        except (SyntaxError, cst.CSTValidationError) as error:
            raise NotCertain("The changed line would not be valid Python.") from error
        return text

    def name_of(self, library: str) -> str:
        """The name by which a file imports a module at its top, where nothing else has that name; else empty."""
        for statement in self.tree.body:
            for one in statement.names if isinstance(statement, ast.Import) else ():
                if one.name == library:
                    name = one.asname or one.name
                    return name if self._binds_once(name, library) else ""
        return ""

    def statements(self, line: int) -> list[cst.BaseSmallStatement]:
        """The simple statements that a line is part of; NotCertain where something else may compile their function."""
        found = []
        for node, place in self._positions.items():
            if isinstance(node, cst.BaseSmallStatement) and place.start.line <= line <= place.end.line:
                found.append(node)
        for node in found:
            for around in self.around(node):
                if isinstance(around, cst.FunctionDef) and around.decorators:
                    raise NotCertain(
                        f"{around.name.value} is decorated, so something else may read or compile its code."
                    )
        return found

    def around(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes that a node is in, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def nodes(self) -> Iterator[cst.CSTNode]:
        """All nodes that have a place."""
        return iter(self._positions)

    def _with_inserted(self, module: cst.Module, name: str) -> cst.Module:
        """The module with the functions of `fix/NAME.py` below its docstring and imports of `__future__`."""
        text = Path(__file__).with_name(f"{name}.py").read_text("utf-8").partition(MARKER)[2]
        if both := sorted(set(_PRIVATE.findall(self.text)) & set(_PRIVATE.findall(text))):
            raise NotCertain(f"The file has the name {both[0]} already.")
        body = list(module.body)
        at = 0
        while at < len(body) and _stands_first(body[at], first=at == 0):
            at += 1
        first, *others = cst.parse_module(text).body
        above = first.with_changes(leading_lines=[cst.EmptyLine(indent=False)]) if at else first
        return module.with_changes(body=[*body[:at], above, *others, *body[at:]])

    def _binds_once(self, name: str, library: str) -> bool:
        for node in ast.walk(self.tree):
            names = [getattr(node, "id", "")] if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del) else []
            names += [getattr(node, "arg", "")] if isinstance(node, ast.arg) else []
            if isinstance(node, ast.Import | ast.ImportFrom):
                whole = isinstance(node, ast.Import)
                names += [one.asname or one.name for one in node.names if not (whole and one.name == library)]
            elif isinstance(node, _NAMED):
                names.append(node.name or "")
            if name in names or "*" in names:
                return False
        return True


class _Marked(cst.CSTTransformer):
    """Replaces marked nodes."""

    def __init__(self, marks: Mapping[cst.CSTNode, Become]) -> None:
        super().__init__()
        self._marks = marks

    def on_leave(self, original_node, updated_node):  # type: ignore[no-untyped-def]  # as its parent has it
        become = self._marks.get(original_node)
        return become(updated_node) if become else updated_node


def _stands_first(node: cst.CSTNode, *, first: bool) -> bool:
    line = node.body[0] if isinstance(node, cst.SimpleStatementLine) else None
    if isinstance(line, cst.Expr):
        return first and isinstance(line.value, cst.SimpleString | cst.ConcatenatedString)
    return isinstance(line, cst.ImportFrom) and isinstance(line.module, cst.Name) and line.module.value == "__future__"


def _has_comment(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Comment) or any(map(_has_comment, node.children))


def _children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """A node and those below it, without indices, texts, annotations, and lambdas, which others may compile."""
    if isinstance(node, cst.SubscriptElement | cst.Annotation | cst.BaseString | cst.Lambda):
        return
    yield node
    for child in node.children:
        yield from _children(child)


def _expressions(file: File, line: int) -> Iterator[cst.CSTNode]:
    """The nodes of the statements that a line is part of, but for those that `_children` leaves out."""
    for statement in file.statements(line):
        yield from _children(statement)


def _without_comments(marks: Mapping[cst.CSTNode, Become]) -> Mapping[cst.CSTNode, Become]:
    """The marks; NotCertain where a comment would be lost."""
    if any(map(_has_comment, marks)):
        raise NotCertain("A comment stands inside the expression.")
    return marks


def _member(node: cst.BaseExpression, name: str) -> str:
    """`sqrt` of `np.sqrt` where `np` is the name; else empty."""
    if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value == name:
        return node.attr.value
    return ""


def _call(name: str, *arguments: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.Name(name), [cst.Arg(argument) for argument in arguments])


def _bare(node: cst.BaseExpression) -> cst.BaseExpression:
    """An argument of a call needs no parentheses, but for those that belong to it."""
    loose = cst.BinaryOperation | cst.Call | cst.Name | cst.Attribute
    return node.with_changes(lpar=(), rpar=()) if isinstance(node, loose) else node


def _keep_arrays(file: File, line: int) -> Mapping[cst.CSTNode, Become]:
    """Operators and functions of NumPy on a line write into arrays that nothing refers to."""
    name = file.name_of("numpy")
    marks: dict[cst.CSTNode, Become] = {}
    for node in _expressions(file, line):
        if isinstance(node, cst.BinaryOperation) and type(node.operator) in _OPERATORS:
            if not all(isinstance(side, cst.BaseNumber | cst.BaseString) for side in (node.left, node.right)):
                marks[node] = _operation
        elif isinstance(node, cst.Call) and _positional(node, _member(node.func, name)):
            marks[node] = _function
    return _without_comments(marks)


def _positional(node: cst.Call, function: str) -> bool:
    """Whether a call can be passed on: known functions, and no arguments by name but dtype."""
    known = function in _MAKERS | _JOINS or isinstance(getattr(np, function, None), np.ufunc)
    named = [argument.keyword.value for argument in node.args if argument.keyword]
    fits = not named or (function in _MAKERS and named == ["dtype"] and len(node.args) == 2)
    return known and fits and bool(node.args) and not any(argument.star for argument in node.args)


def _operation(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.BinaryOperation)
    sign = cst.SimpleString(f'"{_OPERATORS[type(node.operator)]}"')
    made = _call("_kept", sign, _bare(node.left), _bare(node.right))
    return made.with_changes(lpar=node.lpar, rpar=node.rpar)


def _function(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    made = _call("_kept", node.func, *(_bare(argument.value) for argument in node.args))
    return made.with_changes(lpar=node.lpar, rpar=node.rpar)


def _pin_results(file: File, line: int) -> Mapping[cst.CSTNode, Become]:
    """`x.cpu()` and `x.to("cpu")` on a line copy into pinned memory."""
    marks: dict[cst.CSTNode, Become] = {}
    for node in _expressions(file, line):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _to_host(node):
            marks[node] = _pinned_result
    return _without_comments(marks)


def _to_host(node: cst.Call) -> bool:
    assert isinstance(node.func, cst.Attribute)
    given = [argument.value.evaluated_value if isinstance(argument.value, cst.SimpleString) and not argument.keyword
             else None for argument in node.args]  # fmt: skip
    return (node.func.attr.value, given) in (("cpu", []), ("to", ["cpu"]))


def _pinned_result(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    return _call("_to_host", _bare(node.func.value)).with_changes(lpar=node.lpar, rpar=node.rpar)


def _pin_new(file: File, line: int) -> Mapping[cst.CSTNode, Become]:
    """`torch.ones(…).to("cuda")`: what is made to be copied is made in pinned memory, which PyTorch keeps."""
    name = file.name_of("torch")
    marks: dict[cst.CSTNode, Become] = {}
    for node in _expressions(file, line):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _to_gpu(node):
            made = node.func.value
            if isinstance(made, cst.Call) and _member(made.func, name) in _TORCH_MAKERS and _hosted(made):
                marks[made] = _with_pin_memory
    return marks


def _to_gpu(node: cst.Call) -> bool:
    assert isinstance(node.func, cst.Attribute)
    words = [argument.value.evaluated_value for argument in node.args if isinstance(argument.value, cst.SimpleString)]
    cuda = len(words) == len(node.args) == 1 and str(words[0]).startswith("cuda")
    return (node.func.attr.value == "cuda" and not node.args) or (node.func.attr.value == "to" and cuda)


def _hosted(made: cst.Call) -> bool:
    named = {argument.keyword.value for argument in made.args if argument.keyword}
    return not named & {"device", "pin_memory", "out", "layout"} and not any(argument.star for argument in made.args)


def _with_pin_memory(node: cst.CSTNode) -> cst.CSTNode:
    """A call with `pin_memory=True`."""
    assert isinstance(node, cst.Call)
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    pinned = cst.Arg(cst.Name("True"), cst.Name("pin_memory"), equal)
    args = list(node.args)
    for at, argument in enumerate(args):
        if argument.keyword and argument.keyword.value == "pin_memory":
            args[at] = argument.with_changes(value=cst.Name("True"))
            return node.with_changes(args=args)
    return node.with_changes(args=[*args, pinned])


def _option(called: str) -> Callable[[File, int], Mapping[cst.CSTNode, Become]]:
    """A transformation that gives the one call of a name in the file `pin_memory=True`."""

    def mark(file: File, _line: int) -> Mapping[cst.CSTNode, Become]:
        calls = [node for node in file.nodes() if isinstance(node, cst.Call) and _last_name(node.func) == called]
        if len(calls) > 1:
            raise NotCertain(
                f"The file calls {called} {len(calls)} times, and the recording does not say which is meant."
            )
        if any(argument.star or not argument.keyword for call in calls for argument in call.args):
            raise NotCertain(f"The options of {called} are given without their names.")
        return dict.fromkeys(calls, _with_pin_memory)

    return mark


def _last_name(node: cst.BaseExpression) -> str:
    return node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""


def _spawn(file: File, line: int) -> Mapping[cst.CSTNode, Become]:
    """`pid = os.fork()` and `if not pid: os.execv(…)` become `pid = os.posix_spawn(…)`."""
    for statement in file.statements(line):
        block = next((one for one in file.around(statement) if isinstance(one, cst.IndentedBlock | cst.Module)), None)
        whole = next(file.around(statement))
        if not isinstance(statement, cst.Assign) or block is None or not any(one is whole for one in block.body):
            continue
        if cst.Module([]).code_for_node(statement.value) != "os.fork()" or file.name_of("os") != "os":
            continue
        body = list(block.body)
        following = body[[id(one) for one in body].index(id(whole)) + 1 :][:1]
        executed = _executed(following[0], statement) if following else None
        if executed is None:
            raise NotCertain("What the child does is more than to start a program.")
        environment = cst.Arg(cst.parse_expression("os.environ"))
        spawn = cst.Call(cst.parse_expression("os.posix_spawn"), [*executed.args, environment])
        return {statement.value: partial(_become, spawn), following[0]: partial(_become, cst.RemoveFromParent())}
    return {}


def _become(made: cst.CSTNode | cst.RemovalSentinel, _: cst.CSTNode) -> cst.CSTNode | cst.RemovalSentinel:
    return made


def _executed(node: cst.CSTNode, fork: cst.Assign) -> cst.Call | None:
    """The call of os.execv that is all a child does, with arguments that are constants."""
    code = cst.Module([]).code_for_node
    target = code(fork.targets[0].target) if len(fork.targets) == 1 else ""
    if not isinstance(node, cst.If) or node.orelse or _has_comment(node):
        return None
    if code(node.test) not in (f"not {target}", f"{target} == 0") or not target.isidentifier():
        return None
    body = node.body.body
    line = body[0].body if len(body) == 1 and isinstance(body[0], cst.SimpleStatementLine) else body
    call = line[0].value if len(line) == 1 and isinstance(line[0], cst.Expr) else None
    if not isinstance(call, cst.Call) or code(call.func) != "os.execv" or len(call.args) != 2:
        return None
    try:
        path, words = (ast.literal_eval(code(argument.value)) for argument in call.args)
    except ValueError:
        return None
    fits = isinstance(path, str) and os.path.isabs(path) and os.access(path, os.X_OK)  # noqa: PTH117 - a text
    return call if fits and isinstance(words, list | tuple) and words else None


_FRESH = frozenset({"reuse-memory", "huge-pages"})
_PAGEABLE = frozenset({"pinned-buffer", "pin-source"})
_POOL = "Up to four arrays of each form stay in memory."
_PINNED = "PyTorch keeps the pinned memory until the program ends."

TRANSFORMATIONS: Mapping[str, Transformation] = MappingProxyType(
    {
        row.id: row
        for row in (
            Transformation(
                "save-on-cpu-pinned", "save_on_cpu(pin_memory=True)", "Activations are saved in pinned memory.",
                _FRESH | _PAGEABLE, "torch", _option("save_on_cpu"), _PINNED,
            ),
            Transformation(
                "offload-pinned", "CPUOffloadPolicy(pin_memory=True)", "FSDP keeps what it offloads in pinned memory.",
                _FRESH | _PAGEABLE, "torch", _option("CPUOffloadPolicy"), _PINNED,
            ),
            Transformation(
                "pinned-results", "copying results into pinned memory", "`.cpu()` copies into pinned memory.",
                _FRESH | _PAGEABLE, "torch", _pin_results, _PINNED, "pinned",
            ),
            Transformation(
                "pinned-when-made", "making tensors in pinned memory", "What is copied to the GPU is made pinned.",
                _FRESH | _PAGEABLE, "torch", _pin_new, _PINNED,
            ),
            Transformation(
                "kept-arrays", "writing into kept arrays", "NumPy writes into arrays that nothing refers to any more.",
                _FRESH, "numpy", _keep_arrays, _POOL, "kept",
            ),
            Transformation(
                "spawned", "posix_spawn instead of fork", "os.posix_spawn starts the program.",
                frozenset({"spawn"}), "os", _spawn, "None.",
            ),
        )
    }
)  # fmt: skip
"""By id. The first that has something to change at a line is taken."""
