#!/usr/bin/env python3
"""check_keyboard.py PROFILE URL TOKEN: uses the page in a browser of a phone's width without a mouse. URL is the page without a
token. What is asked: nothing is wider than the screen; Tab reaches every control that is there, in the order of the page, and
Shift+Tab leads back; the one that has the focus shows it and is in view; a screen reader hears a name of each; log-in, link to the
figures, tables and periods work by keys, and the focus is not lost when figures are renewed. Each fault is a line, and fails."""
import sys

from browser import Browser, BrowserError

WIDTHS = (360, 320)  # a small phone; WCAG 2.2, 1.4.10 (reflow)
MOST_STEPS = 60

# Names of all that can have the focus and is shown, in the order of the page, and of what has it.
HELPERS = """
window.nameOf = (node) => node === document.body || !node ? "" : node.tagName.toLowerCase() + (node.id ? "#" + node.id : "") +
    (node.id ? "" : " " + (node.getAttribute("aria-label") || node.textContent).trim().slice(0, 40) + " @" +
    [...document.querySelectorAll("*")].indexOf(node));
window.controls = () => [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")]
    .filter((node) => !node.disabled && node.tabIndex >= 0 && node.checkVisibility({checkVisibilityCSS: true})).map(nameOf);
window.focusFault = () => {
    const node = document.activeElement, style = getComputedStyle(node), place = node.getBoundingClientRect();
    if (!node.matches(":focus-visible") || style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2) {
        return "does not show that it has the focus";
    }
    const shows = place.width > 0 && place.height > 0 && place.bottom > 0 && place.top < innerHeight && place.right > 0 &&
        place.left < innerWidth;
    return shows ? "" : "is out of view when it has the focus";
};
window.tooWide = () => document.documentElement.scrollWidth <= innerWidth ? "" :
    [...document.querySelectorAll("body *")].filter((node) => node.getBoundingClientRect().right > innerWidth + 1 &&
    !node.closest(".scroll")).map(nameOf).slice(0, 5).join("; ") || "something";
"""
LOADED = 'document.getElementById("message")?.textContent.startsWith("As of")'
READY = f'document.getElementById("login")?.hidden === false || {LOADED}'
FOCUS = "nameOf(document.activeElement)"
FROM_THE_TOP = """(() => { document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute("tabindex");
    scrollTo(0, 0); })()"""  # else Tab goes on from where the focus was
CONTROL_ROLES = {"button", "link", "textbox", "combobox", "checkbox", "DisclosureTriangle", "region", "img", "table"}


def width_faults(page, where):
    for width in WIDTHS:
        page.call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=True)
        page.wait(READY)
        wide = page.value("tooWide()")
        if wide:
            yield f"{where}: wider than a screen of {width} pixels: {page.value('document.documentElement.scrollWidth')}, by {wide}"


def walk(page, shift=False):
    """What Tab leads to, from the beginning of the page until it leaves it."""
    steps = []
    for _ in range(MOST_STEPS):
        page.tab(shift)
        name = page.value(FOCUS)
        if not name or name in [step[0] for step in steps]:
            break
        steps.append((name, page.value("focusFault()")))
    return steps


def tab_faults(page, where):
    page.value(FROM_THE_TOP)
    wanted = page.value("controls()")
    if not wanted:
        yield f"{where}: no control"
    steps = walk(page)
    found = [name for name, _ in steps]
    for name in wanted:
        if name not in found:
            yield f"{where}: Tab does not reach {name}"
    if [name for name in found if name in wanted] != [name for name in wanted if name in found]:
        yield f"{where}: Tab goes another way than the page: {found}"
    for name, fault in steps:
        if fault:
            yield f"{where}: {name} {fault}"
    if sorted(name for name, _ in walk(page, shift=True)) != sorted(found):
        yield f"{where}: Shift+Tab leads elsewhere"


def name_faults(page, where):
    for node in page.call("Accessibility.getFullAXTree")["nodes"]:
        role = node.get("role", {}).get("value")
        name = node.get("name", {}).get("value", "").strip()
        if not node.get("ignored") and role in CONTROL_ROLES and not name:
            yield f"{where}: a screen reader hears no name of a {role}"


def all_faults(page, where):
    yield from width_faults(page, where)
    yield from tab_faults(page, where)
    yield from name_faults(page, where)


def key_faults(page, token):
    page.wait('document.getElementById("login")?.hidden === false')
    if page.value(FOCUS) != "input#token":
        yield f"log-in: the focus is not in the field, but at {page.value(FOCUS)!r}"
    yield from all_faults(page, "log-in")
    page.value('document.getElementById("token").focus()')
    page.type(token)
    page.enter()
    page.wait(LOADED)
    if page.value(FOCUS) != "main#main":
        yield f"after the log-in the focus is not at the figures, but at {page.value(FOCUS)!r}"
    yield from all_faults(page, "figures")

    page.value("window.isKept = true")
    page.value(FROM_THE_TOP)
    page.tab()
    page.enter()
    if page.value(FOCUS) != "main#main":
        yield f"the link to the figures leads to {page.value(FOCUS)!r}"
    page.wait('document.querySelector("#days summary") !== null')
    if not page.value("window.isKept"):
        yield "the link to the figures loads the page again"
    page.value('document.querySelector("#days summary").focus()')
    page.enter()
    if not page.value('document.querySelector("#days details").open'):
        yield "Enter does not open a table"
    yield from all_faults(page, "with a table")
    page.wait('document.querySelector("#sessions .scroll")?.checkVisibility()')
    page.value('document.querySelector("#sessions .scroll").focus(), document.querySelector("#sessions .scroll").scrollLeft = 40')
    page.value("refreshSessions()")
    if page.value('document.activeElement !== document.querySelector("#sessions .scroll")'):
        yield "the table of sessions loses the focus when it is renewed"
    elif page.value('document.activeElement.scrollLeft') != 40:
        yield "the table of sessions is scrolled back when it is renewed"
    page.value('document.getElementById("period").focus()')
    page.press("ArrowUp", 38)
    page.wait(LOADED)
    if page.value('document.getElementById("period").value') != "7" or page.value(FOCUS) != "select#period":
        yield "the period cannot be chosen by keys"
    if not page.value("window.isKept"):
        yield "the page was loaded again"


def main():
    profile, url, token = sys.argv[1:]
    try:
        with Browser(profile) as browser:
            faults = list(key_faults(browser.open(url, WIDTHS[0], HELPERS), token))
    except BrowserError as error:
        faults = [str(error)]
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
