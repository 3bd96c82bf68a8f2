"""The autoencoder's bound, term by term, and what it draws."""

import math

import numpy as np
import pytest

import hybrid as hy
from hybrid.models.autoencoder import VariationalAutoencoder, negative_bound


@pytest.mark.parametrize("counted", [1, 16])
def test_the_bound_is_that_of_the_paper(counted) -> None:
    random = np.random.RandomState(0)
    images, logits = random.rand(3, 6), random.randn(3, 6)
    mean, log_variance = random.randn(3, 2), random.randn(3, 2)
    light = 1 / (1 + np.exp(-logits))
    pixels = -(images * np.log(light) + (1 - images) * np.log(1 - light)).sum(1) * counted
    # The divergence of the latents from a standard Gaussian, as an integral.
    z, step = np.linspace(-30, 30, 60001, retstep=True)
    deviation = np.exp(log_variance / 2)[..., None]
    log_density = -0.5 * ((z - mean[..., None]) / deviation) ** 2 - np.log(
        deviation * math.sqrt(2 * math.pi)
    )
    log_standard = -0.5 * z * z - math.log(math.sqrt(2 * math.pi))
    spread = (np.exp(log_density) * (log_density - log_standard)).sum(-1).sum(-1) * step
    found = negative_bound(*map(hy.asarray, (images, logits, mean, log_variance)), counted)
    np.testing.assert_allclose(found.numpy(), pixels + spread, rtol=1e-6)


def test_latents_are_drawn_anew_around_their_mean() -> None:
    hy.random.seed(0)
    model = VariationalAutoencoder()
    image = hy.random.uniform(size=(1, 64))
    first, second = model(image), model(image)
    assert first[1].tolist() == second[1].tolist()
    assert first[0].tolist() != second[0].tolist()
    hy.nn.init.zeros_(model.log_variance.weight)
    model.log_variance.bias.assign(hy.full(8, -80.0))  # no spread
    mean, _ = model.encode(image)
    np.testing.assert_allclose(
        model(image)[0].numpy(), model.decode(mean).numpy(), rtol=1e-5, atol=1e-6
    )


def test_draws_are_probabilities_and_follow_the_seed() -> None:
    model = VariationalAutoencoder().hybridize()
    draws = []
    for seed in (1, 1, 2):
        hy.random.seed(seed)
        draws.append(model.draw(5).numpy())
    assert draws[0].shape == (5, 64) and draws[0].min() > 0 and draws[0].max() < 1
    assert np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], draws[2])
