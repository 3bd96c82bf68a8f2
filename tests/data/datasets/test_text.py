"""Tokenizers there and back, and windows of tokens with their targets."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import hybrid as hy
from hybrid.data import (
    ByteTokenizer,
    CharTokenizer,
    DataLoader,
    TokenBlocks,
    WordTokenizer,
    default_collate,
    read_npy,
)
from hybrid.data.datasets.text import _Vocabulary
from hybrid.errors import ArgumentError, ArgumentTypeError, OutOfRangeError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(deadline=None)
@given(TEXT)
def test_there_and_back(text):
    for tokenizer in (ByteTokenizer(), CharTokenizer(text), WordTokenizer(text)):
        tokens = tokenizer.encode(text)
        assert all(0 <= token < len(tokenizer) for token in tokens)
        assert tokenizer.decode(tokens) == text
        assert tokenizer.decode(hy.asarray(np.array(tokens))) == text


def test_what_tokens_are():
    assert ByteTokenizer().encode("aé") == [97, 195, 169] and len(ByteTokenizer()) == 256
    assert ByteTokenizer().decode([195]) == "\ufffd"
    chars = CharTokenizer("hello")
    assert chars.vocabulary == ["e", "h", "l", "o"] and chars.encode("hole") == [1, 3, 2, 0]
    words = WordTokenizer("to be, or not to be", size=3)
    assert words.vocabulary == ["<unk>", " ", "to", "be"]
    assert words.encode("be or") == [3, 1, 0] and words.decode([3, 1, 0]) == "be <unk>"
    assert WordTokenizer("It's 3 pm.").vocabulary[1:] == [" ", "It", "'", "s", "3", "pm", "."]


@settings(deadline=None)
@given(st.integers(2, 60), st.integers(1, 12), st.one_of(st.none(), st.integers(1, 15)))
def test_windows(count, length, stride):
    if count <= length:
        return
    tokens = np.arange(100, 100 + count)
    blocks = TokenBlocks(tokens, length, stride)
    step = stride or length
    starts = [s for s in range(0, count, step) if s + length + 1 <= count]
    assert len(blocks) == len(starts)
    for (x, y), start in zip([blocks[i] for i in range(len(blocks))], starts, strict=True):
        assert x.tolist() == tokens[start : start + length].tolist()
        assert y.tolist() == tokens[start + 1 : start + 1 + length].tolist()
    for numbers in (range(len(blocks)), np.arange(len(blocks))[::-1]):
        whole = blocks.batch_reader()(numbers)
        single = default_collate([blocks[int(i)] for i in numbers])
        assert [t.tolist() for t in whole] == [t.tolist() for t in single]
        assert [t.type for t in whole] == [t.type for t in single]
    assert blocks[-1][0].tolist() == blocks[len(blocks) - 1][0].tolist()


def test_tokens_in_a_file(tmp_path):
    np.save(tmp_path / "tokens.npy", np.arange(9, dtype=np.uint16))
    blocks = TokenBlocks(read_npy(tmp_path / "tokens.npy"), 4)
    ((x, y),) = DataLoader(blocks, 2)
    assert (str(x.type), x.tolist()) == ("i64[2,4]", [[0, 1, 2, 3], [4, 5, 6, 7]])
    assert (str(y.type), y.tolist()) == ("i64[2,4]", [[1, 2, 3, 4], [5, 6, 7, 8]])
    assert blocks[0][0].dtype is hy.int64


def test_samples_beyond_the_end():
    blocks = TokenBlocks(list(range(9)), 4)
    for index in (2, -3):
        with pytest.raises(IndexError, match=f"sample {index} of 2"):
            blocks[index]
    assert len(list(blocks)) == 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: CharTokenizer("abc").encode("abd"),
            "'d' is not in the vocabulary\nIt has 3 tokens.\n"
            "Fix: make the tokenizer of text that has everything, or use ByteTokenizer.",
        ),
        (lambda: CharTokenizer(""), "a vocabulary of nothing\nFix: give some text."),
        (lambda: _Vocabulary(["a", "b", "a"]), "'a' is twice in the vocabulary"),
        (lambda: CharTokenizer("ab").decode([2]), "2 is no token\nThere are 2 of them."),
        (lambda: ByteTokenizer().decode([-1]), "-1 is no token\nThere are 256 of them."),
        (lambda: ByteTokenizer().decode([1.5]), "1.5 is no token\nThere are 256 of them."),
        (lambda: WordTokenizer("a", 0), "size is 0\nFix: give an int >= 1."),
        (lambda: TokenBlocks([1, 2], 0), "length is 0\nFix: give an int >= 1."),
        (lambda: TokenBlocks([1, 2], 1, 0), "stride is 0\nFix: give an int >= 1."),
        (
            lambda: TokenBlocks([1, 2], 2),
            "2 tokens are too few for a window of 2\n"
            "The target of its last token is the one after it.\n"
            "Fix: give at least 3, or a smaller length.",
        ),
        (
            lambda: TokenBlocks([1.0, 2.0], 1),
            "tokens of type f32[2]\nFix: give one row of whole numbers.",
        ),
        (
            lambda: TokenBlocks([[1, 2]], 1),
            "tokens of type i64[1,2]\nFix: give one row of whole numbers.",
        ),
    ],
)
def test_errors(call, message):
    with pytest.raises((ArgumentError, ArgumentTypeError, OutOfRangeError)) as caught:
        call()
    assert str(caught.value) == message


def test_a_vocabulary_says_how_it_cuts():
    with pytest.raises(NotImplementedError, match="_Vocabulary does not define pieces"):
        _Vocabulary(["a"]).encode("a")
