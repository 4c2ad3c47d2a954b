"""The page as one file: modules become functions, one after the other, in the order of imports."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

from stream_icd.view.web.page_files import page_files

LIBRARY = "vendor/echarts-6.1.0.min.js"
MAIN = "main.js"

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const) (\w+))", re.MULTILINE)
_LINKS = re.compile(r"^<(?:link|script) .*(?:</script>)?\n", re.MULTILINE)


def one_file(kept: dict[str, Any], title: str) -> str:
    """Return the page with everything in it; it opens without a server and asks for nothing.

    Args:
        kept: answers to all questions that the page may ask (`kept_answers`).
        title: title of the window; it may be any text.
    """
    files = page_files()
    style = files["page.css"].content.decode()
    library = files[LIBRARY].content.decode()
    script = bundle()
    policy = (
        f"default-src 'none'; style-src '{_digest(style)}'; "
        f"script-src '{_digest(library)}' '{_digest(script)}'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode(files["icon.svg"].content).decode()
    head = (
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<link rel="icon" href="data:image/svg+xml;base64,{icon}">\n'
        f"<style>{style}</style>\n"
    )
    # `<` never appears in the answers, so no name can end the element that holds them.
    data = json.dumps(kept, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    tail = (
        f'<script type="application/json" id="kept">{data}</script>\n'
        f"<script>{library}</script>\n<script>{script}</script>\n"
    )
    page = _LINKS.sub("", files["index.html"].content.decode())
    page = page.replace("<title>stream_icd</title>\n", f"<title>{_escaped(title)}</title>\n{head}")
    return page.replace("</body>", f"{tail}</body>")


def bundle() -> str:
    """Return all modules of the page as one script."""
    done: dict[str, str] = {}
    _add(MAIN.removesuffix(".js"), done)
    return '"use strict";\n' + "".join(done.values())


def _add(module: str, done: dict[str, str]) -> None:
    """Add a module after those that it imports."""
    if module in done:
        return
    text = page_files()[f"{module}.js"].content.decode()
    for _, imported in _IMPORT.findall(text):
        _add(imported, done)
    exported = ", ".join(_EXPORT.findall(text))
    body = _EXPORT.sub("", _IMPORT.sub(r"const { \1 } = module_\2;", text))
    done[module] = f"const module_{module} = (() => {{\n{body}\nreturn {{ {exported} }};\n}})();\n"


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
