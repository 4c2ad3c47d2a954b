"""Settings in the environment and in the settings file: names that do not exist are reported."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import stream_icd
from stream_icd.commands.cli.environment import SETTINGS, _variables, check_environment
from stream_icd.commands.cli.main import app
from stream_icd.core.errors import BadSettings


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("BOOTSTRAP_SERVER", "BOOTSTRAP_SERVERS"),
        ("SECURITY_PROTOCAL", "SECURITY_PROTOCOL"),
        ("CLAIM_URI", "CLAIMS_URI"),
        ("LIMIT_ROWS", "LIMITS_ROWS"),
        ("LOGLEVEL", "LOG_LEVEL"),
        ("CONFIGFILE", "CONFIG_FILE"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_name_that_was_meant(name: str, meant: str) -> None:
    refused = f"STREAM_ICD_{name} is not a setting; did you mean STREAM_ICD_{meant}"
    with pytest.raises(BadSettings, match=refused):
        check_environment({f"STREAM_ICD_{name}": "x"})


def test_what_other_programs_set_is_reported_and_real_settings_are_silent() -> None:
    others = {"STREAM_ICD_PORT": "tcp://10.0.0.1:9464", "STREAM_ICD_SERVICE_HOST": "10.0.0.1"}
    warnings = check_environment(others)
    assert [warning.split()[2] for warning in warnings] == sorted(others)
    assert all("has no effect" in warning for warning in warnings)
    names = [*_variables(), "STREAM_ICD_TEST_KAFKA", "STREAM_ICD_REQUIRE_KAFKA", "PATH"]
    given = {name: "x" for name in names if name != "STREAM_ICD_CONFIG_FILE"}
    assert check_environment(given) == []
    assert check_environment({name.lower(): "x" for name in given}) == []


def test_the_settings_file_has_tables_and_settings_that_exist(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"

    def check(text: str) -> list[str]:
        file.write_text(text)
        return check_environment({"STREAM_ICD_CONFIG_FILE": str(file)})

    with pytest.raises(BadSettings, match="table kafak is not a setting; did you mean kafka"):
        check('[kafak]\nbootstrap_servers = "a:1"\n')
    (warning,) = check('[someone_elses]\nx = 1\n[kafka]\nbootstrap_servers = "a:1"\n')
    assert "table someone_elses is not a setting" in warning
    with pytest.raises(BadSettings, match=r"security_protocol is in no table: .* below \[kafka\]"):
        check('security_protocol = "SASL_SSL"\n[traces]\ntraces = "on"\n')
    assert check('[traces]\ntraces = "on"\n') == []


def test_every_command_checks_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", "loud")
    assert isinstance(CliRunner().invoke(app, ["data", "list"]).exception, BadSettings)
    monkeypatch.setenv("STREAM_ICD_LOG_LEVEL", "debug")
    monkeypatch.setenv("STREAM_ICD_PORT", "1")
    result = CliRunner().invoke(app, ["data", "list"])
    assert result.exit_code == 0
    assert "STREAM_ICD_PORT is not a setting" in result.stderr


def test_all_settings_classes_are_known() -> None:
    root = Path(stream_icd.__file__).parent
    text = "".join(file.read_text(encoding="utf-8") for file in root.rglob("*.py"))
    assert set(re.findall(r"^class (\w+)\(Settings\)", text, re.MULTILINE)) == {
        one.__name__ for one in SETTINGS
    }
