"""Parts of models over sizes, as people write them: more programs of test_open_programs.py."""

from __future__ import annotations

import hybrid as hy
from hybrid import nn
from hybrid.nn import functional as F
from tests.calls.open_programs import batch, integers, program, rows, t

attention = nn.MultiheadAttention(4, 2, batch_first=True)
recurrent = nn.GRU(4, 5, batch_first=True)


@program(batch)
def causal_attention(x):
    n = x.shape[1]
    unseen = hy.triu(hy.ones((n, n), dtype=hy.bool), k=1)
    return attention(x, x, x, attn_mask=unseen)[0]


@program(lambda n: (t(2, n, 4), t(2, 2 * n, 4)))
def attention_to_others(x, memory):
    return attention(x, memory, memory)[0]


@program(lambda n: (t(2, n, 4), hy.asarray([n, n - 1])))
def attention_up_to_lengths(x, lengths):
    seen = hy.arange(x.shape[1])[None, :] < lengths[:, None]
    scores = hy.where(seen[:, None, :], x @ x.mT, -1e9)
    return hy.softmax(scores, axis=-1) @ x


@program(batch)
def attention_by_distance(x):
    at = hy.arange(x.shape[1])
    far = -hy.abs(at[:, None] - at[None, :]).astype(hy.float32)
    return hy.softmax(x @ x.mT + far, axis=-1) @ x


@program(batch)
def attention_in_blocks(x):
    b, n, d = x.shape
    blocks = F.pad(x, (0, 0, 0, -n % 4)).reshape(b, -1, 4, d)
    return (hy.softmax(blocks @ blocks.mT, axis=-1) @ blocks).reshape(b, -1, d)[:, :n]


@program(batch)
def rotated_positions(x):
    angle = hy.arange(x.shape[1], dtype=hy.float32)[:, None] * hy.asarray([1.0, 0.1])
    a, b = x[..., ::2], x[..., 1::2]
    turned = [a * hy.cos(angle) - b * hy.sin(angle), a * hy.sin(angle) + b * hy.cos(angle)]
    return hy.concat(turned, axis=-1)


@program(batch)
def recurrence(x):
    outputs, last = recurrent(x)
    return outputs.mean(axis=1), last


@program(rows)
def contrast(x):
    n = x.shape[0]
    z = F.normalize(x, dim=1)
    scores = z @ z.mT / 0.1 - hy.eye(n) * 1e9
    return F.cross_entropy(scores, hy.roll(hy.arange(n), 1))


@program(batch)
def next_of_each(x):
    wanted = hy.argmax(x, axis=-1)[:, 1:]
    return F.cross_entropy(x[:, :-1].reshape(-1, 4), wanted.reshape(-1))


@program(rows)
def nearest_centres(x):
    centres = x[:2]
    for _ in range(3):
        apart = ((x[:, None] - centres[None]) ** 2).sum(axis=-1)
        own = F.one_hot(hy.argmin(apart, axis=1), 2).astype(hy.float32)
        centres = own.T @ x / (own.sum(axis=0)[:, None] + 1e-6)
    return centres


@program(lambda n: (t(n, 4), integers(2, n)))
def weighted_loss(x, y):
    weight = hy.where(y == 1, 2.0, 1.0)
    each = F.binary_cross_entropy_with_logits(x[:, 0], y.astype(hy.float32), reduction="none")
    return (weight * each).sum() / weight.sum()


@program(rows)
def written_rows(x):
    found = hy.zeros((x.shape[0], 4))
    for i in range(x.shape[0]):
        found[i] = x[i] * i
    found[-1] += 1.0
    return found


@program(rows)
def rows_until_enough(x):
    total = hy.zeros(4)
    for one in x:
        total = total + one
        if hy.sum(total) > 2:
            break
    return total


@program(rows)
def derivatives(x):
    pushed = hy.jvp(lambda v: hy.softmax(v, axis=0), (x,), (hy.ones_like(x),))[1]
    return hy.grad(lambda v: (hy.tanh(v) ** 2).sum())(x), pushed, hy.vmap(hy.sum)(x)
