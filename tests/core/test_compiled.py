"""Ctrl-C waits for loops that numba compiled: it would end the process, and a notebook with it."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
import pytest
from numba.core import event
from scipy.sparse import csr_array

from stream_icd.core import compiled
from stream_icd.core.compiled import uninterrupted
from stream_icd.methods.bp import evidence, find, modularity
from stream_icd.methods.bp.parameters import BpParameters
from stream_icd.methods.memory import detect
from stream_icd.methods.model import Model
from stream_icd.registry.find import open_model
from tests.fixtures.stream import cliques

TWO = csr_array(np.kron(np.eye(2), np.ones((4, 4)) - np.eye(4)))


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def model() -> Model:
    return open_model("default").model


@pytest.mark.parametrize(
    ("module", "inside", "call"),
    [
        (find, "comparable", lambda: find.find_communities(TWO, BpParameters())),
        (modularity, "comparable", lambda: modularity.estimate_n_communities(TWO)),
        (evidence, "among", lambda: evidence.evidence_for(TWO, np.arange(8) // 4)),
        (
            detect,
            "rows_of",
            lambda: detect.detect_remembering(cliques(0), model()),
        ),
    ],
)
def test_an_interrupt_waits_for_the_communities(
    monkeypatch: pytest.MonkeyPatch, module: Any, inside: str, call: Callable[[], Any]
) -> None:
    done, before = [], getattr(module, inside)

    def interrupted(*arguments: Any, **options: Any) -> Any:
        press()
        done.append(before(*arguments, **options))
        return done[-1]

    monkeypatch.setattr(module, inside, interrupted)
    with pytest.raises(KeyboardInterrupt):
        call()
    assert len(done) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    steps = []

    @uninterrupted()
    def pressed_twice() -> None:
        press()
        steps.append("first")
        press()
        steps.append("second")

    with pytest.raises(KeyboardInterrupt):
        pressed_twice()
    assert steps == ["first"]


def test_blocks_may_be_nested_and_other_threads_are_left_alone() -> None:
    handlers = []

    def elsewhere() -> None:
        with uninterrupted():
            handlers.append(signal.getsignal(signal.SIGINT))

    with uninterrupted():
        with uninterrupted():
            pass
        own = signal.getsignal(signal.SIGINT)
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert handlers == [own] != [signal.default_int_handler]


def test_it_is_said_once_that_loops_are_compiled(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    event.register("numba:compile", listener := compiled._SaysThatItCompiles())
    for module in ("another", "stream_icd.one", "stream_icd.two"):

        def loop(x: int) -> int:
            return x + 1

        loop.__module__ = module
        caplog.clear()
        quick: Any = numba.njit(loop)
        assert quick(1) == 2
        assert bool(caplog.records) == (module == "stream_icd.one")
    event.unregister("numba:compile", listener)
