"""The sizes of a problem file: the integers of its module, which are read and changed in its syntax tree.

A file is changed before it runs. An integer that is computed from others then follows them, and so does everything that
the model's constructor and the inputs share. Nothing here runs the file, so the driver may call it.
"""

import ast
import copy
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from harness.core.model.errors import UsageError
from harness.core.model.file_io import read_bytes
from harness.core.model.sweep_axes import AXES

# The axis that a name stands for. Of two names of one axis, the one that stands first here gets it.
AXIS_OF = {
    **dict.fromkeys(("seq_len", "sequence_length", "seq_length", "seqlen", "T", "max_seqlen"), "seq_len"),
    **dict.fromkeys(("d_model", "n_embd", "embed_dim", "hidden_size", "dim"), "d_model"),
    **dict.fromkeys(("num_heads", "n_head", "n_heads", "nhead", "heads", "H"), "num_heads"),
    **dict.fromkeys(("batch_size", "B"), "batch_size"),
}
_OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def read_tree(path: Path) -> ast.Module:
    """The syntax tree of a file. Raises UsageError if it cannot be read, or is not Python."""
    try:
        return ast.parse(read_bytes(path), str(path))
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"{path} is not Python: {error}") from error


def names_in(tree: ast.Module) -> set[str]:
    """The names of the functions and classes of the module."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def integers(tree: ast.Module) -> dict[str, int]:
    """The names that the module binds once, to a positive integer that depends on no other name, with their values.

    Names of the sweep's own axes that mean something else, such as `threads`, keep their values.
    """
    names = (node for node in _of_module(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    times_bound = Counter(node.id for node in names)
    values = {name: _value(node) for name, node in _assigned(tree) if name in AXIS_OF or name not in AXES}
    return {name: value for name, value in values.items() if value is not None and times_bound[name] == 1}


def _of_module(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes below `node` that are in no function and no class, whose names are their own."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield child
            yield from _of_module(child)


def at_sizes(tree: ast.Module, sizes: Mapping[str, int]) -> ast.Module:
    """A copy of the tree in which the integers of these names have other values."""
    changed = copy.deepcopy(tree)
    nodes = {id(node): sizes[name] for name, node in _assigned(changed) if name in sizes}
    _Replaced(nodes).visit(changed)
    return changed


class _Replaced(ast.NodeTransformer):
    """Replaces nodes by integers: `{id(node): integer}`."""

    def __init__(self, values: Mapping[int, int]) -> None:
        self._values = values

    def visit(self, node: ast.AST) -> ast.AST:
        if id(node) in self._values:
            return ast.copy_location(ast.Constant(self._values[id(node)]), node)
        return self.generic_visit(node)


def _assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names that the statements of the module bind, each with its value: of `a = 4` and of `a, b = 4, 8`."""
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        yield target.id, value


def _value(node: ast.expr) -> int | None:
    """The value of an integer, or of an expression of integers alone; None for anything else, and for 0 or less."""
    if isinstance(node, ast.Constant):
        value = node.value
    elif isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if left is None or right is None:
            return None
        value = _OPERATORS[type(node.op)](left, right)
    else:
        return None
    return value if type(value) is int and value > 0 else None
