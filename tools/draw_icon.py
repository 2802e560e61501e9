"""Draws the icon of the plugin: an ear that waves reach, as a PNG of 512 by 512 points."""

from __future__ import annotations

import struct
import sys
import zlib
from pathlib import Path

import numpy as np

SIZE = 512
# Each point is the mean of so many by so many.
FINE = 3
BACK, LINE = np.array([24, 38, 58]), np.array([255, 196, 92])
CORNER = 0.2
ICON = Path(__file__).resolve().parents[1] / "plugins" / "claude-code" / "icon.png"


def draw() -> np.ndarray:
    """The picture, (512, 512, 4) uint8."""
    axis = (np.arange(SIZE * FINE) + 0.5) / (SIZE * FINE) - 0.5
    x, y = np.meshgrid(axis, axis)
    inside = _rounded(x, y) <= 0
    # Three waves that come from the left, and the point that hears them.
    radius = np.hypot(x - 0.2, y)
    angle = np.abs(np.arctan2(y, 0.2 - x))
    waves = np.zeros_like(inside)
    for ring in (0.17, 0.31, 0.45):
        waves |= (np.abs(radius - ring) < 0.032) & (angle < 0.85)
    lit = (radius < 0.075) | waves
    colour = np.where(lit[..., None], LINE, BACK)
    points = np.concatenate([colour, np.where(inside, 255, 0)[..., None]], axis=2).astype(float)
    return points.reshape(SIZE, FINE, SIZE, FINE, 4).mean(axis=(1, 3)).round().astype(np.uint8)


def _rounded(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far a point lies outside a square with round corners; negative inside."""
    outer = 0.5 - CORNER
    return np.hypot(np.maximum(np.abs(x) - outer, 0), np.maximum(np.abs(y) - outer, 0)) - CORNER


def png(points: np.ndarray) -> bytes:
    """The picture as a PNG."""
    rows = b"".join(b"\0" + row.tobytes() for row in points)
    head = struct.pack(">IIBBBBB", points.shape[1], points.shape[0], 8, 6, 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


if __name__ == "__main__":
    ICON.write_bytes(png(draw()))
    sys.stdout.write(f"{ICON}\n")
