"""The commands `list` and `verify`: what the layers are, as tables, pages or JSON, and whether they are correct."""

import argparse
import fnmatch
import json
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from harness.core.config.key_value_options import any_impl
from harness.core.layers.layer_files import read_layer_source
from harness.core.layers.layer_lookup import BY_ORDER, CLAIMS, EXACT, check_name, is_foreign
from harness.core.model.errors import UsageError
from harness.core.model.formatting import printable
from harness.core.model.sweep_axes import FAILURES, Case
from impls.registry import IMPLS, KINDS_OF_BLOCKS, Impl

from .commands import CASES_FAILED, DONE

_CLAIMED = {
    "work": "FLOPs, forward",
    "work_train": "FLOPs, forward and backward",
    "work_decode": "FLOPs, one decoded token",
    "memory": "peak memory in words",
    "depth": "sequential depth",
    "path": "maximum path length",
}


def run_list(options: argparse.Namespace) -> int:
    """Print the registered layers that the pattern matches, or the page of one layer, which may be the user's own."""
    pattern = options.pattern and options.pattern.removeprefix("impl=")
    is_own, console = bool(pattern) and is_foreign(pattern), Console(highlight=False)
    if not (is_own or options.json or pattern in IMPLS):
        _print_tables(_chosen(pattern), pattern is None, console)
        return DONE
    pages = [_own_page(pattern)] if is_own else [described(impl) for impl in _chosen(pattern)]
    if options.json:
        print(json.dumps(pages, indent=1, ensure_ascii=False))
    else:
        _print_page(pages[0], console)
    return DONE


def _chosen(pattern: str | None) -> list[Impl]:
    """The layers that a name, a family or a pattern with * names. Raises UsageError if there are none."""
    if pattern is None:
        return list(IMPLS.values())
    if pattern in {impl.family for impl in IMPLS.values()}:
        pattern = f"{pattern}.*"
    if "*" not in pattern:
        check_name(pattern)
        return [IMPLS[pattern]]
    return [IMPLS[name] for name in any_impl(fnmatch.filter(IMPLS, pattern), pattern, pattern, list(IMPLS))]


# What the page of a layer says, by the names of its JSON.
Page = dict[str, Any]


def described(impl: Impl) -> Page:
    """The registry's entry of a layer, and what its source says, in types of JSON."""
    source = read_layer_source(impl.target)
    return {
        **{name: getattr(impl, name) for name in ("name", "family", "summary", "kind", "target", "reference")},
        "file": source["place"],
        "equation": source["equation"] or read_layer_source(impl.reference)["equation"],
        "claims": {claim: text for claim in CLAIMS if (text := getattr(impl, claim))},
        "axes": [[name, *axis] for name, axis in impl.axes.items()],
        "has_heads": impl.has_heads,
        "modes": source["modes"],
        "masks": source["masks"],
        "takes": source["takes"],
        "causal": source["causal"],
        "compiled": impl.compiled,
        "package": impl.package,
        "limits": source["limits"],
    }


_EXTRAS = {"kv_len": "kv_len=… (cross-attention)", "num_kv_heads": "num_kv_heads=… (grouped-query attention)"}


def _print_page(page: Page, console: Console) -> None:
    """The page of one layer, from its entry as `described`, or what a user's own says of itself."""
    impl = IMPLS.get(page["name"])
    around = impl.options.get("attention", "") if impl else ""
    heads = "takes num_heads" if page["has_heads"] else "has no heads"
    masks = ", ".join(page["masks"])
    needs = [f"the package {page['package']}"] if page["package"] else []
    needs += ["a compiler: its first call compiles"] if page["compiled"] else []
    rows = [
        *((_CLAIMED[claim], text) for claim, text in page["claims"].items()),
        ("modes", ", ".join(page["modes"])),
        ("masks", f"{masks} (causal by nature)" if page["causal"] else masks),
        ("sizes", ", ".join([heads, *(_EXTRAS[name] for name in page["takes"])])),
    ]
    for name, letter, default in page["axes"]:
        rows.append(("own axis", f"{_option(name, default)}; letter {letter} in claims and shapes"))
    rows += [("option", _option(*option)) for option in page.get("options", ())]
    for name, shape, fill in page.get("inputs", ()):
        content = "" if fill in ("", "normal") else f", {fill}"
        rows.append((f"input {name}" if fill else name, f"{shape}{content}"))
    rows += [
        ("needs", ", ".join(needs) or "nothing beside torch"),
        ("limits", page["limits"]),
        ("around", f"{around}, whose limits apply too" if around else ""),
        ("called as", page["call"]) if page.get("call") else ("class", page["target"]),
        ("reference", page["reference"]),
        ("source", page["file"]),
    ]
    table = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
    for name, text in rows:
        if text:
            table.add_row(Text(name), Text(text))
    title = ": ".join(filter(None, (page["name"], page["summary"])))
    console.out(f"{title}\n")
    if page["equation"]:
        console.out(textwrap.indent(page["equation"], _INDENT) + "\n")
    console.print(table)
    console.out(f"\nMeasure it: python -m harness sweep impl={page['name']}")


