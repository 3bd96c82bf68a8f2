"""Names that the floor plan does not want: one word has one meaning, one file one name.

    python -m tests.tools.names          # what is new, and what known_names.txt lists in vain
    python -m tests.tools.names --all    # the known ones too

Prints ``path: what`` a line, and how many findings of each kind there are.  The exit code is 1 if
something is new or listed in vain.  What may stay is a row of ``EXCEPTIONS``, with the reason.
What has yet to go is a line of ``known_names.txt``: lines are taken from it, never added.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
KNOWN = frozenset(Path(__file__).with_name("known_names.txt").read_text("utf-8").splitlines())
FEWEST_LINES = 60  # of a file
FEWEST_FILES, MOST_FILES = 5, 20  # of a folder

# The folders that the glossary is about, and what it says in place of private words.
GLOSSARY_FOLDERS = {"convert", "staging", "trace", "autodiff", "calls", "plan", "memory"}
GLOSSARY = {
    "alias or tie": "handed kin twin heir origin same way",
    "optional": "maybe perhaps either otherwise",
    "VarList or rows": "grown stretch listed",
    "place, journal or mark": "slot moved change standing",
    "read, guard or digest": "matched fingerprint told",
    "deferred value": "late",
    "plan input number": "lent lend free general",
    "precomputed": "kept ahead",
    "request, body or run": "asked loop",
}
REPLACED = {word: say for say, words in GLOSSARY.items() for word in words.split()}

NO_NOUN = re.compile(  # participles, and a few adjectives and adverbs
    r"\w+ed|\w+ing|grown|kept|known|lent|told|written|ahead|beside|often|adaptive|asynchronous|basic"
    "|canonical|common|custom|definite|free|general|implicit|late|logical|parallel|recurrent|small"
    "|trigonometric|whole"
)

# What may stay, and why: by kind, then by name, by path, or by folder and word.
EXCEPTIONS: dict[str, dict[str, str]] = {
    "file": {
        "activation": "an op and its layer",
        "attention": "the same",
        "normalization": "the same",
        "pooling": "the same",
        "assert_": "a construct has one name where it is converted and where it is staged",
        "compare": "the same",
        "comprehension": "the same",
        "for_": "the same; and where its gradient is",
        "functional": "what users say: hy.nn.functional, hy.compress.functional",
        "graph": "a command is called as what it prints",
        "if_": "the same as for assert_",
        "launch": "a command, and an op call that is remembered",
        "logic": "the same",
        "losses": "ops, and what users say: hy.compress.losses",
        "match_": "the same",
        "registry": "each folder may have one",
        "run": "a command, and a run of training",
        "stores": "a construct, as above",
        "texts": "the same",
        "try_": "the same",
        "variables": "the same: variables that may be unbound",
        "verify": "a command, and what it does for graphs",
        "while_": "the same; and where its gradient is",
        "with_": "the same",
    },
    "class": {
        "Block": "a part of a model, written as users write theirs",
        "Checkpoint": "one is written in training, and one is read",
        "Config": "a part of a model, as above",
        "Layer": "the base of the layers of nn, and parts of models",
        "LeNet": "a model that other frameworks are compared on has its name in each",
        "Perceptron": "a part of a model, as above",
        "ResNet": "a model, as above",
    },
    "word": {
        "loop": "a loop is a loop; the glossary means the use of a derived body",
        "memory free": "as in C",
        "plan slot": "a location in a plan, as the style guide says",
        "same": "plain English where two things are compared",
    },
    "module": {
        "batching": "a noun: rules for vmap",
        "deferred": "deferred values are a word of the glossary",
        "embedding": "a noun: the layer",
        "feed": "a noun: what a loop is fed from",
        "hybridized": "what hybridize returns has no other name",
        "indexing": "a noun: reading and writing by index",
        "lowering": "a noun: from a graph to steps",
        "matching": "a noun: of values with what a guard expects",
        "pooling": "a noun: the op and the layer",
        "pruning": "the same: what is done to weights",
        "precomputed": "a word of the glossary",
        "printing": "a noun: what print does",
        "sampling": "a noun: of random numbers",
        "smoothing": "the same: what is done to channels",
        "sorting": "a noun: of items",
        "spelling": "a noun: of names",
        "staging": "a noun: as the folder staging",
        "timing": "a noun: how long something took",
        "training": "a noun: of a model",
        "tuning": "a noun: of choices for a machine",
    },
    "lines": {
        "hybrid/bench/compare/start.py": "run by interpreters that have no other file of it",
        "hybrid/calls/auto_plan.py": "what is hybridized by hand knows nothing of it",
        "hybrid/cli/commands": "a registry: one file for each command",
        "hybrid/convert/constructs": "a registry: one file for each construct",
        "hybrid/core/own_names.py": "a table that convert and staging share",
        "hybrid/core/package.py": "imports nothing, so that all can import it",
        "hybrid/core/timing.py": "all folders that take part in a capture share it, and no more",
        "hybrid/memory/batch_queue.py": "of the two queues in C the one that holds no work",
        "hybrid/compress/channels/uncoupled_ops.py": "a registry: of reasons, by ops",
        "hybrid/models": "a registry: one file for each model",
        "hybrid/nn/layers/dropout.py": "its functions are below layers: functions/dropout_kinds.py",
        "hybrid/nn/layers/layer.py": "the base of all layers",
        "hybrid/nn/utils.py": "where PyTorch has these functions",
        "hybrid/passes/scalar": "a registry: one file for each pass",
        "hybrid/staging/constructs": "a registry: one file for each construct",
        "hybrid/staging/nodes": "a registry: one file for each kind of node",
        "hybrid/staging/sessions/overrides.py": "a registry: of what stands for library functions",
        "hybrid/trace/gradients/budget.py": "staging needs it without the derivatives",
    },
    "folder": {
        "hybrid/convert/constructs": "a registry: one file for each construct",
        "hybrid/onnx/handlers": "a registry: one file for each family of ops",
        "hybrid/ops": "all of it is in its folders",
        "hybrid/passes": "the same",
        "hybrid/staging": "most of it is in its folders",
        "hybrid/trace": "all of it is in its folders",
    },
    "title": {},
}


class Finding(NamedTuple):
    kind: str
    path: str
    what: str
    keys: tuple[str, ...]  # that an exception may name it by

    def __str__(self) -> str:
        return f"{self.path}: {self.what}"


class Source(NamedTuple):
    path: str
    folder: str
    stem: str
    lines: int
    title: str  # the first line of the docstring
    classes: list[str]  # at the top level
    functions: list[str]

    @property
    def subject(self) -> str:
        """The folder of the package that it is in, however deep; empty if it is in none."""
        return self.folder.partition("/")[2].partition("/")[0]


def read(path: Path, root: Path) -> Source:
    """A file as the checks need it.  It is searched, not parsed: there are many."""
    text, at = path.read_text(encoding="utf-8"), path.relative_to(root)
    title = re.match(r'(?:#.*\n|\s)*r?"""(.*)', text)
    classes = re.findall(r"^class (\w+)", text, re.MULTILINE)
    functions = re.findall(r"^(?:async )?def (\w+)", text, re.MULTILINE)
    names = (list(dict.fromkeys(classes)), list(dict.fromkeys(functions)))  # overloads: once
    lines = len(text.splitlines())
    return Source(str(at), str(at.parent), path.stem, lines, title[1] if title else "", *names)


