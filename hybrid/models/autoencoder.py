"""A variational autoencoder: what images have in common, in a few numbers with a known spread.

D. Kingma, M. Welling, "Auto-Encoding Variational Bayes", 2013: a Gaussian for each latent number,
pixels that are each light or dark with a probability, and the bound of appendix B as the loss.
"""

from __future__ import annotations

import hybrid as hy
from hybrid.eager.tensor import Tensor
from hybrid.nn import Linear, Module, functional


class VariationalAutoencoder(Module):
    """Rows of pixels from 0 to 1 [batch, pixels] -> logits of them, mean, log-variance of latents.

    Both of the latter are [batch, latent]; the latents that are decoded are drawn anew by each
    call.
    """

    def __init__(self, pixels: int = 64, hidden: int = 256, latent: int = 8) -> None:
        self.latent = latent
        self.encoder = Linear(pixels, hidden)
        self.mean, self.log_variance = Linear(hidden, latent), Linear(hidden, latent)
        self.decoder = Linear(latent, hidden)
        self.output = Linear(hidden, pixels)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the log-variance of the latents of each image."""
        x = hy.tanh(self.encoder(images))
        return self.mean(x), self.log_variance(x)

    def decode(self, latents: Tensor) -> Tensor:
        """The logits of the pixels."""
        return self.output(hy.tanh(self.decoder(latents)))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(images)
        noise = hy.random.normal(size=mean.shape)
        return self.decode(mean + hy.exp(log_variance / 2) * noise), mean, log_variance

    def draw(self, count: int) -> Tensor:
        """``count`` images that never were, as the probabilities of their pixels."""
        return functional.sigmoid(self.decode(hy.random.normal(size=(count, self.latent))))


def negative_bound(
    images: Tensor, logits: Tensor, mean: Tensor, log_variance: Tensor, counted: int = 1
) -> Tensor:
    """Nats that the model needs for each image at most, [batch]: minus the paper's lower bound.

    A pixel that was ``counted`` is the light share of so many, each light or dark by itself; which
    of them were light is told, too.
    """
    pixels = functional.binary_cross_entropy_with_logits(logits, images, reduction="none")
    spread = (hy.exp(log_variance) + mean * mean - 1 - log_variance).sum(axis=1) / 2
    return counted * pixels.sum(axis=1) + spread
