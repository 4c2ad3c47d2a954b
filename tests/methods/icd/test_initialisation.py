"""Weights before training: what they keep of distances, and that a seed makes the same bits."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from scipy.linalg import hadamard

from stream_icd.methods.icd.encoder.initialisation import hadamard_matrix, initial_weight
from stream_icd.methods.icd.encoder.registry import ENCODERS, digest, initial_weights
from stream_icd.methods.icd.recipe import Recipe


@pytest.mark.parametrize("kind", ["orthogonal", "hadamard"])
@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (32, 32), (2048, 3)])
def test_columns_are_orthonormal_or_rows_where_there_are_fewer(
    kind: str, shape: tuple[int, int]
) -> None:
    matrix = initial_weight(np.random.default_rng(0), shape, kind)  # type: ignore[arg-type]
    tall = matrix if shape[0] >= shape[1] else matrix.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(min(shape)), atol=1e-6)


@pytest.mark.parametrize("shape", [(1, 1), (6, 3), (3, 6), (100, 40), (1500, 7)])
def test_hadamard_columns_of_other_widths_have_length_one(shape: tuple[int, int]) -> None:
    matrix = hadamard_matrix(np.random.PCG64(1), shape)
    tall = matrix if shape[0] >= shape[1] else matrix.T
    assert np.array_equal(abs(matrix), np.full(shape, np.float32(1 / np.sqrt(max(shape)))))
    np.testing.assert_allclose((tall.astype(float) ** 2).sum(axis=0), 1, rtol=1e-6)


def test_hadamard_entries_are_sylvesters_with_a_random_sign_a_row() -> None:
    found = hadamard_matrix(np.random.PCG64(3), (5, 6))
    raw = np.random.PCG64(3).random_raw(24).reshape(3, 8)
    rows, columns = raw[0].argsort(), raw[1].argsort()
    for i in range(5):
        flipped = -1 if raw[2, i] >= 2**63 else 1
        expected = flipped * hadamard(8)[rows[i], columns[:6]] / np.sqrt(6)
        np.testing.assert_allclose(found[i], expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("kind", "sha256"),
    [
        ("gcn", "cdcf2361c45e31632db2c5a82337306344dc4924a329253bd5e0c7226f5e2238"),
        ("gat", "911e56e9526530421afedfd9fff5bd9b1086e3ffde7e35ba510a952b69934ac9"),
        ("gin", "c0c85ae0622d78a4726d92e82f371eb07a09ebbde836e45b3b72f6c47d446d3b"),
        ("hops", "93a03a7b8faf0f62058506094ebeb8dd66fd47b52de3617e6597a3c110c3b251"),
        ("edges", "9f5c7d846de4288891537e0dc524e5ab8c38c6208aecdbd4324a4b58731a4768"),
    ],
)
def test_a_seed_makes_the_same_bits_on_every_machine(kind: str, sha256: str) -> None:
    assert set(ENCODERS) == {"gcn", "gat", "gin", "hops", "edges"}
    recipe = Recipe(
        name="pinned",
        encoder={"kind": kind, "widths": (3000, 512, 100), "initialisation": "hadamard"},
        discriminator_widths=(100, 1),
        seed=7,
    )
    assert digest(initial_weights(recipe)) == sha256


def test_a_digest_is_of_names_and_little_endian_values() -> None:
    weights = {"b": np.array([[2.0]], np.float32), "a": np.array([1.0], np.float32)}
    expected = hashlib.sha256(b"a" + b"\x00\x00\x80\x3f" + b"b" + b"\x00\x00\x00\x40")
    assert digest(weights) == expected.hexdigest()
