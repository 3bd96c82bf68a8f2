"""Groups of nodes that can run as one: merged step by step, never into a cycle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hybrid.core.types import Shape
from hybrid.ir import Node, Value


class Groups:
    """A partition of ``nodes``, each at first a group of its own.

    Nodes are named by their index.  Only nodes with equal ``shapes`` may share a group; None keeps
    a node alone.  A set of groups is the bits of an int: bit ``i`` stands for the group that ``i``
    names, its root.
    """

    def __init__(self, nodes: Sequence[Node], shapes: Sequence[Shape | None], largest: int) -> None:
        count = len(nodes)
        self.shapes, self.largest = shapes, largest
        self.members = [[i] for i in range(count)]
        self.readers: dict[Value, list[int]] = {}
        self.producers: list[list[int]] = [[] for _ in range(count)]  # and what must come before
        self.users: list[list[int]] = [[] for _ in range(count)]
        self._root = list(range(count))
        self._after = [0] * count  # the groups that depend on this one, directly or not
        self._connect(nodes)

    def _connect(self, nodes: Sequence[Node]) -> None:
        origin: dict[Value, int] = {}
        last_observable = -1
        for i, node in enumerate(nodes):
            for value in dict.fromkeys(node.operands):
                self.readers.setdefault(value, []).append(i)
            before = [origin[v] for v in node.operands if v in origin]
            if node.observable:
                if last_observable >= 0:
                    before.append(last_observable)
                last_observable = i
            self.producers[i] = list(dict.fromkeys(before))
            for producer in self.producers[i]:
                self.users[producer].append(i)
            for value in node.results:
                origin[value] = i
        for i in reversed(range(len(nodes))):
            for user in self.users[i]:
                self._after[i] |= self._after[user] | 1 << user

    def root(self, i: int) -> int:
        """The name of the group that node ``i`` is in."""
        roots = self._root
        while roots[i] != i:
            roots[i] = i = roots[roots[i]]
        return i

    def merge(self, i: int, j: int) -> bool:
        """Make the groups of ``i`` and ``j`` one, if they may be."""
        a, b = self.root(i), self.root(j)
        if a == b:
            return True
        if self.shapes[a] is None or self.shapes[a] != self.shapes[b]:
            return False
        if len(self.members[a]) + len(self.members[b]) > self.largest:
            return False
        if self._leads_round(a, b) or self._leads_round(b, a):
            return False
        self._root[a] = b
        self.members[b] = sorted(self.members[a] + self.members[b])
        self.members[a] = []
        self._join(a, b)
        return True

    def _leads_round(self, a: int, b: int) -> bool:
        """Whether ``b`` depends on ``a`` by way of a third group; merged they would be a cycle."""
        if not self._after[a] >> b & 1:
            return False
        for member in self.members[a]:
            for user in self.users[member]:
                user = self.root(user)
                if user != a and user != b and self._after[user] >> b & 1:
                    return True
        return False

    def _join(self, a: int, b: int) -> None:
        """Let what depends on either group depend on both; ``b`` names them from now on."""
        both = 1 << a | 1 << b
        after = self._after[a] | self._after[b] | both
        self._after = [known | after if known & both else known for known in self._after]
        self._after[b] = after & ~both


def schedule(groups: Groups) -> Iterator[list[int]]:
    """The members of each group, groups in an order in which they can run.

    A group runs where its last member stood, or earlier when something else needs it.
    """
    done: set[int] = set()
    for i, root in enumerate(map(groups.root, range(len(groups.members)))):
        if i != groups.members[root][-1]:
            continue
        stack = [root]
        while stack:
            top = stack[-1]
            if top in done:
                stack.pop()
                continue
            waiting = [
                before
                for member in groups.members[top]
                for before in map(groups.root, groups.producers[member])
                if before != top and before not in done
            ]
            if waiting:
                stack.extend(reversed(waiting))
                continue
            done.add(stack.pop())
            yield groups.members[top]
