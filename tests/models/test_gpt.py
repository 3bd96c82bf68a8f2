"""The GPT against NumPy in float64; no token sees the future; texts drawn one token at a time."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.errors import ArgumentError, HybridError, ShapeError
from hybrid.models.gpt import GPT, Config, generate

SMALL = Config(tokens=11, block=8, width=12, heads=3, depth=2)


def make(config=SMALL):
    hy.random.seed(0)
    model = GPT(config)
    with hy.no_grad():
        for parameter in model.parameters():  # nothing may be 0 or 1, or it could be left out
            parameter.assign(parameter + hy.random.normal(size=parameter.shape) * 0.3)
    return model.eval()


def numpy_logits(model, tokens):
    """The logits of one text, written after the paper and not after the model."""
    w = {name: np.asarray(t.numpy(), np.float64) for name, t in model.state_dict().items()}
    heads, size = SMALL.heads, SMALL.width // SMALL.heads

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def normal(x, name):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["wte.weight"][tokens] + w["wpe.weight"][: len(tokens)]
    for layer in range(SMALL.depth):
        name = f"h.{layer}"
        q, k, v = np.split(dense(normal(x, f"{name}.ln_1"), f"{name}.attn.c_attn"), 3, axis=1)
        seen = np.zeros_like(x)
        for head in range(heads):
            part = slice(head * size, (head + 1) * size)
            for i in range(len(tokens)):
                scores = np.exp(k[: i + 1, part] @ q[i, part] / math.sqrt(size))
                seen[i, part] = scores / scores.sum() @ v[: i + 1, part]
        x = x + dense(seen, f"{name}.attn.c_proj")
        y = dense(normal(x, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        y = y / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))
        x = x + dense(y, f"{name}.mlp.c_proj")
    return normal(x, "ln_f") @ w["wte.weight"].T


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize("length", [1, 5, 8])
def test_logits_are_those_of_numpy(length, hybridized) -> None:
    model = make().hybridize(hybridized)
    tokens = np.random.RandomState(length).randint(11, size=(2, length))
    found = model(hy.asarray(tokens)).numpy()
    for row, text in zip(found, tokens, strict=True):
        np.testing.assert_allclose(row, numpy_logits(model, text), atol=1e-4)


def test_no_token_sees_the_future() -> None:
    model = make()
    tokens = hy.asarray([[1, 2, 3, 4, 5, 6]])
    changed = hy.asarray([[1, 2, 3, 9, 5, 6]])
    same = (model(tokens) == model(changed)).numpy()[0]
    assert same[:3].all() and not same[3:].all(axis=1).any()


def test_tokens_and_outputs_share_their_vectors(tmp_path) -> None:
    model = make()
    assert model.lm_head.weight is model.wte.weight
    names = [name for name, _ in model.named_parameters()]
    assert "wte.weight" in names and "lm_head.weight" not in names
    path = tmp_path / "gpt.safetensors"
    hy.save(path, model)
    other = GPT(SMALL).eval()
    other.load_state_dict(path)
    tokens = hy.asarray([[1, 2, 3]])
    assert other(tokens).numpy().tobytes() == model(tokens).numpy().tobytes()
    assert other.lm_head.weight is other.wte.weight


def test_the_start_is_that_of_the_paper() -> None:
    hy.random.seed(0)
    model = GPT(Config(tokens=96, depth=8))
    assert model.wte.weight.numpy().std() == pytest.approx(0.02, rel=0.05)
    assert model.h[3].attn.c_attn.weight.numpy().std() == pytest.approx(0.02, rel=0.05)
    assert model.h[3].mlp.c_proj.weight.numpy().std() == pytest.approx(0.005, rel=0.05)
    assert not model.h[3].mlp.c_fc.bias.numpy().any()


def test_dropout_is_for_training() -> None:
    model = make(Config(tokens=11, block=8, width=12, heads=3, dropout=0.5))
    tokens = hy.asarray([[1, 2, 3]])
    assert model(tokens).tolist() == model(tokens).tolist()
    model.train()
    assert model(tokens).tolist() != model(tokens).tolist()


# Texts -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 3, 8, 12])
@pytest.mark.parametrize("count", [1, 4, 15])
def test_captured_draws_are_the_same(length, count) -> None:
    model = make()
    prompt = hy.asarray(np.random.RandomState(0).randint(11, size=(2, length)))
    captured = hy.hybridize(generate)
    texts = []
    for draw in (generate, captured, captured):
        hy.random.seed(7)
        with hy.no_grad():
            texts.append(draw(model, prompt, count, 0.8).numpy())
    assert texts[0].shape == (2, count) and texts[0].dtype == np.int64
    assert np.array_equal(texts[0], texts[1]) and np.array_equal(texts[0], texts[2])
    assert len(captured.plans) == 1
    assert "for" in [node.op.name for node in captured.graph(model, prompt, count, 0.8).nodes] or (
        count == 1
    )


@pytest.mark.parametrize("length", [3, 12])
def test_a_cold_draw_is_the_likeliest_token_after_what_is_in_sight(length) -> None:
    model = make()
    text = np.random.RandomState(1).randint(11, size=(1, length))
    with hy.no_grad():
        drawn = generate(model, hy.asarray(text), 9, temperature=1e-4).numpy()
        for token in drawn[0]:
            assert token == model(hy.asarray(text[:, -8:]))[0, -1].argmax().item()
            text = np.append(text, [[token]], axis=1)


def test_temperatures_share_a_plan() -> None:
    model, prompt = make(), hy.asarray([[1, 2, 3]])
    captured = hy.hybridize(generate)
    for temperature in (0.5, 0.9, 1, 2.0):
        texts = []
        for draw in (generate, captured):
            hy.random.seed(3)
            texts.append(draw(model, prompt, 20, temperature).tolist())
        assert texts[0] == texts[1]
    assert len(captured.plans) <= 3  # of the first, of any float, of an int


NOT_DRAWN = {
    "no prompt": (
        ([[]], 3, 1.0),
        "a prompt of type i64[1,0]\nFix: give one token at least, in rows.",
    ),
    "no rows": (
        ([1, 2], 3, 1.0),
        "a prompt of type i64[2]\nFix: give one token at least, in rows.",
    ),
    "no count": (
        ([[1]], 0, 1.0),
        "count is 0 and temperature is 1.0\nFix: give numbers above 0.",
    ),
    "too cold": (
        ([[1]], 3, 0),
        "count is 3 and temperature is 0\nFix: give numbers above 0.",
    ),
}


@pytest.mark.parametrize("hybridized", [False, True])
@pytest.mark.parametrize(("given", "message"), NOT_DRAWN.values(), ids=NOT_DRAWN)
def test_what_cannot_be_drawn_is_refused(given, message, hybridized) -> None:
    prompt, *rest = given
    draw = hy.hybridize(generate) if hybridized else generate
    with pytest.raises(HybridError) as caught:
        draw(make(), hy.asarray(prompt, dtype=hy.int64), *rest)
    assert str(caught.value).startswith(message.split("\n")[0])
    assert caught.value.fix == message.split("Fix: ")[1].rstrip(".")


def test_too_long_a_text_is_refused() -> None:
    with pytest.raises(ShapeError) as caught:
        make()(hy.zeros((2, 9), dtype=hy.int64))
    assert str(caught.value) == (
        "GPT cannot take i64[2,9]\nIt has positions for 8 tokens.\nFix: give the last 8 of them."
    )


def test_heads_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ArgumentError) as caught:
        Config(tokens=5, width=10, heads=4)
    assert str(caught.value) == (
        "width 10 is not divided by heads 4\nFix: give every head as many features."
    )
