#!/usr/bin/env python3
"""check_export.py PROFILE URL TOKEN: exports records by the page of a SNAPT with more of them than a browser can take. The pages of
records are made here, the rest is the SNAPT's. The export ends at its limit, and says that there is more."""
import sys

from browser import Browser, BrowserError

AT_ONCE, MOST = 10000, 100000
# As many pages as are asked for; and what is saved.
HELPERS = """
window.asked = 0; window.saved = null;
const real = window.fetch;
window.fetch = async (path, options) => {
    const url = new URL(path, location.href);
    if (!url.pathname.endsWith("/v1/records")) { return real(path, options); }
    const records = Array.from({length: Number(url.searchParams.get("limit"))},
        (_, i) => ({snapt_id: "zrh-1", epoch: 1, seq: window.asked * 10000 + i}));
    ++window.asked;
    const next = window.most && window.asked >= window.most ? null : "zrh-1/1/" + window.asked;
    return new Response(JSON.stringify({records, next}), {headers: {"Content-Type": "application/json"}});
};
const make = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.saved = blob.text(); return make(blob); };
"""
LOADED = 'document.getElementById("message")?.textContent.startsWith("As of")'
MESSAGE = 'document.getElementById("message").textContent'
LINES = "window.saved.then((text) => text.trimEnd().split(/\\r\\n/).length)"


def faults(page):
    page.wait(LOADED)
    page.value('document.getElementById("export-records").click()')
    page.wait("window.saved !== null")
    if page.value("window.asked") != MOST // AT_ONCE:
        yield f"{page.value('window.asked')} pages were asked for"
    if page.value(LINES) != MOST + 1:
        yield f"{page.value(LINES)} lines"
    if not page.value(MESSAGE).startswith(f"The first {MOST} records only."):
        yield "it says: " + page.value(MESSAGE)
    page.value("window.asked = 0; window.most = 3; window.saved = null; document.getElementById('export-records').click()")
    page.wait("window.saved !== null")
    if page.value(LINES) != 3 * AT_ONCE + 1 or page.value(MESSAGE) != f"{3 * AT_ONCE} records.":
        yield f"of three pages: {page.value(LINES)} lines, {page.value(MESSAGE)}"


def main():
    profile, url, token = sys.argv[1:]
    try:
        with Browser(profile) as browser:
            found = list(faults(browser.open(f"{url}#token={token}", 800, HELPERS)))
    except BrowserError as error:
        found = [str(error)]
    print(*found, sep="\n")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
