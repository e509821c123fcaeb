"""The equations that benchmarks solve on every arch."""

GRAY_SCOTT = """
    r  = u*v**2
    u' = u + dt*(Du*lap(u) - r + F*(1 - u))
    v' = v + dt*(Dv*lap(v) + r - (F + k)*v)
"""
NUMBERS = {"dt": 1.0, "Du": 0.16, "Dv": 0.08, "F": 0.06, "k": 0.062}
# Yee's grid, in place: each half step reads neighbours of the other field only.
MAGNETIC = """
    hx = hx - a*((ez[0, 1, 0] - ez) - (ey[0, 0, 1] - ey))
    hy = hy - a*((ex[0, 0, 1] - ex) - (ez[1, 0, 0] - ez))
    hz = hz - a*((ey[1, 0, 0] - ey) - (ex[0, 1, 0] - ex))
"""
ELECTRIC = """
    ex = ex + a*((hz - hz[0, -1, 0]) - (hy - hy[0, 0, -1]))
    ey = ey + a*((hx - hx[0, 0, -1]) - (hz - hz[-1, 0, 0]))
    ez = ez + a*((hy - hy[-1, 0, 0]) - (hx - hx[0, -1, 0]))
"""
