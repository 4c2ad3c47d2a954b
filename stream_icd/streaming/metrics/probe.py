"""The image's HEALTHCHECK: `python -m stream_icd.streaming.metrics.probe`.

Exit status 1 if the worker in this container says on /healthz that it hangs, or says nothing. A
program that serves no metrics is not asked.
"""

from __future__ import annotations

import sys
from http.client import HTTPConnection, HTTPException

PORT = 9464
"""The port that the documents and docker-compose.yml give to --metrics-port."""

_TIMEOUT_S = 5.0


def complaint(port: int = PORT) -> str | None:
    """Return why the worker that serves this port should be restarted; None if it should not."""
    connection = HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/healthz")
        answer = connection.getresponse()
        return None if answer.status == 200 else answer.read().decode()
    except ConnectionRefusedError:
        return None
    except (OSError, HTTPException) as error:
        return f"port {port} does not answer: {error}"
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(complaint())
