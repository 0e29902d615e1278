"""FLOPs of a call, as counted and as its layer claims.

A multiply-add counts as 2. Elementwise operations and reductions are not counted. The formulas here count matrix
products and FlexAttention, and those of `opaque_kernels.py` all other opaque kernels. Torch's own registry counts
convolutions and everything else that it has a formula for. Plain products ignore masks: attention written out does its
full work under a causal mask, and is counted so.

Operators without a formula make the count unknown instead of too small, unless `operators.txt` knows that they do no
product. So are operators from a user's namespace, and all higher-order operators but FlexAttention's.
"""

import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache, partial
from itertools import takewhile
from json import dumps  # bound before a layer may replace it
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.flop_counter import flop_registry

from harness.core.layers import layer_lookup
from harness.core.model import own_axes
from harness.core.model.errors import UsageError
from harness.core.model.sequence_lengths import claimed_flops, is_summed, real_lengths
from harness.core.model.sweep_axes import Case

from ..device import uncompiled_calls
from ..packed_sequences import passed_as
from .opaque_kernels import KERNELS, Arguments, Kernel, Work
from .operations import SUMS, Observer, Operation, Storages, tensors_of

# The tables in `operators.txt`: operators that do no product count as 0 FLOPs and as one operation of a chain. Others
# without a formula are unknown: they may be a product, a solver, or a loop of many steps.
NO_PRODUCT, UNKNOWN = "no product", "unknown"
_FILE = Path(__file__).with_name("operators.txt")


@cache
def operator_table(name: str) -> frozenset[str]:
    """The operators in one of the two tables, such as `aten::add`."""
    operators = set[str]()
    table = namespace = ""
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            table = line.partition("]")[0].removeprefix("[")
        elif line.endswith("::"):
            namespace = line
        elif table == name and line.startswith("  "):
            operators.update(namespace + operator for operator in line.split())
    return frozenset(operators)


# FlexAttention's operators are higher-order: functions of functions, without the schema that other operators have.
# Position of the block mask among the arguments.
_BLOCK_MASK_AT = {"flex_attention": 4, "flex_attention_backward": 9}


def flex_arguments(operation: Operation) -> Arguments:
    """Return the arguments that the formulas need, by name."""
    query, key, value = operation.args[:3]
    block_mask = operation.args[_BLOCK_MASK_AT[operation.traits.name]]
    return {"query": query, "key": key, "value": value, "block_mask": block_mask}


def computed_pairs(block_mask: tuple[Any, ...], batch: int, heads: int, queries: int, keys: int) -> int:
    """Return the number of query-key pairs in all computed blocks, over batch and heads.

    The block mask leaves these blocks. One with any unmasked pair is computed whole, up to the ends of both sequences.
    """
    # Torch versions differ in what precedes the tensors (the lengths) and in what lies between tensors and sizes.
    first = next(place for place, item in enumerate(block_mask) if isinstance(item, Tensor))
    query_block, key_block = block_mask[-3], block_mask[-2]
    pairs = 0
    for number, indices in (block_mask[first : first + 2], block_mask[first + 2 : first + 4]):  # partial, full blocks
        if number is None:
            continue
        # Batches and heads that share a mask have one list: `number` is (b, h, blocks of queries), `indices`
        # (b, h, blocks of queries, blocks of keys).
        rows = _sizes(torch.arange(number.shape[2], device=number.device), query_block, queries)
        is_listed = torch.arange(indices.shape[3], device=number.device) < number[..., None]
        columns = (_sizes(indices, key_block, keys) * is_listed).sum(-1)
        shared_by = batch * heads // (number.shape[0] * number.shape[1])
        pairs += shared_by * int((rows * columns).sum())
    return pairs


def _sizes(blocks: Tensor, size: int, length: int) -> Tensor:
    """Return the length of each of these blocks of a sequence. The last one may be short."""
    return (length - blocks.long() * size).clamp(0, size)


def _flex(qk: int, v: int, call: Arguments) -> Work:
    """FLOPs of `qk` products over the query's head size and `v` products over the value's.

    `Work.full` is the work without a mask.
    """
    batch, heads, queries, head_dim = call["query"].shape
    keys = call["key"].shape[2]
    each = 2 * (qk * head_dim + v * call["value"].shape[3])
    pairs = computed_pairs(call["block_mask"], batch, heads, queries, keys)
    return Work(each * pairs, each * batch * heads * queries * keys)


