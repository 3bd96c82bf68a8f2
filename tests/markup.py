"""Whether HTML is well formed, and what it says."""

from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.text = ""  # all of it
        self.texts: list[str] = []  # piece by piece
        self.titles: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.titles += [value for name, value in attrs if name == "title"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"</{tag}> closes something else"

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data
            self.texts += [data.strip()] if data.strip() else []


def read(html: str) -> _Reader:
    """``html`` read; fails unless every tag is closed where it belongs."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open, f"never closed: {reader.open}"
    assert "<script" not in html and "http" not in html  # nothing to run, nothing to fetch
    return reader


def texts(html: str) -> list[str]:
    return read(html).texts
