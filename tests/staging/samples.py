"""What programs of several files call."""

import functools


def clipped(x, low=-1.0, high=1.0):
    if x < low:
        return low + x * 0
    if x > high:
        return high + x * 0
    return x


def twice(f):
    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        return f(f(*args, **kwargs))

    return wrapped


class Scale:
    """Methods of every kind."""

    factor = 3.0

    def __init__(self, k):
        self.k = k

    def __call__(self, x):
        return x * self.k if x > 0 else x

    def method(self, x):
        if x > 0:
            return self.other(x) * self.k
        return x

    def other(self, x):
        while x < 10:
            x = x + self.factor
        return x

    @classmethod
    def of_the_class(cls, x):
        return x * cls.factor if x > 0 else x

    @staticmethod
    def static(x):
        return x + 1 if x > 0 else x

    @property
    def double(self):
        return self.k * 2 if self.k > 0 else self.k

    def __add__(self, x):
        return x + self.k if x > 0 else x - self.k

    def __getitem__(self, i):
        return self.k if i > 0 else -self.k

    def __contains__(self, x):
        return x == self.k
