"""Classifiers of sequences: a recurrent network reads them, and its last state tells the class.

S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", 1997; K. Cho et al., "Learning Phrase
Representations using RNN Encoder-Decoder for Statistical Machine Translation", 2014 (GRU).
"""

from __future__ import annotations

from hybrid.eager.tensor import Tensor
from hybrid.nn import GRU, LSTM, Linear, Module


class SequenceClassifier(Module):
    """Sequences [batch, time, features] -> logits [batch, classes]; ``kind`` is LSTM or GRU."""

    def __init__(
        self, kind: type[LSTM] | type[GRU], features: int = 8, hidden: int = 64, classes: int = 10
    ) -> None:
        self.rnn = kind(features, hidden, batch_first=True)
        self.head = Linear(hidden, classes)

    def forward(self, rows: Tensor) -> Tensor:
        outputs, _ = self.rnn(rows)
        return self.head(outputs[:, -1])
