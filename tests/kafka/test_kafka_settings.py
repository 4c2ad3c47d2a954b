"""Settings: where they come from, what is refused, and what is never shown."""

from pathlib import Path

import pytest
import trustme

from stream_icd.core.errors import BadSettings
from stream_icd.kafka.client.login import login_options
from stream_icd.kafka.settings import KafkaSettings
from tests.testbed.secure_kafka import pem

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
    file.write_text('[kafka]\nclient_id = "file"\ninstance_id = "file"\nshutdown_timeout_s = 3\n')
    monkeypatch.setenv("STREAM_ICD_CLIENT_ID", "environment")
    monkeypatch.setenv("STREAM_ICD_INSTANCE_ID", "environment")
    settings = KafkaSettings(config_file=file, client_id="argument")
    assert (settings.client_id, settings.instance_id) == ("argument", "environment")
    assert settings.shutdown_timeout_s == 3
    assert settings.bootstrap_servers == "127.0.0.1:9092"
    with pytest.raises(Exception, match="frozen"):
        settings.client_id = "other"
    file.write_text('[kafka]\nbootstrap_servers = "a:1, b:2"\n[other]\nx = 1\n')
    for name in ("STREAM_ICD_CONFIG_FILE", "stream_icd_config_file"):  # case never matters
        with monkeypatch.context() as named:
            named.setenv(name, str(file))
            assert KafkaSettings().servers == ["a:1", "b:2"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"bootstrap_servers": "kafka.example"}, "host:port"),
        ({"bootstrap_servers": "a:9092,:9092"}, "host:port"),
        ({"bootstrap_servers": "a:99999"}, "host:port"),
        ({"boostrap_servers": "a:1"}, "boostrap_servers"),
        ({"topic_prefix": "team a."}, "topic_prefix"),
        ({"topic_prefix": "é"}, "topic_prefix"),
        ({"topic_prefix": "x" * 101}, "topic_prefix"),
        ({"security_protocol": "SASL_SSL"}, "sasl_password"),
        ({"sasl_username": "a"}, "sasl_username has no effect without security_protocol"),
        ({"ssl_cafile": __file__}, "ssl_cafile has no effect without security_protocol"),
        ({"heartbeat_interval_s": 9, "session_timeout_s": 10}, "heartbeat_interval_s"),
        ({"delivery_timeout_s": 5, "request_timeout_s": 30}, "delivery_timeout_s"),
        ({"ssl_cafile": "/no/such/ca.pem"}, "no such file"),
        ({"security_protocol": "SSL", "ssl_cafile": __file__}, f"ssl_cafile {__file__}"),
        ({"security_protocol": "SSL", "ssl_certfile": __file__}, f"ssl_certfile {__file__}"),
        ({"security_protocol": "SSL", "ssl_keyfile": __file__}, "without ssl_certfile"),
        ({"sasl_password_file": "/no/such/secret"}, "sasl_password_file /no/such/secret"),
        ({"max_message_bytes": -1}, "max_message_bytes"),
        ({"config_file": "/no/such/settings.toml"}, "/no/such/settings.toml"),
    ],
)
def test_wrong_settings_are_refused_by_name(values: dict[str, object], says: str) -> None:
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(**values)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("kafka = [", r"settings\.toml"),
        ("kafka = 1", "table"),
        (
            '[kafka]\nbootstrap_server = "x:1"\n',
            r"settings\.toml: kafka\.bootstrap_server is not .* did you mean bootstrap_servers\?",
        ),
    ],
)
def test_what_is_wrong_in_a_file_is_refused_by_name(
    tmp_path: Path, content: str, says: str
) -> None:
    (file := tmp_path / "settings.toml").write_text(content)
    with pytest.raises(BadSettings, match=says):
        KafkaSettings(config_file=file)


def test_a_secret_reaches_the_client_and_is_shown_nowhere(scram: dict[str, str]) -> None:
    settings = KafkaSettings(**scram)
    options = login_options(settings)
    assert options["sasl_plain_password"].encode() == SECRET.encode()
    assert SECRET not in f"{settings!r} {settings} {options} {options['sasl_plain_password']!r}"
    plain = login_options(KafkaSettings(**scram | {"security_protocol": "PLAINTEXT"}))
    assert plain == {}  # no credentials are offered
    with pytest.raises(BadSettings) as refused:
        KafkaSettings(**scram | {"sasl_mechanism": "NONE", "ssl_check_hostname": SECRET})
    error = refused.value
    assert error.__cause__ is None
    assert SECRET not in f"{error} {error.__context__}"


def test_a_secret_may_be_alone_in_a_file_that_the_settings_or_the_environment_name(
    scram: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As docker and Kubernetes hand them out: readable by all in the container, one line."""
    file = tmp_path / "password"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o444)
    with pytest.raises(BadSettings, match="both sasl_password and sasl_password_file"):
        KafkaSettings(**scram, sasl_password_file=file)
    del scram["sasl_password"]
    options = login_options(KafkaSettings(**scram, sasl_password_file=file))
    assert options["sasl_plain_password"] == SECRET
    monkeypatch.setenv("STREAM_ICD_SASL_PASSWORD_FILE", str(file))
    assert login_options(KafkaSettings(**scram))["sasl_plain_password"] == SECRET
    file.chmod(0o600)
    for content, says in ((b"\n", "is empty"), (SECRET.encode() + b"\xff", "is not UTF-8 text")):
        file.write_bytes(content)
        with pytest.raises(BadSettings, match=f"sasl_password_file {file} {says}") as refused:
            KafkaSettings(**scram)
        assert SECRET not in str(refused.value)


def test_a_settings_file_with_a_secret_is_for_its_owner_alone(
    scram: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("[kafka]\n" + "".join(f'{k} = "{v}"\n' for k, v in scram.items()))
    file.chmod(0o640)
    with pytest.raises(BadSettings, match=rf"sasl_password.*0640\): chmod 600 {file}") as refused:
        KafkaSettings(config_file=file)
    assert SECRET not in str(refused.value)
    file.chmod(0o600)
    assert login_options(KafkaSettings(config_file=file))["sasl_plain_password"] == SECRET
    file.write_text('[kafka]\nsasl_password_file = "/run/secrets/kafka"\n')  # none is in it
    file.chmod(0o644)
    with pytest.raises(BadSettings, match="cannot read sasl_password_file /run/secrets/kafka"):
        KafkaSettings(config_file=file)


def test_an_encrypted_key_without_its_password_asks_nobody(tmp_path: Path) -> None:
    """At a terminal, the library beneath would ask for it, and wait, where it is given none."""
    assert login_options(KafkaSettings(security_protocol="SSL"))["ssl_password"] is not None
    encrypted = tmp_path / "client.pem"
    encrypted.write_bytes(pem(trustme.CA().issue_cert("client.example"), SECRET.encode()))
    values = {"security_protocol": "SSL", "ssl_certfile": encrypted}
    with pytest.raises(BadSettings, match="if it is encrypted, is ssl_password its password"):
        KafkaSettings(**values)
    with pytest.raises(BadSettings) as refused:
        KafkaSettings(**values, ssl_password="another")
    assert "another" not in str(refused.value)
    assert KafkaSettings(**values, ssl_password=SECRET)
