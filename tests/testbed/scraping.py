"""Asking a worker on its metrics port."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever http_proxy says

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def asked(port: int, path: str) -> tuple[int, str]:
    """Status and text of an answer; status 0 where nobody answers yet."""
    try:
        with _DIRECT.open(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def scraped(port: int) -> Samples:
    families = text_string_to_metric_families(asked(port, "/metrics")[1])
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in families
        for sample in family.samples
    }


def value(samples: Samples, name: str, **labels: str) -> float:
    """One sample; 0 where there is none."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def lines(log: Path, *, ended: bool = True) -> list[dict[str, Any]]:
    """A log's lines, each of which must be JSON; unless it has ended, the last may be half one."""
    text = log.read_text()
    whole = text if ended else text.rpartition("\n")[0]
    return [json.loads(line) for line in whole.splitlines()]