FLEX = {
    "flex_attention": Kernel(partial(_flex, 1, 1), 3),
    # 7 products, where other fused kernels have 5. One loop computes the gradient of the queries, and another those of
    # keys and values. Each loop recomputes the scores and the gradient of the weights. (Dong et al. 2024, "Flex
    # Attention"; the template `flex_backwards` in torch/_inductor.)
    # Over the query's head size: the scores twice, dQ, dK. Over the value's: the weights' gradient twice, dV.
    "flex_attention_backward": Kernel(partial(_flex, 4, 3), 4),
}


def make_observable() -> None:
    """Make torch 2.6 pass these operators to the observer. That version does not hand them to a mode by itself."""
    for name in FLEX:
        operator = getattr(torch.ops.higher_order, name)
        if Observer not in operator.python_key_table:
            operator.py_impl(Observer)(_observed(operator))


def _observed(operator: Any) -> Any:
    return lambda mode, *args, **kwargs: mode.__torch_dispatch__(operator, (), args, kwargs)


# Uncompiled FlexAttention computes every pair and then masks. Only this way does its softmax run, which is also that of
# `scaled_dot_product_attention` on its slowest path.
_SOFTMAX_OF_DENSE = "aten::_safe_softmax"


def _dense_flex(operation: Operation) -> Work | None:
    """FLOPs of FlexAttention that is not compiled. None for its backward pass, which differs between versions."""
    if operation.traits.name != "flex_attention":
        return None
    full = _flex(1, 1, flex_arguments(operation)).full
    return Work(full, full)


Declared = Mapping[str, Mapping[str, Callable[..., int]]]


# The products of two arguments, by the place of the first one. Torch has formulas for some of them, too. Those take
# ten times as long, and a loop over time calls these operations in every step.
_OF_FIRST = "mm bmm mv dot vdot _int_mm linear mkldnn_linear"
_OF_SECOND = "addmm addmm_ baddbmm baddbmm_ addbmm addbmm_ _addmm_activation addmv addmv_"
_PRODUCTS = dict.fromkeys(_OF_FIRST.split(), 0) | dict.fromkeys(_OF_SECOND.split(), 1)


def _product(name: str, a: Tensor, b: Tensor) -> int:
    """FLOPs of a product. `b` is a matrix, a batch of matrices or a vector; a linear layer's weights are transposed."""
    columns = math.prod(b.shape[:-1]) if name.endswith("linear") else b.shape[-1] if b.dim() > 1 else 1
    # A complex product is four real ones and two sums, which is four times the work of a real multiply-add.
    return (8 if a.is_complex() else 2) * a.numel() * columns


# The namespaces of torch's own operators. All others are a user's, or a package's.
_TORCHS = ("aten", "prim", "prims", "profiler")


def _fourier(x: Tensor, out: Tensor, dims: list[int]) -> int:
    """Return 5 N lg N for a complex transform of length N, or half of it if one side is real (Frigo & Johnson 2005)."""
    longer = x if x.numel() >= out.numel() else out
    length = math.prod(longer.shape[dim] for dim in dims)
    share = 5.0 if x.is_complex() and out.is_complex() else 2.5
    return round(share * longer.numel() * math.log2(length))


def _convolution_backward(call: Mapping[str, Any]) -> int:
    """Return the FLOPs of the requested gradients: as many as forward for each of the two.

    Torch's formula ignores groups.
    """
    weight, given = call["weight"], call["grad_output"]
    # The tensor at each of whose positions the convolution kernel is applied once.
    at = call["input"] if call["transposed"] else given
    forward = 2 * at.shape[0] * math.prod(at.shape[2:]) * weight.numel()
    return forward * sum(call["output_mask"][:2])


