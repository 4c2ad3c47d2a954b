"""Remember why the client's connections failed.

The client (3.0.12) retries after any failure, writes the reason only to its log, and finally
reports that it was "unable to bootstrap". Here, a refusal that no retry can change ends the first
connection at once, as in Kafka's own clients. Any other reason is reported when connecting ends.
"""

from __future__ import annotations

import logging
import ssl
from typing import Any

from kafka import errors as client
from kafka.net.compat import KafkaNetClient
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslBytesRequest

from stream_icd.errors import BadSettings, BrokerUnavailable
from stream_icd.kafka.client.translate import translate
from stream_icd.kafka.settings import KafkaSettings
from stream_icd.kafka.somebody import nobody_listens

_LOGIN_REFUSED = (
    client.SaslAuthenticationFailedError,
    client.UnsupportedSaslMechanismError,
    client.IllegalSaslStateError,
)

_LOGINS = (SaslAuthenticateRequest, SaslBytesRequest, bytes, bytearray, memoryview)


class _Manager(KafkaConnectionManager):  # type: ignore[misc]
    """Remembers the last failure; a final failure stops the first connection.

    Later it always retries: a refusal, such as of a changed password, may be fixed again.
    """

    def __init__(self, net: Any, **config: Any) -> None:
        self.failure: Exception | None = None
        self._was_connected = False
        super().__init__(net, **config)

    def get_connection(self, *arguments: Any, **options: Any) -> Any:
        self._was_connected = self._was_connected or self.bootstrapped
        if not self._was_connected and self.failure is not None and _is_final(self.failure):
            raise self.failure
        return super().get_connection(*arguments, **options)

    async def _build_transport(self, *arguments: Any, **options: Any) -> Any:
        """Read data that arrived before the broker closed the connection, such as the reason."""
        transport = await super()._build_transport(*arguments, **options)
        receive = transport._sock_recv

        def receive_first() -> tuple[bytes, Exception | None]:
            received, error = receive()
            return received, None if received else error  # the next call finds the error again

        transport._sock_recv = receive_first
        return transport

    async def _connect(self, node: Any, connection: Any, **options: Any) -> None:
        """Note the reason even if the connection has ended before the reason is known."""
        close = connection.close

        def note_and_close(error: Exception | None = None) -> None:
            self._note(error)
            close(error)

        connection.close = note_and_close
        connection.close_future.add_errback(self._note)
        await super()._connect(node, connection, **options)

    def _note(self, failure: Exception | None) -> None:
        if failure is not None and not (self.failure and _is_final(self.failure)):
            self.failure = failure


class Network(KafkaNetClient):  # type: ignore[misc]
    def __init__(self, **config: Any) -> None:
        for name in ("kafka.net.connection", "kafka.protocol.parser"):
            logging.getLogger(name).addFilter(_hide_logins)
        for name in ("kafka.cluster", "kafka.net.selector"):
            logging.getLogger(name).addFilter(_hide_noise)
        net = NetworkSelector(**config)
        super().__init__(net, _Manager(net, **config), **config)

    @property
    def failure(self) -> Exception | None:
        """Why the last connection failed; None if none did."""
        return self._manager.failure  # type: ignore[no-any-return]


def last_failure(consumer: Any) -> Exception | None:
    network: Network = consumer._client
    return network.failure


def _hide_logins(record: logging.LogRecord) -> bool:
    """Keep the client's login requests, and the bytes that it sends, out of the log.

    The client logs both at DEBUG, and with PLAIN they contain the password in clear text.
    """
    arguments = record.args if isinstance(record.args, tuple) else ()
    return not any(isinstance(argument, _LOGINS) for argument in arguments)


def _hide_noise(record: logging.LogRecord) -> bool:
    """Drop the error of a client that is closed while it asks for metadata, and the warning that
    its thread did not run for a tenth of a second, as on a busy machine."""
    said = record.getMessage()
    return not (said == "Metadata refresh: failed Cancelled" or "blocking the event loop" in said)


def not_connected(
    settings: KafkaSettings, error: Exception, failure: Exception | None
) -> Exception:
    """What to raise if a client raised `error`, and its last connection failed for `failure`."""
    servers = settings.bootstrap_servers
    if failure is not None and _is_final(failure):
        return BadSettings(f"{servers}: {_meaning(failure, settings)}")
    meant = translate(error, f"connect to {servers} within {settings.connect_timeout_s:g} s")
    if failure is None or not isinstance(meant, BrokerUnavailable):
        return meant
    if "ECONNREFUSED" in str(failure):
        return nobody_listens(settings)
    lacking = {"PLAINTEXT": "TLS or a login", "SASL_PLAINTEXT": "TLS", "SSL": "a login"}
    protocol = settings.security_protocol
    hint = ""
    if protocol in lacking:
        hint = (
            f" (security_protocol is {protocol}: a broker that wants {lacking[protocol]} hangs up "
            "without a word)"
        )
    return BrokerUnavailable(f"{meant}; at the last try: {failure}{hint}")


def _meaning(failure: Exception, settings: KafkaSettings) -> str:
    tls = _tls_error(failure)
    if isinstance(tls, ssl.SSLCertVerificationError):
        authority = settings.ssl_cafile or "what the system trusts"
        return (
            f"its certificate is not trusted: {tls.verify_message}; ssl_cafile ({authority}) "
            "must hold the authority that signed it, and bootstrap_servers a name that it is for"
        )
    if tls is not None:
        return (
            f"no TLS with it: {tls.reason or tls}; check security_protocol "
            f"({settings.security_protocol}), and ssl_certfile where it asks for a certificate"
        )
    return (
        f"it refused the login of {settings.sasl_username} by {settings.sasl_mechanism}: "
        f"{failure}; check sasl_username, sasl_password and sasl_mechanism"
    )


def _is_final(failure: Exception) -> bool:
    """Whether a retry will fail in the same way, because the failure does not depend on time."""
    tls = _tls_error(failure)
    hung_up = isinstance(tls, ssl.SSLEOFError | ssl.SSLZeroReturnError | ssl.SSLSyscallError)
    return isinstance(failure, _LOGIN_REFUSED) or (tls is not None and not hung_up)


def _tls_error(failure: Exception) -> ssl.SSLError | None:
    """The TLS error inside the client's error, as its cause or as its argument."""
    for one in (failure.__context__, *failure.args):
        if isinstance(one, ssl.SSLError):
            return one
    return None
