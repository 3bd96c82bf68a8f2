"""The table of statements, which is written and read as ``rules`` says."""

STATEMENTS = r"""
[always]
stmt x2: v0 = <v>  |  v1 = <v>  |  s0 = <s>  |  s1 = <s>  |  i0 = <i>  |  f0 = <f>  |  p0 = <b>
stmt: v0, v1 = v1, v0  |  v0 = v1  |  s1 = s0  |  v1, s0 = <v>, <s>  |  i0 += 1
stmt: i0 = (i0 * 2 + 1) % 11  |  pass

[sizes]
stmt:
    for c<=> in range(len(x)):
        v0 = v0 + <v> * c<=>
stmt:
    for c<=> in range(x.shape[0] // 2):
        <loop>
stmt:
    for w<=> in x:
        s0 = s0 * 0.5 + w<=>
stmt:
    if len(x) > 4:
        <block>
    else:
        v0 = <v>
stmt:
    c<=> = 0
    while c<=> < x.shape[0]:
        s1 = s1 + <v>[c<=>]
        c<=> += 2
stmt:
    ys<=> = []
    for j in range(len(x)):
        ys<=>.append(<v>[j] * <s>)
    v1 = hy.stack(ys<=>)
stmt:
    for j, w<=> in enumerate(<v>):
        s1 = s1 + w<=> * j

[stores]
stmt: state.v = <v>  |  state.s = <s>  |  state.v = v0  |  state.s = state.s * 0.5 + <s>
stmt: state.d["a"] = <v>  |  state.xs[<i> % 2] = <v>  |  state.xs[0], state.v = state.v, <v>
stmt: v1 = state.xs[-1]  |  v0 = state.d["a"]  |  state.xs = [<v>, v1]
stmt: setattr(state, 's', <s>)  |  state.d.update(a=<v>)

[kept numbers]
stmt: state.i = k  |  state.f = r  |  state.i = <i>  |  state.f = <f>

[inplace]
stmt: v0 += <v>  |  v1 *= 0.5  |  s0 += <s>  |  state.v += (<v>).detach()  |  v0.assign(<v>)
stmt: s1 -= <f>  |  state.s.assign(<s>.detach())

[inplace items]
stmt: v0[<i> % <N>] = <s>  |  v1[:2] = <s>  |  v0[-1] += 0.5  |  state.v[0] = <s>.detach()

[lists]
stmt: xs[0] = <v>  |  xs[-1] = <v>  |  xs = <l>  |  xs.insert(<i> % 2, <v>)
stmt: xs[0], xs[1] = xs[1], <v>  |  xs.reverse()  |  xs.extend([<v>])
stmt:
    xs.append(<v>)
    xs.pop(0)
stmt:
    v0, *xs = [<v>, *xs]
    xs.append(v0)

[growing]
stmt: xs.append(<v>)
stmt:
    ys<=> = []
    for c<=> in range(<i> % 4):
        ys<=>.append(<v>)
    v0 = sum(ys<=>, <v>)
stmt:
    ys<=> = []
    for c<=> in range(3):
        <loop>
        ys<=>.append(<v>)
    v1 = <v> + hy.sum(hy.stack(ys<=>))

[objects]
stmt: o.v = <v>  |  o.s = <s>  |  o = Point(<v>, <s>)  |  state.v, o.v = o.v, <v>
stmt: o = replace(Point(<v>, <s>), s=<s>)  |  v0 = Point(<v>, <s>).moved(<f>).v

[dicts]
stmt: d["a"] = <v>  |  d["b"] = <s>  |  d = dict(d, a=<v>)
stmt:
    v0 = d.pop("a")
    d["a"] = <v>
stmt:
    for w in d:
        d[w] = d[w] * <f>

[anything]
stmt: a0 = <a>
stmt:
    if <c>:
        a0 = <a>
    else:
        a0 = <a>

[whole]
stmt: n0 = <n>  |  n0 = n0 + <n>

[masks]
stmt: m0 = <m>  |  v0[<m>] = 0.5

[output]
stmt: print("at", i0, <f>)  |  print(<s>)  |  print(f"{<v>} {<i>}")

[closures]
stmt: g0 = lambda w: w * <s>  |  g1 = g0  |  g0, g1 = g1, g0
stmt: g1 = [lambda w, j=j: w * j for j in range(3)][<i> % 3]  |  if lambda w: (s0, v0): pass
stmt: state.v = g0(<v>)
stmt:
    def g0(w, t=<s>):
        return w * t + s0
stmt:
    def g1(w):
        if <c>:
            return w
        return w + <v>
stmt:
    def g0(w, *, t=<f>):
        def inner(z):
            return z * t + v1
        return inner(w)

[nonlocal]
stmt:
    def h<=>():
        nonlocal <every>
        <inner>
    h<=>()
stmt:
    def h<=>():
        nonlocal <every>
        <inner>
    if <c>:
        h<=>()
stmt:
    def h<=>(w):
        nonlocal s0
        s0 = s0 + w
        return s0
    v0 = <v> * h<=>(<s>) + h<=>(<s>)
stmt:
    if <c>:
        def h<=>():
            nonlocal v0
            v0 = <v>
        h<=>()
stmt:
    def h<=>():
        nonlocal v1, i0
        v1, i0 = <v>, <i>
        return v1
    for c<=> in range(3):
        v0 = h<=>() + v0
stmt:
    h<=> = lambda: s0
    s0 = <s>
    s1 = h<=>()

[kept closures]
stmt: total = total * 0.5 + <s>
s: total
stmt:
    def tick<=>():
        nonlocal total
        total = total + <s>
    tick<=>()

[always]
stmt x5:
    if <c>:
        <block>
stmt x5:
    if <c>:
        <block>
    else:
        <block>
stmt x2:
    if <c>:
        <block>
    elif <c>:
        <block>
    else:
        <block>
stmt x2:
    for c<=> in range(3):
        <loop>
stmt x2:
    for c<=> in range(<i> % 4):
        <loop>
stmt x2:
    c<=> = 0
    while c<=> < 3 and <c>:
        c<=> += 1
        <loop>

[rows]
stmt:
    for w<=> in rows:
        v0 = v0 + w<=>
        <loop>
stmt:
    for c<=>, w<=> in enumerate(rows):
        s1 = s1 + hy.sum(w<=>) * c<=>
        <loop>
stmt:
    for w<=>, t<=> in zip(rows, rows):
        v1 = w<=> * t<=>
        <loop>
stmt:
    for w<=> in rows[:<i> % 3]:
        v1 = w<=>
        <loop>

[items]
stmt:
    for w<=> in x:
        s0 = s0 + w<=>
        <loop>

[lists]
stmt:
    for w<=> in <l>:
        v1 = v1 + w<=>
        <loop>
stmt:
    for w<=>, t<=> in zip(<l>, (0.5, <f>)):
        v0 = w<=> * t<=>
        <loop>

[loops]
jump: break  |  continue
stmt:
    for c<=> in range(3):
        <loop>
    else:
        <block>
stmt:
    c<=> = 0
    while <c>:
        c<=> += 1
        if c<=> > 2:
            break
        <loop>
    else:
        <block>
stmt:
    c<=> = 0
    while True:
        c<=> += 1
        if c<=> > 3 or <c>:
            break
        <loop>
stmt:
    for c<=> in (1, 2.5):
        f0 = f0 + c<=>
        <loop>
stmt:
    t<=> = <s>
    while t<=> < 2:
        t<=> = hy.where(t<=> > -4, t<=> + 1.5, 9.0)
        <loop>
stmt:
    for i0 in range(<i> % 4):
        <loop>
stmt:
    for c<=> in range(int(n) % 4):
        <loop>

[always]
jump:
    if <c>:
        break
jump:
    if <c>:
        continue
jump:
    if <c>:
        <block>
        break
jump:
    if <c>:
        <block>
        continue
    else:
        <block>

[returns]
jump x2:
    if <c>:
        return <result>
stmt:
    for c<=> in range(3):
        if <c>:
            break
        v0 = v0 + <v>
        if <c>:
            return <result>
stmt:
    c<=> = 0
    while True:
        c<=> += 1
        if c<=> > 3 or <c>:
            break
        s0 = s0 * 0.5
        return <result>
stmt x2:
    if <c>:
        return <result>
stmt x2:
    if <c>:
        <block>
        return <result>

[match]
stmt:
    match <i>:
        case 0:
            <block>
        case 1 | 2:
            <block>
        case w<=> if w<=> > <i>:
            <block>
        case _:
            <block>
stmt:
    match (k, q):
        case (1, True):
            <block>
        case (w<=>, False) if w<=>:
            <block>
        case [i0, _]:
            <block>
stmt:
    match {"k": <i>, "s": <s>}:
        case {"k": 1, "s": s0}:
            <block>
        case {"k": i0, **w<=>}:
            <block>
stmt:
    match Point(<v>, <i>):
        case Point(v=v0, s=1):
            <block>
        case Point(v1, i0):
            <block>
stmt:
    match <f>:
        case int(w<=>):
            f0 = w<=> * 2
        case float(f0):
            <block>
stmt:
    match [<v>, <v>, <v>]:
        case [v0, *w<=>] if <c>:
            v1 = w<=>[-1]
        case [_, v1, _]:
            <block>
stmt:
    match <b>:
        case True:
            <block>
        case False:
            <block>

[try]
stmt:
    try:
        <block>
    finally:
        <block>
stmt:
    try:
        <block>
        if <c>:
            raise ValueError("low")
        <block>
    except ValueError:
        <block>
stmt:
    try:
        <block>
        if <c>:
            raise KeyError(1)
    except (KeyError, TypeError) as e:
        <block>
    else:
        <block>
    finally:
        <block>
stmt:
    try:
        v0 = checked(<v>, <s>)
    except ArithmeticError:
        <block>

[raise]
stmt: assert <c>, "not so"
stmt:
    if <c>:
        raise ValueError("low")
stmt:
    if <c>:
        <block>
        raise RuntimeError(f"{i0}")

[with]
stmt:
    with hy.no_grad():
        <block>
stmt:
    with Scope(state, <v>) as v1:
        <block>
stmt:
    with scope(state, <s>) as w<=>:
        s0 = w<=>
        <block>
stmt:
    with hy.no_grad(), Scope(state, <v>):
        <block>
stmt:
    with suppress(ValueError):
        <block>
        if <c>:
            raise ValueError("low")
        <block>

[generators]
stmt:
    def gen<=>(w, j):
        for c in range(j):
            yield w * c
            w = w + <s>
    for w<=> in gen<=>(<v>, 3):
        v0 = v0 + w<=>
        <loop>
stmt:
    for w<=> in steps(<v>, 3):
        v1 = w<=>
        <loop>

[missing]
stmt: s2 = <s>  |  v2 = <v>
stmt:
    if <c>:
        v2 = <v>
stmt:
    for s2 in (s0, s1):
        <loop>
stmt:
    if <c>:
        del v2

[modules]
stmt: net.seen = <s>.detach()  |  net.seen.assign(net.seen + 1)  |  net.hidden = <v>
stmt: v0 = net.hidden

[backward]
stmt: hy.sum(hy.sin(state.w) * (<v>).detach()).backward()
v: (state.w * <f>)
stmt:
    z<=> = (<v>).detach()
    z<=>.requires_grad = True
    hy.sum(z<=> * <v>.detach()).backward()
    v0 = z<=>.grad * 0.5
stmt:
    state.w.grad = None
    hy.sum(state.w * (<v>).detach()).backward()
    with hy.no_grad():
        state.w.assign(state.w - 0.1 * state.w.grad)
stmt:
    if state.w.grad is not None:
        v1 = state.w.grad * 1.0

[frozen]
stmt: state.w.requires_grad = False  |  state.w.requires_grad = True
stmt:
    state.w.requires_grad = False
    <block>
    state.w.requires_grad = True
stmt:
    state.w.requires_grad = True
    hy.sum(hy.sin(state.w) * (<v>).detach()).backward()
    state.w.requires_grad = False
stmt:
    for c<=> in range(3):
        s0 = s0 + hy.sum(hy.sin(state.w) * <v>)
        with hy.no_grad():
            state.w.assign(state.w * 0.5 + <f>)
v: (state.w * <s>)

[spelled]
stmt: setattr(state, "v" if <b> else "u", <v>)  |  state.__dict__.update(v=<v>, s=<s>)
stmt: vars(state)["s"] = <s>  |  globals()["level"] = <f>  |  globals().update(level=<f>)
stmt:
    for w<=> in ("v", "s"):
        setattr(state, w<=>, getattr(state, w<=>) * <f>)
v: getattr(state, "v")  |  vars(state)["v"]
s: state.__dict__["s"]
f: level  |  globals()["level"]

[classes]
stmt: unit.__class__ = Halving if <b> else Doubling  |  type(unit).scale = <f>
stmt: Doubling.scale, Halving.scale = <f>, <f>
v: unit.go(<v>)
f: unit.scale
b: isinstance(unit, Halving)

[equals]
stmt:
    t<=> = state.xs
    if <b>:
        state.xs = list(state.xs)
    p0 = t<=> is state.xs
stmt:
    t<=> = state.d
    state.d = dict(state.d)
    t<=>["a"] = <v>
stmt:
    t<=> = pairs[0]
    pairs[<i> % 2] = (0.5, <f>)
    p0 = t<=> is pairs[0]
b: (pairs[0] is pairs[1])  |  (pairs[0] == pairs[1])

[replaced]
stmt: state.p = state.p.moved(<v>)  |  state.p = replace(state.p, v=<v>)  |  state.p = state.q
stmt: state.q, state.p = state.p, state.q  |  state.q = Cell(<v>, <s>)  |  state.ps = [state.p]
stmt: state.ps[0] = replace(state.ps[0], s=<s>)  |  state.p.s = <s>  |  cells = {state.p: <s>}
stmt:
    if <c>:
        state.p = replace(state.p, v=<v>)
stmt:
    e<=> = state.p if <c> else state.q
    v0 = e<=>.v * e<=>.s
stmt:
    for _ in range(<i> % 3):
        state.q = state.q.moved(<v>)
v: state.p.v  |  state.ps[0].v  |  (state.p if <c> else Cell(<v>, <s>)).v
s: state.q.s  |  cells.get(state.p, <s>)
b: (state.p is state.q)  |  (state.p == state.q)  |  (state.p in state.ps)

[caches]
stmt: v0 = Lazy(<v>).twice
stmt:
    t<=> = Lazy(<v>)
    v1 = t<=>.twice
    t<=>.v = <v>
    v0 = t<=>.twice + v1
stmt:
    state.o = Lazy(<v>)
    v0 = state.o.twice + state.o.twice
f: halved(<i>)
s: (listed(<i> % 3) * <s>)

[handlers]
stmt:
    try:
        <block>
    except Exception:
        <block>
stmt:
    with suppress(Exception):
        <block>
stmt:
    try:
        <block>
    except Exception as e:
        v0 = <v>
        s0 = s0 + len(str(e))
stmt:
    try:
        <block>
        if <c>:
            raise LookupError("none")
        v1 = <v>
    except (ArithmeticError, LookupError):
        s1 = <s>
    finally:
        f0 = f0 * 0.5
stmt:
    def h<=>():
        try:
            return <v>
        finally:
            state.s = <s>
    v0 = h<=>()

[found]
stmt:
    t<=> = <v>[<v> > <s>]
    if len(t<=>) > <i>:
        raise ValueError("many")
    s0 = s0 + hy.sum(t<=>)
stmt:
    t<=> = <v>[<v> > <s>]
    state.s = <s>
    if t<=>.shape[0] == <i>:
        raise ValueError(f"found {<i>}")
stmt:
    t<=> = hy.nonzero(<v> > <s>)[0]
    for c<=> in range(len(t<=>)):
        s1 = s1 + c<=> * 0.5

[relisted]
stmt:
    ys<=> = [<v>]
    for c<=> in range(<i> % 4):
        if <c>:
            break
        if <c>:
            return ys<=>
        ys<=>.append(<v>)
    v0 = ys<=>[-1]
stmt:
    z<=> = {"a": <v>}
    for c<=> in range(3):
        if <c>:
            return (z<=>, <result>)
        z<=>["a"] = z<=>["a"] * <f>
        if <c>:
            break
    v1 = z<=>["a"]

[views]
v: (hy.stack([<v>, <v>]).T @ hy.stack([<s>, <s>]))
v: (hy.stack([<v>, <v>, <v>])[::2].T @ hy.stack([<s>, <s>]))
v: (hy.stack([<s>, <s>, <s>])[1:] @ hy.stack([<v>, <v>, <v>])[:-1])
v: hy.sum(hy.stack([<v>, <v>]).T, axis=-1)
v: (hy.stack([<v>, <v>]).T @ hy.broadcast_to(<s>, (2, 1))).reshape(<v>.shape)

[anything]
stmt:
    if <c>:
        return (<result>, <a>)
    return (<result>, <a>)

[walrus]
c: ((t0 := <s>) > <f>)
v: (w0 := <v>)
stmt:
    if (t0 := <s>) > 0:
        s0 = t0
        <block>

[absent]
stmt x2:
    q<=> = None
    if <c>:
        q<=> = <v>
    v0 = sum([w for w in [q<=>, <v>] if w is not None], v0)
stmt:
    q<=> = None
    if <c>:
        q<=> = <v>
    if any(w is None for w in (q<=>, <v>)):
        v1 = <v>
    else:
        v1 = hy.sum(hy.stack([q<=>, <v>]), axis=0)
stmt:
    q<=> = None
    if <c>:
        q<=> = <s>
    if q<=> and <c>:
        s0 = q<=> * 2
    s1 = s1 + (q<=> or 0.5)
stmt:
    q<=> = None
    if <c>:
        q<=> = <s>
    t<=> = [0.25 if w is None else w * 0.5 for w in (q<=>, <s>)]
    s0 = s0 + t<=>[0] + t<=>[1]
stmt:
    q<=> = None
    if <c>:
        q<=> = <v>
    if None not in [q<=>]:
        v0 = functools.reduce(lambda a, b: a + b, [q<=>, <v>])
stmt:
    q<=> = None
    if <c>:
        q<=> = <s>
    for c<=> in range(3):
        if <c>:
            q<=> = <s>
            break
    s1 = s1 if q<=> is None else max([q<=>, s1])
"""