def _option(name: str, default: Any) -> str:
    return f"layer.{name}=…, by default {default}"


def _own_page(name: str) -> Page:
    """What a user's own layer says of itself, with the keys of `described`.

    Raises UsageError if it cannot be loaded.
    """
    from harness.core.run.executor import short_executor

    check_name(name)
    with short_executor() as executor:
        outcome = executor.ask("describe_page", Case(name, 64, 64, 4))
    if not outcome.ok:
        raise UsageError(f"{name} cannot be described: {outcome.reason}")
    page = dict(outcome.values)
    return {"name": name, "kind": "", "target": name, "file": page.pop("place"), "package": "", "limits": "", **page}


def _print_tables(layers: Sequence[Impl], everything: bool, console: Console) -> None:
    blocks = KINDS_OF_BLOCKS if everything else {}
    shown = [impl for impl in layers if impl.family not in blocks]
    summaries = [(impl.name, impl.summary) for impl in shown]
    for family, what in blocks.items():
        inside = [name.removeprefix(f"{family}.") for name, impl in IMPLS.items() if impl.family == family]
        summaries.append((f"{family}.…", f"{what}; around {', '.join(inside)}"))
    axes = [
        (impl.name, f"layer.{name}", letter, str(default))
        for impl in shown
        for name, (letter, default) in impl.axes.items()
    ]
    work, orders = ([attrgetter("name", *claims)(impl) for impl in shown] for claims in (EXACT, BY_ORDER))
    exactly = "of one sequence, exactly; a multiply-add is 2, and elementwise work is not counted"
    for headings, rows, caption in (
        (["what it is"], summaries, "your own layer: impl=module:Class, built as Class(d_model=…, num_heads=…)"),
        ([Column("own axis", overflow="fold"), "letter in claims", "default"], axes, "several values: layer.NAME=A,B"),
        ([_CLAIMED[claim] for claim in EXACT], work, exactly),
        ([_CLAIMED[claim] for claim in BY_ORDER], orders, "by order; memory beyond weights and input"),
    ):
        table = Table(Column("layer", no_wrap=True), *headings, caption=caption, caption_justify="left")
        for row in rows:
            table.add_row(*row)
        if rows:
            console.print(table)
    console.out("One layer: python -m harness list attention.fused")


# Small, quick and the same for every user; any axis can be overridden. `train` checks gradients too.
_VERIFY_DEFAULTS = ("seq_len=64", "d_model=64", "num_heads=4", "batch_size=2", "mode=train")
# Lines fit a terminal of 80 columns and the log of a job.
WIDTH = 80
# Names up to this length share a column. A longer one has a line of its own.
_MOST_NAME = 28
_INDENT = "    "
_FINE = ("ok", "unsupported")

_Outcome = Mapping[str, Any]
VerificationResult = Sequence[tuple[Case, _Outcome]]


def run_verify(options: argparse.Namespace) -> int:
    """Verify every case of a small grid. Returns 3 if a case fails."""
    from harness.core.config import compose
    from harness.core.run.outcome import TrialOutcome
    from harness.core.run.session import Session

    config = compose(options.overrides, options.config_dir, usual=_VERIFY_DEFAULTS)
    result = list[tuple[Case, dict[str, Any]]]()
    with Session.of(config) as session:
        session.check_devices(config)
        for case in session.cases(config):
            reason = session.indivisible_size(case)
            outcome = TrialOutcome("unsupported", reason) if reason else session.executor.run("verify", case)
            result.append((case, outcome.entries))
    if options.all:
        print(*verification_lines(result), "", sep="\n")
    print(*verification_summary(result), sep="\n")
    statuses = {outcome["status"] for _, outcome in result}
    if "unsupported" in statuses and not options.all:
        print("Use --all to see why a case is unsupported.")
    return DONE if statuses.issubset(_FINE) else CASES_FAILED


