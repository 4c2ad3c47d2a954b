"""Settings: where they come from, what is refused, and what is never shown."""

from pathlib import Path

import pytest

from stream_icd.errors import BadSettings
from stream_icd.kafka.settings import KafkaSettings

SECRET = "correct-horse-battery"


@pytest.fixture
def scram() -> dict[str, str]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": "anna",
        "sasl_password": SECRET,
    }


def test_arguments_win_over_environment_over_file_over_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[kafka]\nclient_id = "file"\ninstance_id = "file"\nsasl_username = "file"\n')
    monkeypatch.setenv("STREAM_ICD_CLIENT_ID", "environment")
    monkeypatch.setenv("STREAM_ICD_INSTANCE_ID", "environment")
    settings = KafkaSettings(config_file=file, client_id="argument")
    assert settings.client_id == "argument"
    assert settings.instance_id == "environment"
    assert settings.sasl_username == "file"
    assert settings.bootstrap_servers == "127.0.0.1:9092"


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[kafka]\nbootstrap_servers = "a:1, b:2"\n[other]\nx = 1\n')
    monkeypatch.setenv("STREAM_ICD_CONFIG_FILE", str(file))
    assert KafkaSettings().servers == ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap_servers": "kafka.example"}, "host:port"),
        ({"bootstrap_servers": "a:9092,:9092"}, "host:port"),
        ({"bootstrap_servers": "a:99999"}, "host:port"),
        ({"boostrap_servers": "a:1"}, "boostrap_servers"),
        ({"security_protocol": "SASL_SSL"}, "sasl_password"),
        ({"heartbeat_interval_s": 9, "session_timeout_s": 10}, "heartbeat_interval_s"),
        ({"delivery_timeout_s": 5, "request_timeout_s": 30}, "delivery_timeout_s"),
        ({"ssl_cafile": "/no/such/ca.pem"}, "no such file"),
        ({"max_message_bytes": -1}, "max_message_bytes"),
        ({"config_file": "/no/such/settings.toml"}, "/no/such/settings.toml"),
    ],
)
def test_wrong_settings_are_refused_by_name(values: dict[str, object], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(**values)


def test_a_file_that_is_not_toml_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("kafka = [")
    with pytest.raises(BadSettings, match=r"settings\.toml"):
        KafkaSettings(config_file=file)
    file.write_text("kafka = 1")
    with pytest.raises(BadSettings, match="table"):
        KafkaSettings(config_file=file)


def test_settings_cannot_be_changed_afterwards() -> None:
    with pytest.raises(Exception, match="frozen"):
        KafkaSettings().client_id = "other"


def test_a_secret_reaches_the_client_and_is_shown_nowhere(scram: dict[str, str]) -> None:
    settings = KafkaSettings(**scram)
    options = settings.client_options()
    assert options["sasl_plain_password"].encode() == SECRET.encode()
    assert SECRET not in f"{settings!r} {settings} {options} {options['sasl_plain_password']!r}"


def test_a_refused_secret_is_not_in_the_error(scram: dict[str, str]) -> None:
    with pytest.raises(BadSettings) as refused:
        KafkaSettings(**scram | {"sasl_mechanism": "NONE", "ssl_check_hostname": SECRET})
    assert SECRET not in str(refused.value)
    assert refused.value.__cause__ is None
    assert SECRET not in str(refused.value.__context__)


def test_plaintext_offers_no_credentials(scram: dict[str, str]) -> None:
    options = KafkaSettings(**scram | {"security_protocol": "PLAINTEXT"}).client_options()
    assert not any(name.startswith(("sasl", "ssl")) for name in options)
