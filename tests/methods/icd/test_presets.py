"""The paper's recipes, with our changes and without."""

from __future__ import annotations

import pytest

from stream_icd.commands.cli.train import _Train
from stream_icd.core.errors import BadSettings
from stream_icd.methods.icd.presets import PRESETS, as_published, deviations, preset


@pytest.mark.parametrize("data_set", PRESETS)
def test_as_published_nothing_differs_from_the_paper(data_set: str) -> None:
    ours = preset(data_set, "ICD-C")
    assert deviations(ours)
    theirs = as_published(ours)
    assert deviations(theirs) == {}
    assert theirs.encoder.widths == ours.encoder.widths
    assert (theirs.variant, theirs.losses, theirs.schedule) == (
        *("ICD-C", ours.losses, ours.schedule),
    )


def test_the_command_trains_as_published_on_demand() -> None:
    of = {
        flag: _Train(encoder="GN-0.3", data="gn:mixing=0.3", as_published=flag).chosen("gn")
        for flag in (False, True)
    }
    assert (of[True].encoder.initialisation, of[True].clustering) == ("xavier", "scikit-learn")
    assert of[True] == as_published(of[False])


def test_as_published_needs_an_encoder_of_the_paper() -> None:
    with pytest.raises(BadSettings, match="give --encoder too"):
        _Train(data="gn:mixing=0.3", as_published=True).chosen("gn")
