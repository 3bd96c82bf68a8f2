"""Without Python: a model and its training step in one file, which a C program and a shell run."""

# %% `hy.export` writes functions to a file. Those that use the same tensors share them there: here
# a step of training and the model that it trains, parameters, moments and learning rate included.
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import hybrid as hy
from hybrid import nn
from hybrid.data.digits import load

hy.random.seed(0)
folder = Path(tempfile.mkdtemp())
images, labels, _, _ = load()
x, y = hy.asarray(images[:64].reshape(64, 64)), hy.asarray(labels[:64].astype(np.int64))

model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
optimizer = hy.optim.Adam(model.parameters(), lr=0.01)


def train_step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


hy.export({"train_step": (train_step, x, y), "predict": (model, x)}, folder / "digits.hyb")

# %% Nothing has run, and nothing has changed. What Python does from here on is what others will be
# compared with, bit for bit: the file holds the state of before.
losses = [float(train_step(x, y)) for _ in range(20)]
scores = model.eval()(x).numpy()

# %% Python loads the file without any of the code above: not even the class of the model.
program = hy.load_exported(folder / "digits.hyb")
print(program)
assert [float(program["train_step"](x, y)) for _ in range(20)] == losses
assert program["predict"](x).numpy().tobytes() == scores.tobytes()

# %% `hybrid-run` is a C program that comes with the package. It reads and writes arrays of NumPy,
# needs no Python, and keeps what a function has written to its tensors only if it is told to.
np.save(folder / "x.npy", x.numpy())
np.save(folder / "y.npy", y.numpy())
hybrid_run = Path(hy.lib_dir()).parent / "bin" / "hybrid-run"  # pip puts one on the path, too


def shell(*words):
    done = subprocess.run([str(word) for word in words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


print(shell(hybrid_run, "digits.hyb", "--list"))
given = ("--input", "x.npy", "--input", "y.npy", "--repeat", 20, "--save", "trained.hyb")
print(shell(hybrid_run, "digits.hyb", "train_step", *given))
shell(hybrid_run, "trained.hyb", "predict", "--input", "x.npy", "--output", "scores.npy")
assert np.load(folder / "scores.npy").tobytes() == scores.tobytes()

# %% A file may come from anybody. It holds no code, every number in it is checked before it is
# used, and what it may take can be bounded: memory, seconds, or how often its loops go round.
refused = subprocess.run(
    [hybrid_run, "trained.hyb", "predict", "--input", "x.npy", "--max-bytes", "1000"],
    cwd=folder, capture_output=True, text=True,
)  # fmt: skip
print(refused.stderr)
assert refused.returncode == 1 and "more than the 1000" in refused.stderr

# %% The same in a program of one's own: `hybrid.h` is in `hy.include_dir()`, `libhybrid.so`, which
# is what Python calls, too, in `hy.lib_dir()`. A run takes addresses and gives a status.
source = r"""
#include <stdio.h>
#include <stdlib.h>
#include "hybrid.h"

int main(int argc, char **argv)
{
    static float x[64 * 64], scores[64 * 10];
    void *const inputs[] = {x}, *const outputs[] = {scores};
    hyb_program *program = hyb_program_load(argv[argc - 1], 0); /* maps the file */
    const int predict = program ? hyb_program_find(program, "predict") : -1;
    if (predict < 0 || fread(x, sizeof x, 1, stdin) != 1
        || hyb_program_run(program, predict, inputs, NULL, outputs) != HYB_OK) {
        fprintf(stderr, "%s\n", hyb_last_error());
        return EXIT_FAILURE;
    }
    fwrite(scores, sizeof scores, 1, stdout);
    hyb_program_free(program);
    return EXIT_SUCCESS;
}
"""
if shutil.which("cc") is None:
    print("There is no C compiler: the program is not built.")
else:
    (folder / "ask.c").write_text(source, encoding="utf-8")
    lib = hy.lib_dir()
    shell("cc", f"-I{hy.include_dir()}", "ask.c", f"-L{lib}", "-lhybrid", f"-Wl,-rpath,{lib}",
          "-o", "ask")  # fmt: skip
    asked = subprocess.run(
        [folder / "ask", "trained.hyb"], cwd=folder, input=x.numpy().tobytes(), capture_output=True,
    )  # fmt: skip
    assert asked.stdout == scores.tobytes()
    print(f"A C program of {os.path.getsize(folder / 'ask'):,} bytes gives the same scores.")

# %% For a machine on which nothing is installed, `hybrid library DIR` builds libhybrid.a, and
# `hybrid export digits.hyb --standalone DIR` writes the C sources of just what the program uses:
# `make` makes one static binary of them, and of the file. csrc/examples has longer programs in C.