class Flops:
    """`work` of the call so far, or None if an operation had no formula; `unknown` names those operations.

    A user's own layer may state the cost of its own kernels in a class attribute, which is passed as `declared`:

        kernels = {"mylib::scan": {"flops": lambda x, w, out: 2 * x.numel(), "depth": lambda x, w, out: x.shape[1]}}

    Each function is called with the kernel's own arguments and its result as `out=`. Either may be omitted.

    `ran` are the names of the operations of a call that nobody observed, as a profiler has seen them. They show whether
    FlexAttention is compiled: `flex_is_dense` if it is not. `names` are those of the operations that were observed,
    with the number of those on a CPU that are no views. Whether the profiler sees all operations on a GPU is not known.

    Autograd protects what somebody observes: `in_place` are operators that run in place where nobody does. Sums of
    gradients are among them. `forward_sums` are the names of the sums
    that ran in the forward pass, if any ran in place, and `copied_sums` the number of all that made new memory.
    """

    def __init__(self, declared: Declared | None = None, ran: Iterable[str] = ()) -> None:
        self._declared = declared or {}
        # Without observation, autograd calls what `index_put_` calls too.
        names = [name.replace("_index_put_impl_", "index_put_") for name in ran]
        sums = [name for name in takewhile(lambda name: not name.startswith("autograd::"), names) if name in SUMS]
        self.forward_sums = iter(sums if SUMS[1] in sums else ())
        self.copied_sums = names.count(SUMS[0]) if names else math.inf
        self.in_place = {"aten::add"} | {name[:-1] for name in names if name.endswith("_")}.difference(names)
        self._ran = Counter(names)
        self._ran["aten::add_"] += self._ran.pop("aten::add", 0)
        self._softmax_ran = _SOFTMAX_OF_DENSE in self._ran
        self.names = Counter[str]()
        if not isinstance(self._declared, Mapping) or not all(isinstance(k, Mapping) for k in self._declared.values()):
            raise UsageError(f"kernels is {self._declared!r}: it must be {{'mylib::name': {{'flops': …, 'depth': …}}}}")
        # Without this module, its operators are not loaded either, and loading them takes time.
        if "torch.nn.attention.flex_attention" in sys.modules:
            make_observable()
        self.undeclared: list[str] = []
        self.has_own_operators = False  # a user's operators, registered with torch.library
        self._flops = self._full = 0
        self.unknown: list[str] = []

    @property
    def work(self) -> Work | None:
        """FLOPs so far, or None if they are unknown."""
        if self.flex_is_dense and _SOFTMAX_OF_DENSE in self.names:
            self._note_unknown("flex_attention")  # either may have run that softmax
        return None if self.unknown else Work(self._flops, self._full)

    @property
    def flex_is_dense(self) -> bool:
        """Whether FlexAttention has run uncompiled, and so computed every pair."""
        return self._softmax_ran and "flex_attention" in self.names

    @property
    def altered(self) -> list[str]:
        """Operators that ran more often than in the call that nobody observed.

        The profiler also sees what composite operators and kernels call, so its numbers are no smaller otherwise.
        """
        return sorted(name for name in self.names - self._ran if "::" in name)

    def _note_unknown(self, name: str) -> None:
        if name not in self.unknown:
            self.unknown.append(name)

    def add(self, operation: Operation) -> Work | None:
        """Count one operation. Return its work, or None if it has no formula."""
        self.has_own_operators |= operation.traits.namespace not in _TORCHS
        name = operation.traits.name
        self.names[f"{name}_" if name in self.in_place else name] += any(tensor.is_cpu for tensor in operation.results)
        work = self._of(operation)
        if work is None:
            self._note_unknown(name)
        else:
            self._flops += work.flops
            self._full += work.full
        return work

    def declared_depth(self, operation: Operation) -> int | None:
        """Return the number of sequential operations inside an opaque kernel, or None for any other operation."""
        name = operation.traits.name
        if "depth" in self._declared.get(name, ()):
            return self._ask(operation, "depth")
        opaque = _opaque(operation)
        if opaque is not None:
            kernel, arguments = opaque
            return kernel.depth if isinstance(kernel.depth, int) else kernel.depth(arguments)
        hides_steps = operation.traits.namespace not in _TORCHS or name in self.unknown  # `add` was called before
        if hides_steps and name not in self.undeclared:
            self.undeclared.append(name)
        return None

    def _of(self, operation: Operation) -> Work | None:
        name = operation.traits.name
        if "flops" in self._declared.get(name, ()):
            flops = self._ask(operation, "flops")
            return Work(flops, flops)
        if name in FLEX and self._softmax_ran:
            return _dense_flex(operation)
        opaque = _opaque(operation)
        if opaque is not None:
            kernel, arguments = opaque
            return kernel.work(arguments)
        plain = _plain(operation)
        return None if plain is None else Work(plain, plain)

    def _ask(self, operation: Operation, what: str) -> int:
        name = operation.traits.name
        try:
            answer = self._declared[name][what](*operation.args, **operation.kwargs, out=operation.out)
        except Exception as error:
            raise UsageError(f"kernels['{name}']['{what}'] raised {type(error).__name__}: {error}") from error
        if not isinstance(answer, int) or answer < 0:
            raise UsageError(f"kernels['{name}']['{what}'] gave {answer!r}: it must give a whole number from 0 on")
        return answer


