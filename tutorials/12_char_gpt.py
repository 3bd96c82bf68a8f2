"""Train a small GPT on Python's own documentation, character by character, and let it write."""

# %% What `help()` says of its topics comes with every Python: half a million characters.
import time

import numpy as np

import hybrid as hy
from hybrid.models.data import documentation_text
from hybrid.models.gpt import GPT, Config, generate

text = documentation_text()
tokenizer = hy.data.CharTokenizer(text)
tokens = np.array(tokenizer.encode(text))
cut = int(len(tokens) * 0.95)
print(f"{len(tokens):,} characters, {len(tokenizer)} different ones; the last 5 % are held out")
assert tokenizer.decode(tokens[:100]) == text[:100]


# %% How well can the next character be guessed?  A model that knows nothing needs log2 of their
# number in bits.  One that knows how frequent each is needs the entropy of the frequencies, and
# one that looks at the character before needs less.
def entropy(counts):
    shares = counts[counts > 0] / counts.sum()
    return -(shares * np.log2(shares)).sum()


pairs = np.zeros((len(tokenizer), len(tokenizer)))
np.add.at(pairs, (tokens[:-1], tokens[1:]), 1)
unigram = entropy(pairs.sum(1))
bigram = entropy(pairs.ravel()) - unigram
print("bits a character that are needed, knowing")
print(f"  nothing {np.log2(len(tokenizer)):.2f}")
print(f"  how frequent characters are {unigram:.2f}")
print(f"  how frequent pairs of them are {bigram:.2f}")

# %% The model, in hybrid/models/gpt.py, is a page of ordinary Python: vectors of characters and of
# places, then blocks of attention and perceptrons, each added to what it has seen.
hy.random.seed(0)
model = GPT(Config(tokens=len(tokenizer), block=64, width=64, heads=4, depth=2))
print(hy.summary(model, hy.zeros((1, 64), dtype=hy.int64), depth=1))

# %% Each sample is a window of 64 characters, and the 64 that follow each of them.
train = hy.data.DataLoader(
    hy.data.TokenBlocks(tokens[:cut], 64), batch_size=32, shuffle=True, drop_last=True, generator=0
)
test = hy.data.DataLoader(hy.data.TokenBlocks(tokens[cut:], 64), batch_size=32, drop_last=True)
EPOCHS = 4

# %% A step is a function: gradients, clipping, the optimizer and the learning rate, which rises and
# falls.  All of that becomes one graph, and each call one call into C.
optimizer = hy.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
schedule = hy.optim.lr_scheduler.OneCycleLR(
    optimizer, max_lr=3e-3, epochs=EPOCHS, steps_per_epoch=len(train)
)


def loss_of(tokens, following):
    logits = model(tokens)
    return hy.nn.functional.cross_entropy(logits.reshape((-1, len(tokenizer))), following.flatten())


@hy.hybridize
def step(tokens, following):
    optimizer.zero_grad()
    loss = loss_of(tokens, following)
    loss.backward()
    hy.optim.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    return loss


@hy.hybridize
def bits(tokens, following):
    with hy.no_grad():
        return loss_of(tokens, following) / np.log(2)


for epoch in range(EPOCHS):
    begun = time.perf_counter()
    learnt = np.mean([step(*batch).item() for batch in train]) / np.log(2)
    seconds = time.perf_counter() - begun
    held_out = np.mean([bits(*batch).item() for batch in test])
    print(
        f"epoch {epoch}: {learnt:.2f} bits learnt, {held_out:.2f} held out,"
        f" {len(train) * 32 * 64 / seconds:,.0f} characters/s"
    )

# %% It has learnt more than pairs of characters, of text that it has never seen; and every step was
# the same plan.
assert len(step.plans) == 1
assert held_out < bigram - 0.5 < unigram - 1

# %% Now it writes.  `generate` draws one character at a time, and runs the model for each: a Python
# loop, with an `if` for when the text outgrows what the model sees.
prompt = hy.asarray([tokenizer.encode("The statement is")])


def write(draw, seed=2, count=300):
    hy.random.seed(seed)
    begun = time.perf_counter()
    with hy.no_grad():
        drawn = draw(model, prompt, count, temperature=0.6)
    return tokenizer.decode(drawn[0]), count / (time.perf_counter() - begun)


eager, speed = write(generate)
print(f"{eager}\n\n{speed:,.0f} characters/s")

# %% Captured, that loop is one node of one graph: the whole text is a single call into C.  The
# draws are the same, so the text is.
captured = hy.hybridize(generate)
write(captured)
text_again, speed = write(captured)
print(f"{speed:,.0f} characters/s, hybridized")
assert text_again == eager
assert len(captured.plans) == 1
assert write(captured, seed=3)[0] != eager

# %% Words are what stands between spaces.  How many of those that it wrote are real ones?
known = set(text.split())
written = " ".join(write(captured, seed=seed)[0] for seed in range(5)).split()[1:-1]
share = np.mean([word in known for word in written])
print(f"{share:.0%} of {len(written)} words are in the documentation")
assert share > 0.5
