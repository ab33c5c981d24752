"""Results: rows and their verdicts, JSON, aligned lines, and the generated part of docs/BENCHMARKS.md."""
import json
import os
import pathlib
import platform
import re
import time

from . import picture, plot
from .process import run

ROOT = pathlib.Path(__file__).resolve().parents[3]
# Code that carries packets. A figure measured before its last change is stale.
DATA_PATH = [*(f"common/{name}" for name in ("base", "packet", "wire", "crypto", "compress", "flow", "elision", "recovery", "path",
                                             "queueing", "reception", "session", "io", "turns", "record", "dataplane")),
             "common/host/tun_device*", "classifier", "policy", "cnapt/node", "cnapt/uplinks/uplinks*", "snapt/relay"]
BEGIN, END = "<!-- tests/bench/run --report: begin -->", "<!-- tests/bench/run --report: end -->"


def verdict_of(value, must, goal, lower, may_skip, without_peer=None):
    """None for a row that only informs. What should have been measured and could not be misses its must. A must that compares
    with a peer which was not measured is skipped, whatever ours is."""
    if value is None:
        return "skipped" if may_skip or (must is None and not without_peer) else "short"
    if without_peer:
        return "skipped"
    meets = (lambda bound: value <= bound) if lower else (lambda bound: value >= bound)
    if must is not None and not meets(must):
        return "short"
    if goal is not None and meets(goal):
        return "goal"
    return "must" if must is not None else None


def number(value):
    if value is None:
        return "–"
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.3g}" if abs(value) < 1 else f"{value:.4g}"


def value_of(row):
    """With its 95 % interval where it is a mean."""
    interval = f" ± {number(row['interval'])}" if row.get("interval") is not None else ""
    return number(row["value"]) + interval


class Result:
    """The rows and plots of one bench."""

    def __init__(self, context, bench):
        self.context, self.bench = context, bench
        self.rows, self.plots, self.picture = [], [], None  # of a bench that draws one itself (picture.py)
        self.began = time.time()

    def row(self, name, value, unit, must=None, goal=None, lower=False, reason=None, may_skip=False, without_peer=None, **more):
        """`lower`: less is better, so `must` and `goal` are upper bounds. `may_skip`: that there is no value is no fault of
        ours, a peer is not there. `without_peer`: why the peer that the must compares with was not measured. `n`: of how many
        measurements the value is, if it does not know itself; one. Further keys go into the JSON as they are."""
        count = more.pop("n", None) or getattr(value, "n", 1)
        value = round(float(value), 6) if isinstance(value, float) else value
        row = {"name": name, "value": value, "unit": unit, "n": count if value is not None else 0, "must": must, "goal": goal,
               "verdict": verdict_of(value, must, goal, lower, may_skip, without_peer)}
        if must is not None or goal is not None or without_peer:
            row["better"] = "lower" if lower else "higher"
        if value is None:
            row["reason"] = reason or "not measured"
        elif without_peer:
            row["reason"] = without_peer
        row.update(more)
        self.rows.append(row)
        print(self.line(row), flush=True)
        return row

    def skip(self, name, reason, unit="", **bounds):
        return self.row(name, None, unit, reason=reason, may_skip=True, **bounds)

    def line(self, row):
        sign = "≤" if row.get("better") == "lower" else "≥"
        bounds = "  ".join(f"{key} {sign} {number(row[key])}" for key in ("must", "goal") if row[key] is not None)
        if "reason" in row:
            bounds = f"{bounds}  {row['reason']}".strip() if row["value"] is not None else row["reason"]
        return f"{self.bench:<14}{row['name']:<64}{value_of(row):>10} {row['unit']:<12}{row['verdict'] or '':<8}{bounds}"

    def plot(self, title, x_label, y_label, series, kind="line", **options):
        """`series` is {name: [[x, y], …]}, or {name: {category: y}} for kind "bar"."""
        self.plots.append({"title": title, "x_label": x_label, "y_label": y_label, "kind": kind, "series": series, **options})

    def missed(self):
        return [row for row in self.rows if row["verdict"] == "short"]

    def write(self, folder):
        os.makedirs(folder, exist_ok=True)
        built = self.context.built
        document = {"bench": self.bench, "commit": built.commit, "build": built.build, "harness_commit": commit(),
                    "peers": self.context.peer_versions, "host": host(), "began": int(self.began), "took_s": round(time.time() - self.began, 1), "quick": self.context.quick,
                    "blocks_begun_busy": self.context.disturbed, "notes": self.context.notes, "rows": self.rows,
                    "plots": self.plots}
        if self.picture:
            document["picture"] = self.picture
        path = pathlib.Path(folder)
        (path / f"{self.bench}.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        if drawing := draw(document):
            (path / f"{self.bench}.svg").write_text(drawing)


def draw(document):
    """The SVG of a result; the same data give the same drawing. None where there is nothing to draw."""
    if document.get("picture"):
        return picture.draw(document["picture"])
    return plot.draw(document["plots"]) if document["plots"] else None


def git(*words, root=ROOT):
    return run(["git", "-c", f"safe.directory={root}", "-C", str(root), *words], check=False).strip()


def commit():
    """Of the harness; the programs may be of another one."""
    name = git("rev-parse", "--short=12", "HEAD") or "unknown"
    return name + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


class Built:
    """What the daemons in a folder were built from: the build writes it beside them (cmake/built_from.cmake)."""

    def __init__(self, folder):
        self.commit = self.build = "unknown"
        said = {}
        for name in ("cnapt", "snapt"):
            path = pathlib.Path(folder) / f"{name}.built"
            if path.exists():
                said[name] = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        if len(said) < 2:
            return
        self.commit, self.build = (self._one(said, key) for key in ("commit", "build"))

    @staticmethod
    def _one(said, key):
        values = {name: words.get(key, "unknown") for name, words in said.items()}
        if len(set(values.values())) == 1:
            return values["cnapt"]
        return ", ".join(f"{name} {value}" for name, value in values.items())


def host():
    model = ""
    with open("/proc/cpuinfo") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"kernel": platform.release().split("-")[0], "machine": platform.machine(), "processors": os.cpu_count(), "model": model}


