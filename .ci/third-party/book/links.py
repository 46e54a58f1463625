"""Checks the links of a built book: every relative one leads to a file of the book, and to a place in it.

usage: links.py FOLDER
"""

import html.parser
import pathlib
import sys
import urllib.parse

root = pathlib.Path(sys.argv[1]).resolve()


class Page(html.parser.HTMLParser):
    """The links of a page, and the places that links can lead to."""

    def __init__(self, path):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name"):
                self.places.add(value)
            if name in ("href", "src", "srcset") and value:
                self.links.append(value)


# Pages that mdBook makes itself: all pages on one, and the one for addresses that do not exist.
OWN = {"print.html", "404.html", "toc.html"}
pages = {path: Page(path) for path in root.rglob("*.html") if path.name not in OWN}
checked, broken = 0, []
for path, page in pages.items():
    for link in page.links:
        address = urllib.parse.urlsplit(link)
        if address.scheme or address.netloc:
            continue
        checked += 1
        target = (path.parent / urllib.parse.unquote(address.path)).resolve() if address.path else path
        place = urllib.parse.unquote(address.fragment)
        if not target.is_relative_to(root) or not target.exists():
            broken.append(f"{path.name}: {link} does not exist")
        elif place and target in pages and place not in pages[target].places:
            broken.append(f"{path.name}: {link}: there is no such place")
print("\n".join(broken))
print(f"book: {len(pages)} pages, {checked} links, {len(broken)} broken")
sys.exit(1 if broken or not checked else 0)
