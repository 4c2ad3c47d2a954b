"""Apache Kafka that lets nobody in without TLS and a password, nor do what no ACL allows.

Certificates and passwords are made anew for each node. Clients come by SASL_SSL and SCRAM-SHA-512;
a second listener takes client certificates instead of passwords (mTLS).
"""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from stream_icd.kafka.client.connections import open_admin
from stream_icd.kafka.settings import KafkaSettings
from tests.testbed.brokers import (
    Broker,
    KafkaNode,
    free_ports,
    kafka_classpath,
    node_properties,
    wait_until,
)

ADMIN = "admin"
USERS = (
    *("creator", "producer", "detector", "tracker", "archivist", "scribe", "alerter"),
    *("subscriber", "retrier", "worker", "operator", "viewer", "stranger"),
)
CERTIFIED = "certified"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
RESOURCES = {
    "Any": ResourceType.ANY,
    "Topic": ResourceType.TOPIC,
    "Group": ResourceType.GROUP,
    "TransactionalId": ResourceType.TRANSACTIONAL_ID,
}

Right = tuple[str, str, str]
"""(kind of resource, its name, operation), as the table in docs/security.md has them."""


@dataclass(frozen=True)
class SecureKafka:
    """The node, the passwords of its users, and the files that a client needs."""

    node: KafkaNode
    mtls_servers: str
    passwords: dict[str, str]
    ca: Path
    other_ca: Path
    client_certificate: Path

    @property
    def broker(self) -> Broker:
        return Broker("kafka", self.node.bootstrap_servers, self.node.pid, self.node)

    def environment(self, user: str) -> dict[str, str]:
        """The environment variables with which a program of ours comes in as `user`."""
        chosen = {"bootstrap_servers": self.node.bootstrap_servers}
        chosen |= _login(self.ca, user, self.passwords)
        return {f"STREAM_ICD_{name.upper()}": str(value) for name, value in chosen.items()}

    def settings(self, user: str = ADMIN, **overrides: Any) -> KafkaSettings:
        return self.broker.settings(**_login(self.ca, user, self.passwords) | overrides)

    def grant(self, user: str, rights: Iterable[Right]) -> None:
        """Allow `user` these operations; a name that ends with `*` is a prefix."""
        acls = [_acl(user, *right) for right in rights]
        with open_admin(self.settings()) as admin:
            refused = admin.create_acls(acls)["failed"]
            assert not refused, refused
            wait_until(lambda: all(acl in admin.describe_acls(_of(user))[0] for acl in acls))

    def revoke(self, user: str, kind: str = "Any", name: str | None = None) -> None:
        """Take from `user` what it may do with this; by default, all that it may do."""
        rights = _of(user, RESOURCES[kind], name)
        with open_admin(self.settings()) as admin:
            admin.delete_acls([rights])
            wait_until(lambda: not admin.describe_acls(rights)[0])

    def change_password(self, user: str, password: str) -> None:
        """Give `user` another password; who is logged in stays so until the connection ends."""
        change = UserScramCredentialUpsertion(user, ScramMechanism.SCRAM_SHA_512, password)
        with open_admin(self.settings()) as admin:
            refused = admin.alter_user_scram_credentials([change])
        assert refused == {user: None}, refused


@contextmanager
def secure_kafka() -> Iterator[SecureKafka]:
    """Such a node for the length of the block.

    Raises:
        NoKafka: it cannot be had here.
    """
    classpath = kafka_classpath()
    with tempfile.TemporaryDirectory(prefix="stream-icd-secure-kafka-") as name:
        folder = Path(name)
        ca, other_ca = trustme.CA(), trustme.CA()
        ca.cert_pem.write_to_path(folder / "ca.pem")
        other_ca.cert_pem.write_to_path(folder / "other-ca.pem")
        (folder / "server.pem").write_bytes(pem(ca.issue_cert("127.0.0.1")))
        client = ca.issue_cert("client.example", common_name=CERTIFIED)
        (folder / "client.pem").write_bytes(pem(client))
        passwords = {user: f"secret-{uuid.uuid4().hex}" for user in (ADMIN, *USERS)}
        mtls_port, *ports = free_ports(3)
        secure = _secure_properties(folder, passwords, mtls_port, *ports)
        let_in = _login(folder / "ca.pem", ADMIN, passwords)
        node = KafkaNode(classpath, folder, node_properties({}) | secure, let_in=let_in)
        node.format(*_scram_users(passwords))
        node.start()
        try:
            files = (folder / name for name in ("ca.pem", "other-ca.pem", "client.pem"))
            yield SecureKafka(node, f"127.0.0.1:{mtls_port}", passwords, *files)
        finally:
            node.stop()


def pem(certificate: trustme.LeafCert, password: bytes | None = None) -> bytes:
    """Key and chain in one; the key in PKCS8, the only form that Kafka reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    encryption = NoEncryption() if password is None else BestAvailableEncryption(password)
    written = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
    return written + b"".join(blob.bytes() for blob in certificate.cert_chain_pems)


def _login(ca: Path, user: str, passwords: dict[str, str]) -> dict[str, Any]:
    return {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_username": user,
        "sasl_password": passwords[user],
    }


def _secure_properties(
    folder: Path, passwords: dict[str, str], mtls_port: int, port: int, controller_port: int
) -> dict[str, str]:
    listeners = f"CLIENTS://127.0.0.1:{port},MTLS://127.0.0.1:{mtls_port}"
    controller = f"127.0.0.1:{controller_port}"
    admin = f'username="{ADMIN}" password="{passwords[ADMIN]}"'
    plain_users = " ".join(f'user_{name}="{word}"' for name, word in passwords.items())
    return {
        "controller.quorum.bootstrap.servers": controller,
        "listeners": f"{listeners},CONTROLLER://{controller}",
        "advertised.listeners": f"{listeners},CONTROLLER://{controller}",
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,MTLS:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
        "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required {admin};",
        "listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {plain_users};",
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.mtls.ssl.principal.mapping.rules": "RULE:.*CN=([^,]+).*/$1/,DEFAULT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        # The node's own controller, on a listener of its own, knows no names.
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
    }


def _scram_users(passwords: dict[str, str]) -> Iterator[str]:
    for user, password in passwords.items():
        yield "--add-scram"
        yield f"SCRAM-SHA-512=[name={user},password={password}]"


def _of(user: str, kind: ResourceType = ResourceType.ANY, name: str | None = None) -> ACLFilter:
    """What `user` may do with resources of this kind and name; by default, with all."""
    pattern = ResourcePatternFilter(kind, name, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user}", "*", ACLOperation.ANY, ACLPermissionType.ANY, pattern)


def _acl(user: str, kind: str, name: str, operation: str) -> ACL:
    types = ACLResourcePatternType
    pattern = types.PREFIXED if name.endswith("*") else types.LITERAL
    resource = ResourcePattern(RESOURCES[kind], name.rstrip("*"), pattern)
    allowed = ACLOperation[operation.upper()]
    return ACL(f"User:{user}", "*", allowed, ACLPermissionType.ALLOW, resource)
