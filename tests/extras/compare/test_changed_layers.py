"""Which layers `compare --changed` takes, by the files that a diff touches."""

import pytest

from harness.extras.compare.worktree import ALL, LEFT_OUT, SHARED, TOUCHED, LayerFiles, choice_sentences, touched_layers


def files(defining: str, *imported: str) -> LayerFiles:
    return LayerFiles(frozenset([defining]), frozenset([defining, *imported]))


# `wide` inherits from `narrow`'s file; both use common.py, and only `deep` uses helper.py.
LAYERS = {
    "narrow": files("layers/narrow.py", "layers/common.py"),
    "wide": files("layers/wide.py", "layers/common.py", "layers/narrow.py"),
    "deep": files("layers/deep.py", "layers/helper.py"),
}


@pytest.mark.parametrize(
    ("changed", "taken", "shared"),
    [
        ([], (), ()),
        (["README.md", "tests/test_deep.py"], (), ()),
        (["layers/deep.py"], ("deep",), ()),
        (["layers/helper.py"], ("deep",), ()),
        (["layers/narrow.py"], ("narrow",), ("layers/narrow.py",)),
        (["layers/common.py"], (), ("layers/common.py",)),
        (["pyproject.toml", "layers/wide.py"], ("wide",), ("pyproject.toml",)),
        (["kernels/scan.cu"], (), ("kernels/scan.cu",)),
        (["requirements-dev.txt"], (), ("requirements-dev.txt",)),
    ],
    ids=" ".join,
)
def test_a_file_touches_the_layers_that_it_defines_or_that_alone_import_it(
    changed: list[str], taken: tuple[str, ...], shared: tuple[str, ...]
) -> None:
    chosen, properties = touched_layers(LAYERS, changed, TOUCHED)
    others = [name for name in LAYERS if name not in taken]
    lists = {LEFT_OUT: ", ".join(others), SHARED: ", ".join(shared)}
    assert chosen == list(taken)
    assert properties == {name: text for name, text in lists.items() if text}
    assert touched_layers(LAYERS, changed, ALL)[0] == list(LAYERS if shared else taken)


def test_two_layers_of_one_file_are_both_touched_and_share_nothing() -> None:
    layers = {"a": files("layers.py"), "b": files("layers.py")}
    assert touched_layers(layers, ["layers.py"], TOUCHED) == (["a", "b"], {})


def test_the_sentences_name_what_was_left_out_and_what_is_shared() -> None:
    _, properties = touched_layers(LAYERS, ["layers/common.py", "layers/deep.py"], TOUCHED)
    assert list(choice_sentences(properties, "main", TOUCHED)) == [
        "Left out, because the changes since main touch none of their own files: narrow, wide.",
        "Shared code changed (layers/common.py): any layer may be affected, and --changed=all measures all.",
    ]
    _, properties = touched_layers(LAYERS, ["layers/common.py"], ALL)
    assert list(choice_sentences(properties, "main", ALL)) == [
        "Shared code changed (layers/common.py): every layer is measured."
    ]
