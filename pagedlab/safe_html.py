"""HTML with nothing in it that could run or fetch, of what a notebook's cells say and show.

Its words may come from a file or from a user: they are shown, and never obeyed.
"""

from __future__ import annotations

import html
import json
import re
from typing import Any

_TAGS = (
    *("a", "b", "bdi", "blockquote", "br", "caption", "code", "dd", "del", "details", "div", "dl", "dt"),
    *("em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "li", "ol", "p", "pre", "s", "small", "span"),
    *("strong", "sub", "summary", "sup", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
)
_ATTRIBUTES = {
    "*": ["class", "id", "title", "role", "aria-label", "style"],
    "a": ["href"],
    "details": ["open"],
    "th": ["scope", "colspan", "rowspan"],
    "td": ["colspan", "rowspan"],
}
_STYLES = ("text-align", "vertical-align", "white-space", "margin", "font-weight")


def markdown(source: str) -> str:
    """Markdown as HTML with nothing in it that could run or fetch; links to lessons lead to their pages."""
    from nbconvert.filters.markdown_mistune import markdown2html_mistune

    made = re.sub(r'<a class="anchor-link".*?</a>', "", markdown2html_mistune(source))
    return cleaned(made).replace(".ipynb", ".html")


def highlighted(source: str, language: str = "python", **options: Any) -> str:
    """Code in colours, which scrolls by keyboard; `options` are those of Pygments' formatter."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name

    formatter = HtmlFormatter(cssclass="code", wrapcode=True, **options)
    made: str = highlight(source, get_lexer_by_name(language), formatter)
    return made.replace("<pre>", '<pre tabindex="0">', 1)


def code_style() -> str:
    """The colours of highlighted code in both themes."""
    from pygments.formatters import HtmlFormatter

    def of(theme: str, style: str) -> str:
        return f"[data-theme={theme}] {{ {HtmlFormatter(style=style).get_style_defs('.code')} }}"

    return of("light", "xcode") + of("dark", "github-dark")


def cleaned(text: str) -> str:
    """HTML with nothing in it that could run or fetch; of what it strips, the words stay, styles apart."""
    import bleach
    from bleach.css_sanitizer import CSSSanitizer

    text = re.sub(r"<style\b.*?</style\s*>", "", text, flags=re.DOTALL | re.IGNORECASE)
    styles = CSSSanitizer(allowed_css_properties=_STYLES)
    made: str = bleach.clean(text, _TAGS, _ATTRIBUTES, css_sanitizer=styles, strip=True)
    return made


def preformatted(text: str) -> str:
    """What a terminal would show, without its colours."""
    from nbconvert.filters import strip_ansi

    shown = html.escape(strip_ansi(text)).rstrip()
    return f'<pre class="plain" tabindex="0">{shown}</pre>' if shown else ""


def picture(kind: str, data: str, words: str) -> str:
    """An image of that type, SVG's text or base64, inside the page; `words` say what it shows."""
    import base64

    encoded = base64.b64encode(data.encode()).decode() if kind == "image/svg+xml" else data.replace("\n", "")
    return f'<img alt="{html.escape(words)}" src="data:{kind};base64,{encoded}">'


def json_inside(value: Any) -> str:
    """JSON that cannot end the element that it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def inside(text: str) -> str:
    """A script or a style sheet that cannot end its element: there `</` stands in strings alone."""
    return text.replace("</s", "<\\/s")
