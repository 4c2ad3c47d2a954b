"""Write the chart's README.md from its values.yaml: `python deploy/helm/readme.py`.

The form of values.yaml is that of helm-docs: a comment `# -- …` describes the value below it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "stream-icd"
DESCRIPTION = re.compile(
    r"^(?P<indent> *)# -- (?P<text>.+)\n(?P=indent)(?P<name>\w+):", re.MULTILINE
)
PARENT = re.compile(r"^(?P<indent> *)(?P<name>\w+):", re.MULTILINE)

HEAD = """# stream-icd

{description}

```sh
helm install icd deploy/helm/stream-icd --namespace icd --create-namespace \\
  --set image.repository=registry.example/stream-icd --set kafka.bootstrapServers=kafka-1:9092
helm test icd --namespace icd   # sends a snapshot, and waits for its communities
```

[deploy.md](../../../docs/deploy.md) says what the chart makes, and what an upgrade does.
This page is made from `values.yaml`.

Chart {version}, image {app}, Kubernetes {kubernetes}.

## Values

| key | default | description |
|---|---|---|
"""


def described(text: str) -> Iterator[tuple[str, str]]:
    """Yield the path of each value with a description, and the description."""
    path: list[tuple[int, str]] = []
    texts = {found.start("name"): found["text"] for found in DESCRIPTION.finditer(text)}
    for key in PARENT.finditer(text):
        indent = len(key["indent"])
        path = [*(one for one in path if one[0] < indent), (indent, key["name"])]
        if key.start("name") in texts:
            yield ".".join(name for _, name in path), texts[key.start("name")]


def at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values[name]
    return values


def readme() -> str:
    """Return the whole page."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    values = yaml.safe_load(text)
    rows = [
        f"| `{path}` | `{json.dumps(at(values, path))}` | {description} |"
        for path, description in described(text)
    ]
    head = HEAD.format(
        description=chart["description"],
        version=chart["version"],
        app=chart["appVersion"],
        kubernetes=chart["kubeVersion"].removesuffix("-0").replace(">=", "") + " or later",
    )
    return head + "\n".join(rows) + "\n"


if __name__ == "__main__":
    (CHART / "README.md").write_text(readme(), encoding="utf-8")
