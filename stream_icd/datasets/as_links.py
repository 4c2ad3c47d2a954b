"""Read links between autonomous systems (AS) from the published text formats.

| form | a line | where |
| --- | --- | --- |
| pairs | `701<tab>1239`, or with a third column | SNAP as-733, oregon and as-caida |
| relationships | `701|1239|-1`, or with a fourth column | CAIDA as-rel, serial 1 and 2 |
| routes | `TABLE_DUMP2|1199145600|B|…|701 1239 7018|…` | a routing table: `bgpdump -m` |

Lines that begin with `#` are comments.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv

from stream_icd.errors import BadRow, BadSettings
from stream_icd.sources.source import OnBadRow

ROUTE_KINDS = (b"TABLE_DUMP|", b"TABLE_DUMP2|", b"BGP4MP|", b"BGP4MP_ET|")
PATH_FIELD = 6
# AS numbers have 32 bits (RFC 6793): at most ten digits.
AS_NUMBER = r"^[0-9]{1,10}$"
PAIRS = pa.schema({"src": pa.int64(), "dst": pa.int64()})


def read_links(file: IO[bytes], name: str, on_bad_row: OnBadRow) -> pa.Table:
    """Read the links of one file in any of the formats, as columns `src` and `dst`.

    The result may contain both directions, repeats and self loops; `snapshot_from_pairs` handles
    them.

    Raises:
        BadSettings: the file is binary, such as a routing table not yet converted to text.

    >>> import io
    >>> from stream_icd.sources.source import stop_at_bad_row
    >>> read_links(io.BytesIO(b"# comment\\n1\\t2\\n2\\t1\\n"), "day", stop_at_bad_row).to_pydict()
    {'src': [1, 2], 'dst': [2, 1]}
    """
    first = next((line for line in file if line.strip() and not line.startswith(b"#")), b"")
    if b"\0" in first:
        raise BadSettings(f"{name} is binary; turn routing tables into text with bgpdump -m")
    if first.startswith(ROUTE_KINDS):
        return _links_of_routes(chain([first], file), name, on_bad_row)
    delimiter = "|" if b"|" in first else "\t" if b"\t" in first else " "
    return _links_of_pairs(first + file.read(), delimiter, name, on_bad_row)


def _links_of_pairs(content: bytes, delimiter: str, name: str, on_bad_row: OnBadRow) -> pa.Table:
    invalid: list[str] = []

    # What is raised in here gets lost, so the rows are reported after reading.
    def skip(row: csv.InvalidRow) -> str:
        invalid.append(row.text)
        return "skip"

    if not content.strip():
        return PAIRS.empty_table()
    n_columns = content.split(b"\n", 1)[0].count(delimiter.encode()) + 1
    columns = ["src", "dst", *(f"more{i}" for i in range(2, n_columns))]
    text = csv.read_csv(
        pa.BufferReader(content),
        csv.ReadOptions(column_names=columns, use_threads=False),
        # An unmatched quote would consume the lines up to the next quote; bytes may not be UTF-8.
        csv.ParseOptions(delimiter=delimiter, quote_char=False, invalid_row_handler=skip),
        csv.ConvertOptions(
            column_types={"src": pa.binary(), "dst": pa.binary()}, include_columns=["src", "dst"]
        ),
    )
    for line in invalid:
        if not line.startswith("#"):
            on_bad_row(BadRow(f"{name}: {line!r:.80} is not a pair of AS numbers"))
    src, dst = (pc.match_substring_regex(text[end], AS_NUMBER) for end in ("src", "dst"))
    good = pc.and_(src, dst)
    for row in text.filter(pc.invert(good)).to_pylist():
        if not row["src"].startswith(b"#"):
            on_bad_row(BadRow(f"{name}: {row['src']!r:.40}, {row['dst']!r:.40} are not AS numbers"))
    return text.filter(good).cast(pa.schema({"src": pa.string(), "dst": pa.string()})).cast(PAIRS)


def _links_of_routes(lines: Iterable[bytes], name: str, on_bad_row: OnBadRow) -> pa.Table:
    """Return the links between neighbours on AS paths; parse each distinct path once."""
    links: set[tuple[int, int]] = set()
    for path in set(_paths(lines, name, on_bad_row)):
        try:
            links.update(links_of_path(path.decode()))
        except ValueError:
            on_bad_row(BadRow(f"{name}: {path!r:.80} is not an AS path"))
    ends = np.array(sorted(links), np.int64).reshape(-1, 2)
    return pa.table([ends[:, 0], ends[:, 1]], schema=PAIRS)


def _paths(lines: Iterable[bytes], name: str, on_bad_row: OnBadRow) -> Iterator[bytes]:
    for line in lines:
        fields = line.split(b"|", PATH_FIELD + 1)
        if len(fields) > PATH_FIELD + 1:
            yield fields[PATH_FIELD]
            continue
        # In a file of updates, a withdrawal or a session state says nothing of links.
        says_nothing = line.startswith(b"#") or fields[2:3] in ([b"W"], [b"STATE"])
        if line.strip() and not says_nothing:
            on_bad_row(BadRow(f"{name}: {line!r:.80} is not a route of bgpdump -m"))


def links_of_path(path: str) -> Iterator[tuple[int, int]]:
    """Yield the neighbours on an AS path, lower number first; each once, without prepending.

    A set of ASes (`{…}`, from aggregation) or a confederation (`(…)`) has no order, so no link
    goes into it, out of it or across it.

    Raises:
        ValueError: an element of the path is not an AS number.

    >>> list(links_of_path("701 1239 1239 7018 {64500,64501} 3356 2914"))
    [(701, 1239), (1239, 7018), (2914, 3356)]
    """
    hops = [None if hop[0] in "{([" else _as_number(hop) for hop in path.split()]
    for one, other in pairwise(hops):
        if one is not None and other is not None and one != other:
            yield min(one, other), max(one, other)


def _as_number(text: str) -> int:
    if not re.fullmatch(AS_NUMBER, text):
        raise ValueError(text)
    return int(text)
