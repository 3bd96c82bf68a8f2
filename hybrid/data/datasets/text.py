"""Text as numbers: tokenizers, and windows of tokens for language models."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from hybrid.core.types import int64
from hybrid.data.datasets.dataset import BatchReader, Dataset, Numbers
from hybrid.data.sampler import require_count
from hybrid.eager.frameworks.interop import asarray
from hybrid.eager.tensor import Tensor
from hybrid.errors import ArgumentError, ArgumentTypeError, OutOfRangeError
from hybrid.ops import astype, reshape
from hybrid.ops.index.indexing import take_slices

UNKNOWN = "<unk>"
_WORDS = re.compile(r"\w+|[^\w\s]|\s+")


class Tokenizer(Protocol):
    """Turns text into numbers from 0 on and back; ``len()`` is how many there are."""

    def __len__(self) -> int: ...
    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Iterable[Any]) -> str: ...


class ByteTokenizer:
    """Tokens are the bytes of the text in UTF-8: 256 of them, for any text."""

    def __len__(self) -> int:
        return 256

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, tokens: Iterable[Any]) -> str:
        """The text; bytes that are no UTF-8 become U+FFFD."""
        return bytes([_within(token, 256) for token in tokens]).decode("utf-8", "replace")


class _Vocabulary:
    """Tokens are pieces of text with a number each."""

    unknown: int | None = None  # the token of pieces that are not there

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = list(vocabulary)
        self.numbers = {piece: number for number, piece in enumerate(self.vocabulary)}
        if len(self.numbers) != len(self.vocabulary):
            double = next(p for p, times in Counter(self.vocabulary).items() if times > 1)
            raise ArgumentError(f"{double!r} is twice in the vocabulary")
        if not self.vocabulary:
            raise ArgumentError("a vocabulary of nothing", fix="give some text")

    def pieces(self, text: str) -> Sequence[str]:
        """``text``, cut up."""
        raise NotImplementedError(f"{type(self).__name__} does not define pieces()")

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        numbers, unknown = self.numbers, self.unknown
        try:
            if unknown is None:
                return [numbers[piece] for piece in self.pieces(text)]
        except KeyError as error:
            raise ArgumentError(
                f"{error.args[0]!r} is not in the vocabulary",
                why=f"It has {len(self)} tokens.",
                fix="make the tokenizer of text that has everything, or use ByteTokenizer",
            ) from None
        return [numbers.get(piece, unknown) for piece in self.pieces(text)]

    def decode(self, tokens: Iterable[Any]) -> str:
        return "".join([self.vocabulary[_within(token, len(self))] for token in tokens])


class CharTokenizer(_Vocabulary):
    """Tokens are the characters of ``text``, in the order of their code points."""

    def __init__(self, text: Iterable[str]) -> None:
        super().__init__(sorted(set(text)))

    def pieces(self, text: str) -> Sequence[str]:
        return text


class WordTokenizer(_Vocabulary):
    """Tokens are the words, punctuation marks and stretches of space of ``text``.

    The ``size`` most frequent ones (by default all) are known, the first in the text first where
    they are equally frequent; any other is token 0, ``"<unk>"``.
    """

    unknown = 0

    def __init__(self, text: str, size: int | None = None) -> None:
        if size is not None:
            require_count("size", size, least=1)
        frequent = Counter(_WORDS.findall(text)).most_common(size)
        super().__init__([UNKNOWN, *[piece for piece, _ in frequent]])

    def pieces(self, text: str) -> Sequence[str]:
        return _WORDS.findall(text)


def _within(token: Any, count: int) -> int:
    number = token.item() if isinstance(token, (Tensor, np.generic)) else token
    if type(number) is not int or not 0 <= number < count:
        raise OutOfRangeError(f"{number!r} is no token", why=f"There are {count} of them.")
    return number


class TokenBlocks(Dataset):
    """Windows of ``length`` tokens, with the tokens that follow each of them as targets.

    ``tokens`` is a list, an array or a tensor of whole numbers (``read_npy`` maps a file of them).
    Sample ``i`` is the pair of ``tokens[i * stride :][:length]`` and ``tokens[i * stride + 1 :]
    [:length]``, both ``i64[length]``; ``stride`` is ``length`` by default, so that windows do not
    overlap, and 1 for every window there is.  Tokens that fill no window are left out.
    """

    def __init__(self, tokens: Any, length: int, stride: int | None = None) -> None:
        require_count("length", length, least=1)
        require_count("stride", length if stride is None else stride, least=1)
        tokens = asarray(tokens)
        if tokens.ndim != 1 or not tokens.dtype.is_integer:
            raise ArgumentTypeError(
                f"tokens of type {tokens.type}", fix="give one row of whole numbers"
            )
        if tokens.shape[0] <= length:
            raise ArgumentError(
                f"{tokens.shape[0]} tokens are too few for a window of {length}",
                why="The target of its last token is the one after it.",
                fix=f"give at least {length + 1}, or a smaller length",
            )
        self.tokens, self.length = tokens.detach(), length
        self.stride = length if stride is None else stride

    def __len__(self) -> int:
        return (self.tokens.shape[0] - 1 - self.length) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        start, stop = number * self.stride, number * self.stride + self.length
        window = self.tokens.numpy()[start : stop + 1].astype(np.int64)
        return asarray(window[:-1]), asarray(window[1:])

    def batch_reader(self) -> BatchReader:
        return self._windows

    def _windows(self, numbers: Numbers) -> tuple[Tensor, Tensor]:
        starts = np.asarray(numbers, np.int64) * self.stride
        places = starts[:, None] + np.arange(self.length)
        first, second = (
            astype(take_slices(self.tokens, asarray((places + step).ravel()), axis=0), int64)
            for step in (0, 1)
        )
        return reshape(first, places.shape), reshape(second, places.shape)
