"""Loops that make a tensor or list longer, and end where a value says so."""

import hybrid as hy
from tests.staging.harness import Program, Table, f32, i64, same

table = Table()
ENDS = [(i64([1, 2]), i64(v)) for v in (3, 0, 6, 5)]
OPTIONS = {"grad": False, "plans": 9}


def following(ys):
    return hy.reshape(hy.sum(ys) % 7, (1,))


@table.runs(*ENDS, **OPTIONS)
def until_a_break(ys, end):
    for _ in range(5):
        item = following(ys)
        ys = hy.concat([ys, item])
        if item[0] == end:
            break
    return ys, ys.shape[0]


@table.runs(*ENDS, **OPTIONS)
def until_a_return(ys, end):
    for _ in range(4):
        item = (following(ys) + hy.random.integers(0, 3, (1,))) % 7
        ys = hy.concat([ys, item])
        if item[0] == end:
            return ys
    else:
        ys = ys * 2
    return ys


@table.runs(*ENDS, **OPTIONS)
def in_an_endless_loop(ys, end):
    while True:
        item = following(ys)
        ys = hy.concat([ys, item])
        if item[0] == end or ys.shape[0] > 7:
            break
    return ys


@table.runs(*ENDS, **OPTIONS)
def while_a_flag_says_so(ys, end):
    done = False
    while not done:
        item = following(ys)
        ys = hy.concat([ys, item])
        done = item[0] == end or ys.shape[0] > 6
    return ys


@table.runs(*ENDS, **OPTIONS)
def of_rows(ys, end):
    ys = hy.reshape(ys, (1, -1))
    for _ in range(5):
        item = hy.sum(ys, axis=1, keepdims=True) % 7
        ys = hy.concat([ys, item], axis=1)
        if (item == end).all():
            break
    return ys


def kept_in_an_attribute():
    class Text:
        pass

    text = Text()

    def program(ys, end):
        text.ys = ys
        for _ in range(5):
            item = following(text.ys)
            text.ys = hy.concat([text.ys, item])
            if item[0] == end:
                break
        return text.ys * 2

    return program, text


# Lists ------------------------------------------------------------------------------------------

LIMITS = [(f32(1.0), f32(v)) for v in (2.0, 5.0, 20.0, 0.5)]


@table.runs(*LIMITS, **OPTIONS, identity="items apart")
def returns_of_an_episode(x, limit):
    rewards = []
    for _ in range(6):
        x = x * 1.5
        rewards.append(x)
        if x > limit:
            break
    total, returns = 0.0, []
    for reward in rewards[::-1]:
        total = reward + 0.9 * total
        returns.insert(0, total)
    return hy.stack(returns), len(returns)


@table.runs(*LIMITS, **OPTIONS, identity="items apart")
def taken_from_the_end(x, limit):
    stack = []
    while x < limit:
        x = x * 2
        stack.append(x)
    total = x * 0
    while stack:
        total = total * 0.5 + stack.pop()
    return total


@table.runs(*LIMITS, **OPTIONS, identity="items apart")
def taken_from_the_front(x, limit):
    queue = []
    while x < limit:
        x = x * 2
        queue.append(x)
    first = queue.pop(0) if queue else x
    return first, queue


@table.runs(*LIMITS, **OPTIONS, identity="items apart")
def put_in_front(x, limit):
    queue = []
    while x < limit:
        x = x * 2
        queue.insert(0, x)
    queue.reverse()
    return queue


@table.runs(*LIMITS, **OPTIONS, identity="items apart")
def a_list_of_work(x, limit):
    stack, total = [limit], x
    while stack:
        item = stack.pop()
        total = total + item
        if item > 3:
            stack.append(item / 2)
    return total


@table.each()
def test_same(program: Program) -> None:
    program.check()


@table.each()
def test_coverage(program: Program) -> None:
    program.check_coverage()


def test_an_attribute_that_grows() -> None:
    same(kept_in_an_attribute, calls=ENDS, make=True, grad=False)
