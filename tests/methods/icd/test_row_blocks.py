"""Dense products are right, and the same to the last bit on any number of threads."""

from __future__ import annotations

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from stream_icd.methods.icd.row_blocks import product, single_threaded_blas


def long_product() -> tuple[np.ndarray, np.ndarray]:
    """One whose inner sums are so long that a BLAS splits them over threads."""
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((2, 300, 9000)).astype(np.float32)
    return left, np.ascontiguousarray(right.T)


def test_the_product_is_right_over_several_blocks() -> None:
    rng = np.random.default_rng(0)
    left = rng.standard_normal((2500, 30)).astype(np.float32)
    right = rng.standard_normal((30, 20)).astype(np.float32)
    np.testing.assert_allclose(product(left, right, threads=2), left @ right, atol=1e-4)


def test_neither_our_threads_nor_the_blas_threads_change_a_bit() -> None:
    left, right = long_product()
    answers = []
    for blas_threads in (1, 2):
        with threadpool_limits(blas_threads):
            answers += [product(left, right, threads=threads) for threads in (1, 2)]
    assert all(np.array_equal(answers[0], answer) for answer in answers)


def test_the_blas_gets_its_threads_back() -> None:
    with threadpool_limits(2):
        with single_threaded_blas():
            assert {pool["num_threads"] for pool in blas_pools()} == {1}
        assert {pool["num_threads"] for pool in blas_pools()} == {2}


def blas_pools() -> list[dict[str, object]]:
    return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
