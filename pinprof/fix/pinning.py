"""Tensors of the host that are copied from or to a GPU: made in pinned memory; and memory that need not be pinned.

What a line copies is followed to where it is made: through names that are bound once, loops, lists, slices and
attributes of `self`. A maker of PyTorch with `pin_memory=True` gives the same values. A copy from or to pinned memory
with `non_blocking=True` no longer waits; where something else uses the memory, the copy waits as before.
"""

from __future__ import annotations

from typing import TypeGuard

from pinprof.base.errors import packages_named
from pinprof.fix.source import (
    Become,
    File,
    Marks,
    NotCertain,
    bare,
    become,
    called,
    every,
    has_comment,
    keyword,
    last_name,
    with_keyword,
)

with packages_named():
    import libcst as cst

_MAKERS = frozenset(
    f"torch.{name}"
    for name in ("empty", "zeros", "ones", "full", "rand", "randn", "randint", "randperm", "arange", "linspace", "eye",
                 "tensor")
)  # fmt: skip
_SAME_MEMORY = frozenset(
    {"zero_", "fill_", "uniform_", "normal_", "random_", "copy_", "view", "reshape", "flatten", "unsqueeze", "squeeze",
     "detach", "narrow", "select", "t", "unbind", "split", "chunk", "values", "items"}
)  # fmt: skip
"""Methods whose result lies where their tensor or the tensors of their dictionary lie."""
_READS = frozenset(
    {"to", "cuda", "size", "dim", "numel", "shape", "dtype", "nbytes", "element_size", "stride", "pin_memory"}
)
_WAITS = frozenset({"torch.cuda.synchronize"})


def pin_results(file: File, line: int) -> Marks:
    """`x.cpu()` and `x.to("cpu")` on a line copy to pinned memory; also before its `x.cuda()`."""
    methods = [node for node in file.expressions(line) if _is_method(node)]
    marks: dict[cst.CSTNode, Become] = {node: _pinned_result for node in methods if _to_host(node)}
    back = {file.code(node.func.value) for node in methods if _to_gpu(file, node)}  # type: ignore[attr-defined]
    for node in file.nodes() if back else ():
        if _is_method(node) and _to_host(node) and file.code(node.func.value) in back:  # type: ignore[attr-defined]
            file.statements(file.line(node))
            marks[node] = _pinned_result
    return without_comments(marks)


def _is_method(node: cst.CSTNode) -> TypeGuard[cst.Call]:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute)


def _to_host(node: cst.Call) -> bool:
    given = [(one.keyword.value if one.keyword else "", _text(one.value)) for one in node.args]
    return (last_name(node.func), given) in (("cpu", []), ("to", [("", "cpu")]), ("to", [("device", "cpu")]))


def _text(node: cst.BaseExpression) -> str | None:
    return str(node.evaluated_value) if isinstance(node, cst.SimpleString) else None