def _opaque(operation: Operation) -> tuple[Kernel, Arguments] | None:
    """Return the operation's kernel and its arguments by name, or None if it is no known opaque kernel."""
    name = operation.traits.name
    if name in KERNELS:
        return KERNELS[name], operation.arguments()
    return (FLEX[name], flex_arguments(operation)) if name in FLEX else None


def _plain(operation: Operation) -> int | None:
    """Return the FLOPs of an operation that is no opaque kernel: 0 for elementwise work, None if unknown."""
    of, args = operation.traits, operation.args
    short = of.name.partition("::")[2]
    if of.namespace == "aten" and short in _PRODUCTS:
        first = _PRODUCTS[short]
        return _product(short, args[first], args[first + 1])
    if of.name.startswith("aten::_embedding_bag"):  # with weights a product, which ignores padding as others do
        call = operation.arguments()
        has_weights = "per_sample_weights" in short or call.get("per_sample_weights") is not None
        return 2 * call["indices"].numel() * args[0].shape[-1] * has_weights
    if of.name == "aten::convolution_backward":
        return _convolution_backward(operation.arguments())
    packet = getattr(operation.func, "_overloadpacket", None)
    if packet in flop_registry and of.name not in operator_table(UNKNOWN):
        # Torch's formulas need shapes and do not accept an `out=` argument.
        kwargs = {name: value for name, value in operation.kwargs.items() if name != "out"}
        return int(flop_registry[packet](*args, **kwargs, out_val=operation.out))
    if of.name.startswith("aten::_fft_"):
        return _fourier(args[0], operation.out, args[1])
    return 0 if of.name in operator_table(NO_PRODUCT) else None


def claimed_work(case: Case) -> dict[str, Any]:
    """The layer's claims, and the FLOPs from its own formula, which holds for one sequence.

    A padded batch is b sequences of n tokens. Packed sequences count with their own lengths, as Σ nᵢ². Raises
    UsageError for an unparsable claim.
    """
    layer, own = layer_lookup.load_class(case.impl), layer_lookup.is_foreign(case.impl)
    of_it = layer_lookup.claims_of_class(layer, case) if own else layer_lookup.claims_of_impl(case.impl, case)
    formula = layer_lookup.work_of(of_it, case.mode)
    text = own_axes.axes_text(layer)
    # With a source, the work depends on two lengths, but claims without m know only one.
    is_for_another = case.kv_len and formula and not formula.growth("m")[0]
    work = None
    if formula and not is_for_another and not own_axes.unclaimed_options(case.impl, text, case.options):
        formula = formula.at(own_axes.sizes_of(case, text))
        summed = is_summed(passed_as(layer, case))
        lengths = real_lengths(case) if summed else [case.seq_len] * case.batch_size
        work = claimed_flops(formula, lengths, case.d_model, case.num_heads)
    stated = {name: str(claim) for name, claim in of_it.items()}
    claims = dumps(stated, ensure_ascii=False) if own and stated else None
    return {"flops_claimed": work, "claims": claims, "own_axes": text}


def watched_call(call: Callable[[], Any]) -> tuple[set[torch.dtype], set[str]]:
    """The dtypes of the factors of a call's products, as under autocast, and its operators' names.

    Empty for a call that cannot be watched.
    """
    dtypes = set[torch.dtype]()
    flops = Flops()

    def note(operation: Operation) -> None:
        work = flops.add(operation)
        if work is not None and work.flops:
            dtypes.update(tensor.dtype for tensor in tensors_of(operation.args))

    with suppress(Exception), uncompiled_calls(), Observer(Storages(), [note]):
        call()
    return dtypes, set(flops.names)
