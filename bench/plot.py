# SPDX-License-Identifier: Apache-2.0
"""Line charts as SVG, without a library: what a page of results needs and no more.

    Chart("Steady epoch", "cached share", "samples/s").add("headrace", [(0, 200), (0.5, 400)]).write(path)
    write_bars(path, "ResNet-50", "images/s", {"synthetic": 4700, "headrace": 4500})
"""

import math
from pathlib import Path
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 820, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 280, 40, 60
COLOURS = ["#1f6fb2", "#d1622b", "#2e8b57", "#8a4fb0", "#6b6b6b", "#b8860b"]


class Axis:
    """Maps values to pixels; linear from 0, or logarithmic with powers of two or ten as ticks."""

    def __init__(self, values, first_pixel, last_pixel, base=0):
        self.base = base
        self.pixels = (first_pixel, last_pixel)
        top = max(values) or 1
        if base:
            self.low = math.floor(math.log(min(values), base) + 1e-9)
            self.high = max(math.ceil(math.log(top, base) - 1e-9), self.low + 1)
        else:
            step = nice_step(top)
            self.low, self.high = 0, math.ceil(top / step - 1e-9) * step
            self.step = step

    def position(self, value):
        number = math.log(value, self.base) if self.base else value
        share = (number - self.low) / (self.high - self.low)
        return self.pixels[0] + share * (self.pixels[1] - self.pixels[0])

    def ticks(self):
        if self.base:
            return [self.base ** power for power in range(self.low, self.high + 1)]
        return [i * self.step for i in range(round(self.high / self.step) + 1)]


def nice_step(top):
    """1, 2 or 5 times a power of ten: four to nine steps to the top."""
    power = 10 ** math.floor(math.log10(top / 4))
    return next(power * factor for factor in (1, 2, 5, 10) if top / (power * factor) <= 9)


def short(value):
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


class Chart:
    def __init__(self, title, x_title, y_title, x_base=0, y_base=0):
        self.title, self.x_title, self.y_title = title, x_title, y_title
        self.x_base, self.y_base = x_base, y_base
        self.series = []  # (name, points)

    def add(self, name, points):
        self.series.append((name, sorted(points)))
        return self

    def write(self, path):
        Path(path).write_text(self.svg(), encoding="utf-8")

    def svg(self):
        points = [point for _, line in self.series for point in line]
        x_axis = Axis([x for x, _ in points], LEFT, WIDTH - RIGHT, self.x_base)
        y_axis = Axis([y for _, y in points], HEIGHT - BOTTOM, TOP, self.y_base)
        parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
                 f'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
                 self.text(LEFT, 22, self.title, size=15)]
        parts += self.frame(x_axis, y_axis)
        for number, (name, line) in enumerate(self.series):
            parts += self.line(number, name, line, x_axis, y_axis)
        return "\n".join([*parts, "</svg>"]) + "\n"

    def frame(self, x_axis, y_axis):
        parts = []
        for tick in x_axis.ticks():
            x = x_axis.position(tick)
            parts += [f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e4e4e4"/>',
                      self.text(x, HEIGHT - BOTTOM + 18, short(tick), anchor="middle")]
        for tick in y_axis.ticks():
            y = y_axis.position(tick)
            parts += [f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#e4e4e4"/>',
                      self.text(LEFT - 8, y + 4, short(tick), anchor="end")]
        middle_x, middle_y = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
        parts += [self.text(middle_x, HEIGHT - 16, self.x_title, anchor="middle"),
                  f'<g transform="rotate(-90 18 {middle_y})">{self.text(18, middle_y, self.y_title, "middle")}</g>']
        return parts

    def line(self, number, name, line, x_axis, y_axis):
        colour = COLOURS[number % len(COLOURS)]
        places = [(x_axis.position(x), y_axis.position(y)) for x, y in line]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        legend_y = TOP + 14 + 20 * number
        return [f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>',
                *(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places),
                f'<path d="M{WIDTH - RIGHT + 14} {legend_y - 4}h18" stroke="{colour}" stroke-width="2"/>',
                self.text(WIDTH - RIGHT + 38, legend_y, name)]

    @staticmethod
    def text(x, y, content, anchor="start", size=12):
        return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(content)}</text>'


def write_bars(path, title, unit, values):
    """One bar per name, from the top down, with its value behind it."""
    height, left = 26, 200
    axis = Axis(list(values.values()), left, WIDTH - 120)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TOP + height * len(values) + 10}" '
             f'font-family="sans-serif" font-size="12"><rect width="100%" height="100%" fill="white"/>',
             Chart.text(left, 22, f"{title}, {unit}", size=15)]
    for number, (name, value) in enumerate(values.items()):
        y, end = TOP + height * number, axis.position(value)
        colour = COLOURS[number % len(COLOURS)]
        parts += [f'<path d="M{left} {y + 4}H{end:.1f}V{y + height - 4}H{left}z" fill="{colour}"/>',
                  Chart.text(left - 8, y + height / 2 + 4, name, anchor="end"),
                  Chart.text(end + 6, y + height / 2 + 4, f"{value:,.0f}")]
    Path(path).write_text("\n".join([*parts, "</svg>"]) + "\n", encoding="utf-8")