def _pinned_result(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    return called("_to_host", bare(node.func.value)).with_changes(lpar=node.lpar, rpar=node.rpar)


def pin_made(file: File, line: int) -> Marks:
    """What a line copies from the host to a GPU, or into, is made in pinned memory."""
    refused: list[NotCertain] = []
    for copy in file.expressions(line):
        if not isinstance(copy, cst.Call) or not isinstance(copy.func, cst.Attribute):
            continue
        sides = [copy.func.value] if _to_gpu(file, copy) else []
        if copy.func.attr.value == "copy_" and copy.args:
            sides = [copy.args[0].value, copy.func.value]
        for side in sides:
            found = _Origin(file)
            try:
                found.follow(side)
                if not found.makers:
                    raise NotCertain(f"What {file.code(side)} is made of is pinned already.")
                marks: dict[cst.CSTNode, Become] = {made: _pinned(file, made) for made in found.makers}
                into = side is copy.func.value and copy.func.attr.value == "copy_"
                return without_comments(marks | dict(_waiting(file, copy, found, reads=not into)))
            except NotCertain as error:
                refused.append(error)
    if refused:
        raise refused[0]
    return {}


def stage(file: File, line: int) -> Marks:
    """What a line copies to a GPU goes through pinned memory, where what makes it cannot be changed."""
    try:
        if pin_made(file, line):
            return {}
    except NotCertain:
        pass
    marks: dict[cst.CSTNode, Become] = {}
    for node in file.expressions(line):
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and _to_gpu(file, node):
            named = [one.keyword.value for one in node.args if one.keyword]
            if not any(one.star for one in node.args) and set(named) <= {"device", "non_blocking", "dtype"}:
                marks[node] = _staged
    return without_comments(marks)


def _staged(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    where = [one.value for one in node.args if not one.keyword or one.keyword.value == "device"]
    how = [one for one in node.args if one.keyword and one.keyword.value != "device"]
    place = where[0] if where else cst.SimpleString('"cuda"')
    args = [cst.Arg(bare(node.func.value)), cst.Arg(place), *how]
    return cst.Call(cst.Name("_to_device"), args, lpar=node.lpar, rpar=node.rpar)


def _to_gpu(file: File, node: cst.Call) -> bool:
    """Whether a call is `x.cuda()` or `x.to(…)` of something that is no dtype and not the host."""
    name = last_name(node.func)
    if name == "cuda":
        return not [one for one in node.args if not one.keyword]
    given = [one.value for one in node.args if not one.keyword or one.keyword.value == "device"]
    if name != "to" or len(given) != 1:
        return False
    text = _text(given[0])
    return text.startswith("cuda") if text is not None else not file.qualified(given[0]).startswith("torch.")


def _pinned(file: File, made: cst.Call) -> Become:
    """A maker with `pin_memory`; a program that also runs without a GPU asks for one."""
    both = "is_available" in file.text and file.qualified(made.func).startswith("torch.")
    name = file.code(made.func).rpartition(".")[0]
    return with_keyword("pin_memory", f"{name}.cuda.is_available()" if both and name else "True")


def _waiting(file: File, copy: cst.Call, found: _Origin, *, reads: bool) -> Marks:
    """The copies that wait from now on, where they did before because the memory was not pinned."""
    calls = [copy, *found.other_copies(copy)]
    mute = [call for call in calls if keyword(call, "non_blocking") is not None]
    if "non_blocking" not in file.text or found.copied_only(copy, reads=reads):
        return {}
    if file.text.count("non_blocking") > len(mute):
        raise NotCertain("Other copies with non_blocking may read or write the memory while something else does.")
    return dict.fromkeys(mute, with_keyword("non_blocking", "False"))


class _Origin:
    """Where the memory of an expression is made, and by which names it goes on the way."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._seen: set[cst.CSTNode] = set()
        self._iterated: set[cst.CSTNode] = set()
        self.makers: list[cst.Call] = []
        self.names: list[cst.Name] = []

    def follow(self, node: cst.BaseExpression) -> None:
        """Find its makers; NotCertain where one is unknown."""
        if node in self._seen:
            return
        self._seen.add(node)
        if isinstance(node, cst.Call):
            self._call(node)
        elif isinstance(node, cst.Subscript):
            self.follow(node.value)
        elif isinstance(node, cst.Name):
            self._name(node)
        elif isinstance(node, cst.Attribute):
            self._attribute(node)
        elif isinstance(node, cst.List | cst.Tuple):
            for element in node.elements:
                self.follow(element.value)
        elif isinstance(node, cst.ListComp | cst.GeneratorExp):
            self.follow(node.elt)
        elif isinstance(node, cst.Dict):
            for pair in node.elements:
                self.follow(pair.value)
        elif isinstance(node, cst.DictComp):
            self.follow(node.value)
        elif isinstance(node, cst.IfExp):
            self.follow(node.body)
            self.follow(node.orelse)
        else:
            raise self._unknown(node)

    def _unknown(self, node: cst.CSTNode) -> NotCertain:
        return NotCertain(f"What {self._file.code(node)} makes need not be memory of PyTorch's makers.")

    def _call(self, node: cst.Call) -> None:
        name = self._file.qualified(node.func)
        if name in _MAKERS:
            named = {one.keyword.value for one in node.args if one.keyword}
            device = keyword(node, "device")
            elsewhere = device is not None and _text(device) != "cpu"
            if elsewhere or named & {"out", "layout"} or any(one.star for one in node.args):
                raise NotCertain(f"{self._file.code(node)} may lie on another device.")
            if "set_default" in self._file.text:
                raise NotCertain("The file sets a default device or type.")
            if self._file.code(keyword(node, "pin_memory") or cst.Name("False")) == "True":
                raise NotCertain(f"{self._file.code(node)} is pinned already.")
            self.makers.append(node)
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value == "pin_memory" and not node.args:
            return
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _SAME_MEMORY and not name:
            self.follow(node.func.value)
        elif isinstance(node.func, cst.Name) and node.func.value in ("list", "tuple", "reversed", "iter") and node.args:
            self.follow(node.args[0].value)
        else:
            raise self._unknown(node)

    def _name(self, name: cst.Name) -> None:
        self.names.append(name)
        for one in self._file.assignments(name):
            if one.node not in self._seen:
                self._seen.add(one.node)
                self._bound(one.node, name.value)

    def _bound(self, node: cst.CSTNode, name: str) -> None:
        """What an assignment or a loop gives to a name or an attribute."""
        at: list[int] = []
        target = self._file.parent(node)
        while isinstance(target, cst.Element):
            several = self._file.parent(target)
            assert isinstance(several, cst.Tuple | cst.List)
            at.insert(0, [one is target for one in several.elements].index(True))
            target = self._file.parent(several)
            node = several
        given: cst.BaseExpression | None = None
        if isinstance(target, cst.For | cst.CompFor) and target.target is node:
            given = target.iter
        elif isinstance(target, cst.AnnAssign):
            given = target.value
        elif isinstance(target, cst.AssignTarget):
            statement = self._file.parent(target)
            assert isinstance(statement, cst.Assign)
            given = statement.value
            if at and isinstance(given, cst.Tuple) and len(at) == 1 and at[0] < len(given.elements):
                given, at = given.elements[at[0]].value, []
        if given is None:
            raise NotCertain(f"{name} comes from a caller, or is bound in another way.")
        for place in at:
            given = self._element(given, place)
        self.follow(given)

    def _element(self, given: cst.BaseExpression, place: int) -> cst.BaseExpression:
        """What a loop's target gets at a place: `for i, x in enumerate(xs)`, `for x, y in zip(xs, ys)`."""
        if isinstance(given, cst.Call):
            function = last_name(given.func)
            if function == "enumerate" and place == 1:
                return given.args[0].value
            if function == "zip" and place < len(given.args):
                return given.args[place].value
            if function == "items" and place == 1:
                return given
        raise self._unknown(given)

    def _attribute(self, node: cst.Attribute) -> None:
        """`self.x`, which one line of the file gives."""
        if not isinstance(node.value, cst.Name) or node.value.value != "self":
            raise self._unknown(node)
        same = [
            one for one in self._file.nodes() if isinstance(one, cst.Attribute) and last_name(one) == node.attr.value
        ]
        given = [one for one in same if isinstance(self._file.parent(one), cst.AssignTarget | cst.AnnAssign)]
        if len(given) != 1 or len({self._file.code(one) for one in same}) != 1:
            raise NotCertain(f"{self._file.code(node)} is given in {len(given)} lines, or used by other names.")
        self.names += [cst.Name("self")] if len(same) > 2 else []
        self._bound(given[0], self._file.code(node))

    def other_copies(self, copy: cst.Call) -> list[cst.Call]:
        """Other calls of methods of what has one of the names: `x[i].to(…)`."""
        found = []
        for name in self.names:
            for use in self._file.uses(name) if name.value != "self" else ():
                parent = self._whole(use)[1]
                call = self._file.parent(parent)
                if isinstance(parent, cst.Attribute) and isinstance(call, cst.Call) and call is not copy:
                    found.append(call)
        return found

    def copied_only(self, copy: cst.Call, *, reads: bool) -> bool:
        """Whether nothing else can touch the memory while a copy runs: `reads` says that the copy reads it."""
        inside = set(every(copy))
        for name in self.names:
            if name.value == "self":
                return False
            for use in self._file.uses(name):
                if use not in inside and not self._harmless(use, copy, reads=reads):
                    return False
        return True

    def _whole(self, use: cst.CSTNode) -> tuple[cst.CSTNode, cst.CSTNode]:
        """`x[i]` of a name `x`, and what that is in."""
        node, parent = use, self._file.parent(use)
        while isinstance(parent, cst.Subscript) and parent.value is node:
            node, parent = parent, self._file.parent(parent)
        return node, parent

    def _harmless(self, use: cst.CSTNode, copy: cst.Call, *, reads: bool) -> bool:
        node, parent = self._whole(use)
        if isinstance(parent, cst.Arg) and isinstance(call := self._file.parent(parent), cst.Call):
            function = last_name(call.func)
            if function in ("zip", "enumerate", "reversed"):
                node, parent = call, self._file.parent(call)
            elif function == "len" or (reads and function == "copy_"):
                return True
        if isinstance(parent, cst.Attribute) and parent.value is node:
            read = reads and parent.attr.value in _READS
            if read or (not reads and parent.attr.value == "copy_"):
                return True
            if parent.attr.value in ("items", "values"):
                node, parent = self._file.parent(parent), self._file.parent(self._file.parent(parent))
        if isinstance(parent, cst.For | cst.CompFor) and parent.iter is node:
            targets = (
                [] if parent in self._iterated else [one for one in every(parent.target) if isinstance(one, cst.Name)]
            )
            self._iterated.add(parent)
            uses = {use for target in targets for use in self._file.uses(target)} - set(every(copy))
            return all(self._harmless(one, copy, reads=reads) for one in uses)
        return self._after_wait(use, copy)

    def _after_wait(self, use: cst.CSTNode, copy: cst.Call) -> bool:
        """Whether a use follows, in its block, a statement that waits for the GPU, which follows the copy's."""
        around, copies = list(self._file.around(use)), set(self._file.around(copy))
        for inner, block in zip([use, *around], around, strict=False):
            if isinstance(block, cst.IndentedBlock | cst.Module) and block in copies:
                body = list(block.body)
                lines = [one in copies for one in body]
                at, begun = [one is inner for one in body].index(True), lines.index(True)
                between = body[begun + 1 : at] if begun < at else []
                looped = any(isinstance(one, cst.For | cst.While) for one in self._file.around(block))
                waits = any(self._file.qualified(node.func) in _WAITS for one in between for node in every(one)
                            if isinstance(node, cst.Call))  # fmt: skip
                return waits and not looped
        return False


def unpin(file: File, line: int) -> Marks:
    """Memory that is pinned for nothing is not pinned: `torch.empty(…, pin_memory=True)` and `x = x.pin_memory()`."""
    if "is_pinned" in file.text:
        raise NotCertain("The file has is_pinned: it may see the change.")
    marks: dict[cst.CSTNode, Become] = {}
    for node in file.expressions(line):
        if not isinstance(node, cst.Call):
            continue
        if file.qualified(node.func) in _MAKERS and keyword(node, "pin_memory") is not None:
            marks[node] = with_keyword("pin_memory", "False")
        elif last_name(node.func) == "pin_memory" and isinstance(node.func, cst.Attribute) and not node.args:
            _same_as_before(file, node)
            statement = file.parent(node)
            again = isinstance(statement, cst.Assign) and file.code(statement.targets[0].target) == file.code(
                node.func.value
            )
            marks |= _without(file, statement) if again else {node: _unpinned}
    return without_comments(marks)


def _without(file: File, statement: cst.CSTNode) -> Marks:
    """A statement leaves, with its line where that has nothing else and is not all of its block."""
    line = file.parent(statement)
    block = file.parent(line)
    alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and not has_comment(line)
    if alone and isinstance(block, cst.IndentedBlock | cst.Module) and len(block.body) > 1:
        return {line: become(cst.RemoveFromParent())}
    return {statement: become(cst.Pass())}


def _unpinned(node: cst.CSTNode) -> cst.CSTNode:
    assert isinstance(node, cst.Call)
    assert isinstance(node.func, cst.Attribute)
    return node.func.value.with_changes(lpar=node.lpar, rpar=node.rpar) if node.lpar else node.func.value


def _same_as_before(file: File, call: cst.Call) -> None:
    """NotCertain where the tensor that is pinned may be used beside its copy."""
    assert isinstance(call.func, cst.Attribute)
    source = call.func.value
    if isinstance(source, cst.Call) and file.qualified(source.func) in _MAKERS:
        return
    target = file.parent(call)
    statement = target if isinstance(target, cst.Assign) else None
    names = [one.target for one in statement.targets] if statement else []
    if not isinstance(source, cst.Name) or len(names) != 1 or last_name(names[0]) != source.value:
        raise NotCertain("The tensor stays beside its pinned copy, and either may change.")
    bound = [file.parent(file.parent(one.node)) for one in file.assignments(source)]
    others = [one for one in bound if one is not statement]
    made = others[0].value if len(others) == 1 and isinstance(others[0], cst.Assign) else None
    if len(bound) != 2 or not isinstance(made, cst.Call) or file.qualified(made.func) not in _MAKERS:
        raise NotCertain(f"{source.value} is not made by PyTorch just before.")
    for use in file.uses(source):
        before = file.line(use) < file.line(call) and use is not source
        if before and not _excluded(file, use, call):
            raise NotCertain(f"{source.value} is used before it is pinned, in line {file.line(use)}.")


def _excluded(file: File, one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two places are in different branches of one `if` that runs once."""
    for around in file.around(one):
        if isinstance(around, cst.If) and around in list(file.around(other)):
            inside = around.orelse is not None and around.orelse in list(file.around(other))
            again = cst.For | cst.While | cst.FunctionDef
            return inside and not any(isinstance(outer, again) for outer in file.around(around))
    return False


def without_comments(marks: Marks) -> Marks:
    """The marks; NotCertain where a comment would be lost."""
    if any(has_comment(node) for node in marks):
        raise NotCertain("A comment stands inside the expression.")
    return marks