def words_of(name: str) -> list[str]:
    """The words of a name in snake_case or CamelCase, in lower case and the singular."""
    words = [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]
    return [word if word in REPLACED else word.removesuffix("s") for word in words]


def repeated(files: list[Source]) -> Iterator[Finding]:
    """File names, and names of classes, that several files have."""
    stems: defaultdict[str, list[Source]] = defaultdict(list)
    classes: defaultdict[str, list[Source]] = defaultdict(list)
    for file in files:
        if file.stem not in ("__init__", "__main__"):
            stems[file.stem].append(file)
        for name in file.classes:
            classes[name].append(file)
    for kind, table in (("file", stems), ("class", classes)):
        for name, places in table.items():
            for file in places if len(places) > 1 else ():
                yield Finding(kind, file.path, f"another {kind} is called {name}", (name,))


def private_words(file: Source) -> Iterator[Finding]:
    """Words that the glossary replaces: in names of a file, and as the title of its docstring."""
    for name in (f"module {file.stem}", *file.classes, *file.functions):
        for word in dict.fromkeys(words_of(name)):
            if word in REPLACED:
                what = f"{name}: not {word}, but {REPLACED[word]}"
                keys = (name, word, f"{file.subject} {word}")
                yield Finding("word", file.path, what, keys)
    title = re.match(r"([A-Z][a-z]+):", file.title)
    if title and words_of(title[1])[0] in REPLACED:
        yield Finding("title", file.path, f"the docstring begins with {title[0]}", (file.path,))


def wrong_module(file: Source) -> Iterator[Finding]:
    """A module that is not called by a noun."""
    last = file.stem.rpartition("_")[2]
    if NO_NOUN.fullmatch(last):
        yield Finding("module", file.path, f"{last} is no noun", (file.stem, file.path))


def wrong_sizes(files: list[Source]) -> Iterator[Finding]:
    """Files that are short, and folders of few files or many, those below them not counted."""
    for file in files:
        if file.lines < FEWEST_LINES and file.stem not in ("__init__", "__main__"):
            what = f"fewer than {FEWEST_LINES} lines"
            yield Finding("lines", file.path, what, (file.path, file.folder))
    for folder, count in Counter(file.folder for file in files).items():
        if not FEWEST_FILES <= count <= MOST_FILES:
            few = count < FEWEST_FILES
            what = f"fewer than {FEWEST_FILES} files" if few else f"more than {MOST_FILES} files"
            yield Finding("folder", folder, what, (folder,))


def all_findings(root: Path) -> Iterator[Finding]:
    """What is found under ``root``, exceptions included."""
    files = [read(path, root) for path in sorted(root.glob("hybrid/**/*.py"))]
    yield from repeated(files)
    for file in files:
        if file.subject in GLOSSARY_FOLDERS:
            yield from private_words(file)
        yield from wrong_module(file)
    yield from wrong_sizes(files)


def findings(root: Path) -> list[Finding]:
    """What is found under ``root`` and is no exception, by path."""
    found = sorted(all_findings(root), key=str)
    return [item for item in found if EXCEPTIONS[item.kind].keys().isdisjoint(item.keys)]


def main(arguments: list[str]) -> int:
    """Print what is found; 1 if that is not what is known."""
    found = findings(ROOT)
    new = [item for item in found if str(item) not in KNOWN]
    gone = sorted(KNOWN - {str(item) for item in found})
    for item in found if "--all" in arguments else new:
        print(item)
    for line in gone:
        print(f"{line} (gone: take it from known_names.txt)")
    counts = Counter(item.kind for item in found)
    print(", ".join(f"{kind} {counts[kind]}" for kind in EXCEPTIONS), file=sys.stderr)
    return 1 if new or gone else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
