#!/usr/bin/env python3
"""check_page.py DOM CSS: looks at a page as a browser has it (chromium --dump-dom) and its style: names of controls,
labels of charts and tables, the order of headings, ids that are there once, and the contrast of the colours in light and
dark (WCAG 2.2: 4.5 to 1 for text, 3 to 1 for what is drawn). Each fault is a line, and fails."""
import html.parser
import re
import sys

VOID = {"meta", "link", "input", "br", "hr", "img"}
TEXT_COLOURS = ("ink", "soft", "link")
DRAWN_COLOURS = ("lt-ld", "ht-ld", "lt-hd", "ht-hd", "other")


class Node:
    def __init__(self, tag, attributes, parent):
        self.tag, self.attributes, self.parent = tag, dict(attributes), parent
        self.children, self.text = [], ""

    def all(self):
        yield self
        for child in self.children:
            yield from child.all()

    def words(self):
        return (self.text + " ".join(child.words() for child in self.children)).strip()

    def is_hidden(self):
        return "hidden" in self.attributes or (self.parent is not None and self.parent.is_hidden())


class Tree(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.root = self.at = Node("", [], None)
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        node = Node(tag, attrs, self.at)
        self.at.children.append(node)
        if tag not in VOID:
            self.at = node

    def handle_startendtag(self, tag, attrs):
        self.at.children.append(Node(tag, attrs, self.at))

    def handle_endtag(self, tag):
        node = self.at
        while node.parent is not None and node.tag != tag:
            node = node.parent
        self.at = node.parent or self.at

    def handle_data(self, data):
        self.at.text += data


def markup_faults(root):
    nodes = list(root.all())
    ids = [node.attributes["id"] for node in nodes if "id" in node.attributes]
    labels = {node.attributes.get("for") for node in nodes if node.tag == "label" and node.words()}
    for one in sorted({one for one in ids if ids.count(one) > 1}):
        yield f"id {one} is there {ids.count(one)} times"
    if not any(node.tag == "html" and node.attributes.get("lang") for node in nodes):
        yield "the page has no language"
    if not any(node.tag == "title" and node.words() for node in nodes):
        yield "the page has no title"
    level = 0
    for node in nodes:
        where = f"<{node.tag} {' '.join(f'{k}={v}' for k, v in node.attributes.items())}>"
        attributes = node.attributes
        if re.fullmatch(r"h[1-6]", node.tag) and not node.is_hidden():
            if int(node.tag[1]) > level + 1:
                yield f"{where}: heading of level {node.tag[1]} below level {level}"
            level = int(node.tag[1])
        if node.tag in ("input", "select") and attributes.get("id") not in labels and "aria-label" not in attributes:
            yield f"{where}: no label"
        if node.tag in ("button", "summary", "a") and not node.words() and "aria-label" not in attributes:
            yield f"{where}: no name"
        if node.tag == "svg" and (attributes.get("role") != "img" or not attributes.get("aria-label")):
            yield f"{where}: a picture without a name"
        if node.tag == "table" and not any(child.tag == "caption" and child.words() for child in node.children):
            yield f"{where}: a table without a caption"
        if node.tag == "th" and "scope" not in attributes:
            yield f"{where}: a header of nothing"
        for name in ("aria-labelledby", "aria-describedby"):
            if name in attributes and attributes[name] not in ids:
                yield f"{where}: {name} names nothing"
        if "style" in attributes or any(name.startswith("on") for name in attributes):
            yield f"{where}: style or script in the markup"
        for name in ("src", "href"):
            if re.match(r"(https?:)?//", attributes.get(name, "")):
                yield f"{where}: from elsewhere"


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def colour_faults(css):
    themes = [dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{6})", block)) for block in re.findall(r":root\s*\{([^}]*)\}", css)]
    if len(themes) != 2:
        yield f"{len(themes)} sets of colours instead of light and dark"
    for name, theme in zip(("light", "dark"), themes):
        for ground in ("ground", "panel"):
            for colour in TEXT_COLOURS:
                if contrast(theme[colour], theme[ground]) < 4.5:
                    yield f"{name}: {colour} on {ground} has {contrast(theme[colour], theme[ground]):.1f} to 1"
        for colour in DRAWN_COLOURS:
            if contrast(theme[colour], theme["ground"]) < 3:
                yield f"{name}: {colour} has {contrast(theme[colour], theme['ground']):.1f} to 1"


def main():
    with open(sys.argv[1], encoding="utf-8") as dom, open(sys.argv[2], encoding="utf-8") as css:
        faults = [*markup_faults(Tree(dom.read()).root), *colour_faults(css.read())]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