def verification_summary(result: VerificationResult) -> Iterator[str]:
    """Lines about the whole verification.

    First come the failed cases in full, then a line for each layer. Notes follow on what errors are relative to, and
    on each layer without a reference.
    """
    bad = [(case, outcome) for case, outcome in result if outcome["status"] not in _FINE]
    if bad:
        yield from (*verification_lines(bad), "")
    outcomes_of = dict[str, list[_Outcome]]()
    for case, outcome in result:
        outcomes_of.setdefault(printable(case.impl), []).append(outcome)
    column = max((len(name) for name in outcomes_of if len(name) <= _MOST_NAME), default=0)
    for name, outcomes in outcomes_of.items():
        yield from _layer_lines(name, outcomes, column)
    verified = [
        (name, outcome) for name, outcomes in outcomes_of.items() for outcome in outcomes if outcome["status"] == "ok"
    ]
    if verified:
        yield from ("", "An error is relative to the reference's norm, beside what is tolerated.")
        sizes = sorted({outcome["verified"]["seq_len"] for _, outcome in verified})
        yield from _wrapped(f"Verified at n={','.join(map(str, sizes))}. To verify others, give seq_len=256,1024.")
    for name, against in dict.fromkeys((name, outcome["against"]) for name, outcome in verified):
        if " " in against:  # a phrase, not the name of a reference class
            yield from _wrapped(
                f"{name} has no reference: compared with {against}, a wrong formula passes. "
                "Give it an attribute `reference`: a class or function of plain operations, with the same weights."
            )


def verification_lines(result: VerificationResult) -> Iterator[str]:
    """Lines about every case, with its errors or the reason for having none."""
    for case, outcome in result:
        status = outcome["status"]
        if status == "ok":
            verified = Case(**case.as_dict() | outcome["verified"])
            # The layer may refuse the sizes of the case.
            if verified != case:
                status = f"ok as {str(verified).partition(' ')[2]}"
            errors = [f"{name} {error:.1e} of {tolerance:.1e}" for name, error, tolerance in _errors(outcome)]
            detail = f"{', '.join(errors) or 'no error known'}, against {outcome['against']}"
        else:
            detail = printable(" ".join(str(outcome["reason"]).split()))
        yield from _wrapped(f"{printable(str(case))}: {status}")
        yield from _wrapped(detail, _INDENT)


def _errors(outcome: _Outcome) -> Iterator[tuple[str, float, float]]:
    """(what, error, tolerance) for each known error."""
    if outcome["output_error"] is not None:
        yield "output", outcome["output_error"], outcome["tolerance"]
    if "gradient_error" in outcome:
        # If rounding may flip some gradients, their tolerance is larger than the output's.
        yield "gradients", outcome["gradient_error"], outcome.get("gradient_tolerance", outcome["tolerance"])


def _layer_lines(name: str, outcomes: Sequence[_Outcome], column: int) -> Iterator[str]:
    """A layer's line: `attention.naive   6 ok, 2 unsupported; largest error 2.1e-07 of 1.9e-06`."""
    ends = Counter(outcome["status"] for outcome in outcomes)
    text = ", ".join(f"{ends[status]} {status}" for status in dict.fromkeys((*_FINE, *FAILURES)) if ends[status])
    errors = [error for outcome in outcomes if outcome["status"] == "ok" for error in _errors(outcome)]
    if errors:
        _, error, tolerance = max(errors, key=lambda error: error[1] / error[2])
        text += f"; largest error {error:.1e} of {tolerance:.1e}"
    line = f"{name:<{column}}  {text}"
    if len(name) <= column and len(line) <= WIDTH:
        yield line
    else:
        yield from (name, *_wrapped(text, _INDENT))


def _wrapped(text: str, indent: str = "") -> list[str]:
    """Wrap the text to lines of at most 80 columns. A longer word exceeds that: no name is cut."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent or _INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
