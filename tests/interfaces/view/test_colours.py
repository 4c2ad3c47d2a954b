"""The colours of communities are distinct for any colour vision."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_icd.interfaces.view.web.page_files import page_files

# Machado, Oliveira and Fernandes (2009), for one kind of cone that is missing; linear RGB.
VISIONS = {
    "all cones": np.eye(3),
    "protan": [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
    "deutan": [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
    "tritan": [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
}
XYZ = np.array([[0.412, 0.358, 0.181], [0.213, 0.715, 0.072], [0.019, 0.119, 0.951]])
WHITE = XYZ.sum(axis=1)
LEAST = 10
"""Colours nearer than some units of CIELAB are taken for one another."""


def seen_as(colour: str, vision: object) -> NDArray[np.float64]:
    """A colour in CIELAB."""
    rgb = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = np.cbrt(XYZ @ np.clip(np.array(vision) @ linear, 1e-3, 1) / WHITE)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("paper", ["LIGHT", "DARK"])
def test_no_two_colours_are_taken_for_one_another(paper: str) -> None:
    page = page_files()["colours.js"].content.decode()
    (listed,) = re.findall(rf"ON_{paper} = \[(.*)\];", page)
    colours = re.findall("#[0-9a-f]{6}", listed)
    assert len(colours) == 9
    near = [
        (name, one, other)
        for name, vision in VISIONS.items()
        for one, other in combinations(colours, 2)
        if np.linalg.norm(seen_as(one, vision) - seen_as(other, vision)) < LEAST
    ]
    assert near == []