def _markdown_of(document, plots_from):
    host_ = document["host"]
    build = f" ({document['build']})" if "build" in document else ""
    lines = [f"### {document['bench']}", "",
             f"Commit `{document['commit']}`{build}, {host_['processors']} × {host_['model'] or host_['machine']}, Linux "
             f"{host_['kernel']}, {document['took_s']:g} s"
             + (", quick run" if document["quick"] else "")
             + (f"; {document['blocks_begun_busy']} blocks began on a busy machine" if document["blocks_begun_busy"] else "")
             + ".", "", "| what | value | n | must | goal | verdict |", "|---|---|---|---|---|---|"]
    for row in document["rows"]:
        sign = "≤ " if row.get("better") == "lower" else "≥ "
        bound = {key: sign + number(row[key]) if row[key] is not None else "" for key in ("must", "goal")}
        said = row["verdict"] or ""
        if said == "skipped":
            said = f"skipped: {row['reason']}"
        elif said == "short":
            said = "**short**" + (f": {row['reason']}" if row["value"] is None else "")
        value = f"{value_of(row)} {row['unit']}".strip()
        cells = (row["name"], value, str(row.get("n") or ""), bound["must"], bound["goal"], said)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    if document["plots"] or document.get("picture"):
        lines += ["", f"![{document['bench']}]({plots_from}/{document['bench']}.svg)"]
    peers = document.get("peers") or {}
    lines += ["\nPeers: " + ", ".join(f"{name} ({version})" for name, version in peers.items()) + "."] if peers else []
    corpora = {row["corpus"]: row["corpus_hash"] for row in document["rows"] if "corpus_hash" in row}
    lines += ["\nCorpora: " + ", ".join(f"`{name}` {hash_}" for name, hash_ in corpora.items()) + "."] if corpora else []
    lines += [f"\nNote: {note}" for note in document["notes"]]
    return "\n".join(lines)


def _sections_of(text):
    """What an earlier report said: {bench: its section}."""
    found = re.search(re.escape(BEGIN) + "(.*?)" + re.escape(END), text, flags=re.S)
    sections = re.split(r"^### ", found.group(1), flags=re.M)[1:] if found else []
    return {section.split("\n", 1)[0]: "### " + section.rstrip() for section in sections}


def write_report(folder, order, target):
    """Replaces between the markers of `target` the sections of the benches that have results in `folder`, and copies their
    plots beside it; the other sections stay, each names the commit it was measured at."""
    target = pathlib.Path(target)
    plots = target.parent / "benchmarks"
    documents = {path.stem: json.loads(path.read_text()) for path in sorted(pathlib.Path(folder).glob("*.json"))}
    documents = {name: document for name, document in documents.items() if "rows" in document}
    text = target.read_text() if target.exists() else "# Benchmarks\n"
    sections = _sections_of(text) | {name: _markdown_of(document, plots.name) for name, document in documents.items()}
    parts = [BEGIN, "", "## Results", "", "Generated from the JSON of `tests/bench/run`. A verdict is `goal`, `must`, `short` "
             "(the must was missed) or empty for rows that only inform.", ""]
    for name in sorted(sections, key=lambda name: (order.index(name) if name in order else len(order), name)):
        parts += [sections[name], ""]
    for name, document in documents.items():
        if drawing := draw(document):
            plots.mkdir(exist_ok=True)
            (plots / f"{name}.svg").write_text(drawing)
    parts.append(END)
    made = "\n".join(parts)
    if BEGIN in text and END in text:
        text = re.sub(re.escape(BEGIN) + ".*?" + re.escape(END), lambda _: made, text, flags=re.S)
    else:
        text = text.rstrip() + "\n\n" + made + "\n"
    target.write_text(text)
    return list(documents)


def stale_rows(target, root=ROOT):
    """(bench, commit, row) of each row in `target` whose commit has another data path than the tree has now."""
    found, known = [], {}
    for bench, section in _sections_of(pathlib.Path(target).read_text()).items():
        named = re.search(r"^Commit `([^`]*)`", section, flags=re.M)
        name = named.group(1) if named else "unknown"
        if name not in known:
            known[name] = _has_other_data_path(name, root)
        rows = re.findall(r"^\| (?!what \|)((?:[^|\\]|\\.)*?) \|", section, flags=re.M)
        found += [(bench, name, row.replace("\\|", "|")) for row in rows] if known[name] else []
    return found


def _has_other_data_path(name, root):
    """A commit that is not known here, or had changes that no commit holds, is taken for another."""
    if not re.fullmatch(r"[0-9a-f]{7,40}", name) or not git("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}", root=root):
        return True
    return bool(git("diff", "--name-only", name, "--", *DATA_PATH, root=root))
