"""Train a classifier on real handwritten digits, eagerly and hybridized, to the same bits."""

# %% 1797 images of 8x8 pixels ship with the package; 360 of them are kept for the test.
import numpy as np

import hybrid as hy
from hybrid.data.digits import load

digits = load()
print(f"{len(digits.train_labels)} images to train on, {len(digits.test_labels)} to test with")


# %% A model is a Module: a tree of parameters with a forward pass, written as ordinary Python.
class Classifier(hy.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = hy.nn.Linear(64, 128)
        self.output = hy.nn.Linear(128, 10)

    def forward(self, images):
        return self.output(hy.nn.functional.relu(self.hidden(images)))


# %% Training is a function as well.  Seeding makes every start the same start.
def train(*, hybridized: bool, epochs: int = 20):
    hy.random.seed(0)
    model = Classifier()
    optimizer = hy.optim.Adam(model.parameters(), lr=2e-3)

    def step(images, labels):
        optimizer.zero_grad()
        loss = hy.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    if hybridized:
        step = hy.hybridize(step)  # the only line that differs

    batches = hy.data.DataLoader(
        hy.data.TensorDataset(hy.asarray(digits.train_images), hy.asarray(digits.train_labels)),
        batch_size=32,
        shuffle=True,
        drop_last=True,
    )
    for epoch in range(epochs):
        losses = [step(images, labels).item() for images, labels in batches]
        if epoch % 5 == 0:
            print(f"epoch {epoch:2}: mean loss {np.mean(losses):.3f}")
    return model, step


# %% Eagerly, each op runs when Python reaches it: print, step through it, set breakpoints.
eager, _ = train(hybridized=False)

# %% Hybridized, forward pass, backward pass and optimizer are captured into one graph, once, and
# each further step is a single call into C.
captured, step = train(hybridized=True)
print(step.plans)


# %% The model recognises digits that it has never seen ...
def accuracy(model) -> float:
    with hy.no_grad():
        scores = model(hy.asarray(digits.test_images))
    return float(np.mean(hy.argmax(scores, axis=1).numpy() == digits.test_labels))


print(f"test accuracy: {accuracy(eager):.1%} eager, {accuracy(captured):.1%} hybridized")
assert accuracy(eager) > 0.95

# %% ... and both ways to train came to the same parameters, bit for bit.
for name, parameter in eager.state_dict().items():
    assert parameter.numpy().tobytes() == captured.state_dict()[name].numpy().tobytes(), name
print("identical bits")
