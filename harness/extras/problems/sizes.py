"""The sizes of a problem file: the integers of its module, which are read and changed in its syntax tree.

The integer defaults of `get_inputs` and `get_init_inputs` are sizes too.

A file is changed before it runs. An integer that is computed from others then follows them, and so does everything that
the model's constructor and the inputs share. Nothing here runs the file, so the driver may call it.
"""

import ast
import operator
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import Any

from harness.core.model.polynomial import Polynomial, constant
from harness.core.model.sweep_axes import AXES

# The axis that a name stands for. Of two names of one axis, the one that stands first here gets it.
AXIS_OF = {
    **dict.fromkeys(("seq_len", "sequence_length", "seq_length", "seqlen", "SEQ_LEN", "T", "max_seqlen"), "seq_len"),
    **dict.fromkeys(("d_model", "n_embd", "N_EMBD", "embed_dim", "hidden_size", "dim", "hiddendim"), "d_model"),
    **dict.fromkeys(("num_heads", "n_head", "N_HEAD", "n_heads", "nhead", "heads", "H"), "num_heads"),
    **dict.fromkeys(("batch_size", "BATCH", "bs", "B"), "batch_size"),
}
_OPERATORS: Mapping[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: Fraction,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
# Beyond this, a short formula could fill the memory.
_MOST = 1e60


def names_in(tree: ast.Module | ast.ClassDef) -> set[str]:
    """The names of the functions and classes of the module, or of the class."""
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}


def models_in(tree: ast.Module) -> list[str]:
    """The classes that may be the model: `Model`, or else those with a base that nothing else in the file uses."""
    definitions = [node for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    used = {
        inner.id
        for node in definitions
        for inner in ast.walk(node)
        if isinstance(inner, ast.Name) and inner.id != node.name
    }
    derived = [node.name for node in definitions if getattr(node, "bases", None)]
    return ["Model"] if "Model" in derived else [name for name in derived if name not in used]


def integers(tree: ast.Module) -> dict[str, int]:
    """The names that the file binds to one positive integer that depends on no other name, with their values.

    Names of the sweep's own axes that mean something else, such as `threads`, keep their values.
    """
    times_bound = Counter(_bound_in(tree))
    values = dict[str, set[Any]]()
    for name, node in assigned(tree):
        if times_bound[name] < 2 and (name in AXIS_OF or name not in AXES):
            with suppress(ZeroDivisionError):
                size = value_of(node, {})
                values.setdefault(name, set()).add(size)
    return {name: value for name, (value, *more) in values.items() if not more and type(value) is int and value > 0}


def _bound_in(node: ast.AST) -> Iterator[str]:
    """The names that are bound below `node`, but for those in functions and classes, whose names are their own."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.Lambda():
                continue
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
        yield from _bound_in(child)


def at_sizes(tree: ast.Module, sizes: Mapping[str, int]) -> ast.Module:
    """The tree, changed in place: the integers of these names have other values. A computed one becomes `size + 0`."""
    for name, node in assigned(tree):
        if name in sizes and isinstance(node, ast.BinOp):
            node.left, node.op, node.right = ast.Constant(sizes[name]), ast.Add(), ast.Constant(0)
        elif name in sizes:
            node.value = sizes[name]
    return ast.fix_missing_locations(tree)


def assigned(tree: ast.Module) -> Iterator[tuple[str, Any]]:
    """The names that the module binds, each with its value: of `a = 4`, of `a, b = 4, 8` and of `get_inputs(a=4)`.

    A default that is a name follows what has that name.
    """
    for statement in tree.body:
        match statement:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                yield name, value
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    if isinstance(target, ast.Name):
                        yield target.id, value
            case ast.FunctionDef(
                name="get_inputs" | "get_init_inputs", args=ast.arguments(args=names, defaults=values)
            ):
                # Each parameter has a default, as both are called without arguments.
                for parameter, value in zip(names, values, strict=False):
                    if not isinstance(value, ast.Name):
                        yield parameter.arg, value


def value_of(node: ast.expr, sizes: Mapping[str, Any]) -> Any:
    """The exact value of an expression of numbers and sizes, or whether a comparison holds; None for anything else.

    Sizes may be polynomials, which have no quotients. Raises ZeroDivisionError.
    """
    match node:
        case ast.Constant(value=int() | float() as number) if number < _MOST:
            return number if isinstance(number, int) else Fraction(str(number))
        case ast.Name(id=name):
            return sizes.get(name)
        case ast.BinOp(left, sign, right) | ast.Compare(left, [sign], [right]) if type(sign) in _OPERATORS:
            operands = [value_of(left, sizes), value_of(right, sizes)]
            if None in operands or (isinstance(sign, ast.Pow) and operands[1] not in range(65)):
                return None
            if Polynomial in map(type, operands):
                operands = [constant(each) if isinstance(each, int) else each for each in operands]
                return _OPERATORS[type(sign)](*operands)
            number = _OPERATORS[type(sign)](*operands)
            return number if max(abs(number.numerator), number.denominator) < _MOST else None
    return None
