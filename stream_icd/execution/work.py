"""The contract of what is run: work on jobs, each with its limits."""

from __future__ import annotations

from typing import Protocol, TypeVar

from stream_icd.execution.budget import MessageAllowance
from stream_icd.execution.relay import Relay
from stream_icd.registry.shipped import VersionedModel

J = TypeVar("J", contravariant=True)
O = TypeVar("O", covariant=True)  # noqa: E741


class Settings(Protocol):
    """The settings that an engine uses."""

    @property
    def threads(self) -> int:
        """Cores that one job may use."""
        ...


class Work(Protocol[J, O]):
    """Processes jobs; each process creates its own, from a model and settings."""

    @property
    def model(self) -> VersionedModel: ...

    @property
    def settings(self) -> Settings: ...

    def __call__(self, job: J, relay: Relay = ..., /) -> O:
        """Return the outcome of a job.

        Args:
            relay: connects the job to its chain; given only if it belongs to one.
        """
        ...

    def chain(self, job: J, /) -> str | None:
        """Return the chain that the job belongs to; None if it depends on no other job."""
        ...

    def name(self, job: J, /) -> str:
        """Return the job's name for error messages."""
        ...

    def allowance(self, job: J, /) -> MessageAllowance:
        """Return the resource limits for the job."""
        ...

    def instead(self, baton: bytes, /) -> bytes:
        """Return what a job takes instead of a baton that it cannot work with."""
        ...

    def warm_up(self) -> None:
        """Make the first job as fast as later ones."""
        ...
