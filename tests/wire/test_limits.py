"""What a message may make us allocate is for the operator to say."""

import pickle
from pathlib import Path

import pytest

from stream_icd.core.errors import BadSettings
from stream_icd.wire.limits import DEFAULT_LIMITS, Limits


def test_the_environment_wins_over_the_file_over_the_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[limits]\nrows = 10\nheader_bytes = 20\n[kafka]\nclient_id = 'x'\n")
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "30")
    limits = Limits()
    assert (limits.rows, limits.header_bytes) == (30, 20)
    assert limits.decoded_bytes == DEFAULT_LIMITS.decoded_bytes == 1 << 30


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", ""])
def test_a_limit_is_a_whole_number_above_0(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_LIMITS_DECODED_BYTES", value)
    with pytest.raises(BadSettings, match=r"^limits\.decoded_bytes: "):
        Limits()


def test_a_limit_that_there_is_not_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[limits]\nbytes = 10\n")
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    with pytest.raises(BadSettings, match="bytes"):
        Limits()


def test_worker_processes_get_the_limits_of_their_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Limits(rows=7))
    monkeypatch.setenv("STREAM_ICD_LIMITS_ROWS", "8")
    assert pickle.loads(sent) == Limits(rows=7)
