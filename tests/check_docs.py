#!/usr/bin/env python3
"""Fails when the documentation is behind the programs. BIN is the folder of cnapt and snapt.

  - a command or option of `--help` that is not in the man page, or that is only there; a line of the help that does not fit 80 columns
  - the shell completion, run by bash, offers other commands, or other options behind a command, than `--help` names
  - a key that the readers of the configuration files know and the man page in section 5 does not describe
  - a counter of dropped packets or a named nftables counter that docs/OPERATIONS.md does not name
  - a reason with which a SNAPT refuses a node that docs/OPERATIONS.md does not name, or names and no code says
  - a line of prose in docs/OPERATIONS.md longer than 100 columns
  - a constant of docs/PATHS.md or docs/CONSTANTS.md that the code does not have, or has with another value
  - a comment or document that names a section of docs/PROTOCOL.md which is not there
  - a relative link in a Markdown file that leads nowhere
  - a man page that groff warns about
"""
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAMS = ("cnapt", "snapt")
ALSO_KNOWN = {"--help", "--version"}  # of the parser, not of a command

# Man page: the sources whose Section readers know its keys.
KEY_SOURCES = {
    "cnapt.toml.5": ("cnapt/settings/node_config.cpp", "common/config/class_knobs.cpp", "common/config/debug_section.cpp"),
    "snapt.toml.5": ("snapt/settings/snapt_config.cpp", "common/config/class_knobs.cpp", "common/config/debug_section.cpp"),
    "policy.toml.5": ("classifier/policy_file.cpp",),
    "plan.toml.5": ("rating/plan_file.cpp",),
}
# Functions that take a key first, and those that take the section first.
READERS = (r"(?:boolean|integer(?:<[^>]*>)?|number|duration|size_bytes|rate_bits_per_s|text|texts|required_text|choice(?:<[^>]*>)?"
           r"|list(?:<[^>]*>)?|value(?:<[^>]*>)?|items|find|child|tables)")
KEY_FIRST = re.compile(rf'[.>]{READERS}\(\s*"([a-z0-9_]+)"')
SECTION_FIRST = re.compile(r'\b(?:read_\w+|optional_choice)\(\s*\w+,\s*"([a-z0-9_]+)"')


def read(path):
    return (ROOT / path).read_text()


def text_of_page(name):
    """The page without the markup that stands between a reader and a word."""
    text = read(f"docs/man/{name}").replace(r"\-", "-").replace(r"\(dq", '"').replace(r"\&", "")
    return re.sub(r"\\f.", "", text)


def commands_of_help(program):
    """{command: its options}, options of every command under ''. The list of `--help`, then `help COMMAND` for each."""
    def said(*words):
        return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout.partition("options of every command:")
    commands = {"": set(re.findall(r"--[a-z-]+", said("--help")[2]))}
    for line in said("--help")[0].splitlines():
        words = re.match(r"  \w+ ((?:[a-z]+ ?)+)", line)
        if words:
            command = words[1].strip()
            commands[command] = set(re.findall(r"--[a-z-]+", said("help", *command.split())[0]))
    return commands


def check_help(name, program):
    """Each command has its line, and no line of the help is longer than 80 columns."""
    listed = subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout
    for line in listed.partition("options of every command:")[0].splitlines()[1:]:
        if not re.match(rf"  {name} \S.*?  +\S|   ", line):
            yield f"{name} --help: nothing is said of {line.strip()}"
    for command in commands_of_help(program):
        text = subprocess.run([program, "help", *command.split()], capture_output=True, text=True, check=True).stdout
        for line in text.splitlines():
            if len(line) > 80:
                yield f"{name} help {command}: a line of {len(line)} columns: {line}"


def check_program(name, program):
    commands = commands_of_help(program)
    if len(commands) < 2:
        yield f"{name} --help names no command"
    page = text_of_page(f"{name}.8")
    completion = read(f"packaging/completion/{name}.bash")
    known = set().union(*commands.values()) | ALSO_KNOWN
    for command, options in commands.items():
        if command and f"{name} {command}" not in page:
            yield f"docs/man/{name}.8: no command {command}"
        for option in sorted(options):
            if not re.search(rf"{option}(?![\w-])", page):
                yield f"docs/man/{name}.8: no option {option} of {command}"
    for where, text in ((f"docs/man/{name}.8", page), (f"packaging/completion/{name}.bash", completion)):
        for option in sorted(set(re.findall(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*", text)) - known):
            yield f"{where}: {option} is not an option"
    yield from check_completed(name, commands)
    yield from check_help(name, program)


def completed(name, *words):
    """What bash offers for the last of the words, behind the name of the program."""
    script = 'source "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && "_$1" && printf "%s\\n" "${COMPREPLY[@]}"'
    path = ROOT / "packaging/completion" / f"{name}.bash"
    run = subprocess.run(["bash", "--norc", "-c", script, "bash", str(path), name, *words], capture_output=True, text=True)
    if run.returncode != 0 or run.stderr:
        return {f"(fails: {run.stderr.strip()})"}
    return set(run.stdout.split())


def check_completed(name, commands):
    """What bash completes is the commands, their words and, behind each, its options and those of every command."""
    where = f"packaging/completion/{name}.bash"
    common = commands[""] | {"--help"}
    first = {command.split()[0] for command in commands if command}
    seconds = {}
    for command in commands:
        if " " in command:
            seconds.setdefault(command.split()[0], set()).add(command.split()[1])
    rows = [(["-"], common | {"--version"}), ([""], common | {"--version"} | first)]
    rows += [([word, ""], common | words) for word, words in seconds.items()]
    rows += [(["help", ""], first - {"help"})]
    for command, options in commands.items():
        if command:
            rows += [([*command.split(), "-"], options | common), (["--socket", "x", *command.split(), "--"], options | common)]
    for words, wanted in rows:
        given = completed(name, *words)
        if given != wanted:
            lacks, has = (" ".join(sorted(part)) or "nothing" for part in (wanted - given, given - wanted))
            yield f"{where}: behind \"{' '.join([name, *words])}\" lacks {lacks}; should not have {has}"


def keys_of(sources):
    keys = set()
    for source in sources:
        text = read(source)
        keys |= set(KEY_FIRST.findall(text)) | set(SECTION_FIRST.findall(text))
    return keys


def check_keys():
    for page, sources in KEY_SOURCES.items():
        keys = keys_of(sources)
        if len(keys) < 10:
            yield f"{page}: only {len(keys)} keys found in {', '.join(sources)}: has their form changed?"
        text = text_of_page(page)
        described = re.findall(r"^(?:\.TP\n\.BR?|\.SS) (.*)$", text, re.MULTILINE)
        words = set(re.findall(r"[a-z0-9_]+", " ".join(described)))
        for key in sorted(keys - words):
            yield f"docs/man/{page}: no key {key}"


def check_operations():
    text = read("docs/OPERATIONS.md")
    reasons = re.search(r"kDropReasonNames = \{(.*?)\};", read("common/base/drop_reason.hpp"), re.DOTALL)[1]
    counters = [name for source in ("cnapt/capture/routes.hpp", "snapt/nat/nat.hpp")
                for name in re.findall(r'k\w+Counter = "(\w+)"', read(source))]
    for word in re.findall(r'"(\w+)"', reasons) + counters:
        if f"`{word}`" not in text:
            yield f"docs/OPERATIONS.md: no counter {word}"


def refusals_of_code():
    """Texts that the sources of snapt give a refused node; a literal in several parts counts with its first part."""
    for path in sorted((ROOT / "snapt").rglob("*.cpp")):
        for arguments in re.findall(r"\brefuse\((.*?)\);", path.read_text(), re.DOTALL):
            text = re.search(r'"([^"]+)"', arguments)
            if text and "RejectReason::" in arguments:
                yield text[1]
    for name in ("kDiskFullText", "kDrainingText"):
        yield re.search(name + r' =\s*"([^"]+)"', read("snapt/users/admission.hpp"))[1]
    begin, end = re.search(r'return "(this SNAPT speaks version ).*?"(, the node )"', read("common/control/message.cpp")).groups()
    yield begin + re.search(r"kProtocolVersion = (\d+)", read("common/wire/constants.hpp"))[1] + end


def check_refusals():
    text = read("docs/OPERATIONS.md")
    table = re.search(r"^\| `NAME refused.*?\n\n", text, re.DOTALL | re.MULTILINE)[0]
    first_cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)[1:])
    documented = re.findall(r"`([^`]+)`", first_cells)
    said = set(refusals_of_code())
    for reason in sorted(said):
        if not any(row.startswith(reason[:40].strip()) for row in documented):
            yield f"docs/OPERATIONS.md: no refusal \"{reason}\""
    for row in documented:
        fixed = re.split(r"NAME|…", row)[0].strip(" :")
        if not any(reason.startswith(fixed) for reason in said):
            yield f"docs/OPERATIONS.md: no SNAPT says \"{row}\""


def check_width_of_operations():
    for line in without_code(read("docs/OPERATIONS.md")).splitlines():
        if len(line) > 100 and not line.startswith("|"):
            yield f"docs/OPERATIONS.md: a line of {len(line)} columns: {line}"


# Factors of a unit in these pages and of a duration in the code: seconds, bytes, or a share of one.
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "B": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "%": 0.01}
DURATIONS = {"nanoseconds": 1e-9, "microseconds": 1e-6, "milliseconds": 1e-3, "seconds": 1.0}
CODE_FOLDERS = ("common", "classifier", "policy", "rating", "cnapt", "snapt")


def constants_of_code():
    """{name: [(file name, initializer)]} of the constants whose initializer is on one line."""
    constants = {}
    for path in sorted(path for folder in CODE_FOLDERS for path in (ROOT / folder).rglob("*.[ch]pp")):
        for name, value in re.findall(r"\bconstexpr\b[^=;\n]*?\b(k[A-Z]\w*) = ([^;\n]*);", path.read_text()):
            constants.setdefault(name, []).append((path.name, value))
        for unit, name, value in re.findall(r"\bconstexpr std::chrono::(\w+) (k[A-Z]\w*)\{(\d+)\};", path.read_text()):
            constants.setdefault(name, []).append((path.name, f"{unit}({value})"))
    return constants


def number_of_code(value, constants):
    """The number that an initializer stands for, times in seconds; None when it is of no form known here."""
    value = re.sub(r"(?<=\d)'(?=\d)", "", value)
    value = re.sub(r"\b(?:size_t|u?int\d+_t)\{(\w+)\}", r"\1", value)
    value = re.sub(r"\b(?:base::)?(\w+)\((\d+)\)", lambda call: f"({call[2]} * {DURATIONS.get(call[1], 'unknown')})", value)
    for name in re.findall(r"\bk[A-Z]\w*", value):
        inner = number_of_code(constants[name][0][1], constants) if len(constants.get(name, ())) == 1 else None
        value = value.replace(name, str(inner))
    if not re.fullmatch(r"[\d.e+\-*/<>() ]+", value):
        return None
    return float(eval(value.replace(".0", "") if "<<" in value else value))  # digits and operators only


def numbers_of_page(cell, count):
    """The numbers of a cell: one for each constant of its row."""
    numbers = []
    for text in cell.split(",")[:count]:
        parts = re.match(r"\s*([\d ]*\d(?:\.\d+)?)(?:/(\d+))?\s*(ns|µs|ms|s|B|KiB|MiB|%)?(?!\w)", text)
        parts = parts or re.match(r"\s*(\d+)()()", text)
        if parts:
            numbers.append(float(parts[1].replace(" ", "")) / float(parts[2] or 1) * UNITS.get(parts[3], 1.0))
    return numbers


def check_constants():
    constants = constants_of_code()
    for page in ("docs/PATHS.md", "docs/CONSTANTS.md"):
        for row in re.findall(r"^\| (`k[A-Z].*)$", read(page), re.MULTILINE):
            yield from (f"{page}: {fault}" for fault in faults_of_row(row, constants))


def faults_of_row(row, constants):
    first, second = row.split(" | ")[:2]
    names = re.findall(r"`(k[A-Z]\w*)`", first)
    files = re.findall(r"`(\w+\.[ch]pp)`", first)
    wanted = numbers_of_page(second, len(names))
    if len(wanted) != len(names):
        yield f"{first}: {len(names)} constants and {len(wanted)} values"
        return
    for name, number in zip(names, wanted):
        found = [value for file, value in constants.get(name, []) if not files or file in files]
        if len(found) != 1:
            yield f"{name} is in the code {len(found)} times; name its file if there are several"
            continue
        has = number_of_code(found[0], constants)
        if has is None or abs(has - number) > 1e-9 * max(abs(has), abs(number)):
            yield f"{name} is {number:g}, in the code {found[0]}"


def anchor_of(heading):
    heading = re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", heading).replace(" ", "-")


def anchors_of(markdown):
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", without_code(markdown), re.MULTILINE)}


def without_code(markdown):
    return re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)


def markdown_files():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.md"], capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else []
    return [ROOT / name for name in names] or [path for path in ROOT.rglob("*.md") if "build" not in path.parts]


def check_links():
    for path in markdown_files():
        text = without_code(path.read_text())
        for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            goal = (path.parent / file).resolve() if file else path
            if not goal.exists():
                yield f"{path.relative_to(ROOT)}: {target} leads nowhere"
            elif anchor and goal.suffix == ".md" and anchor not in anchors_of(goal.read_text()):
                yield f"{path.relative_to(ROOT)}: {target} names no heading"


NUMBER = r"\d+(?:\.\d+)*"
TO_PROTOCOL = re.compile(rf"(?<![A-Z_])PROTOCOL(?:\.md)?(?:\]\([^)]*\))?,? (?:sections? )?({NUMBER}(?:(?:, | and |, and | to ){NUMBER})*)")


def check_sections():
    sections = set(re.findall(rf"^#+ ({NUMBER})\.? ", (ROOT / "docs/PROTOCOL.md").read_text(), re.MULTILINE))
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.?pp", "*.md", "*.sh", "*.py", "*.lua"], capture_output=True, text=True)
    for name in listed.stdout.split():
        text = re.sub(r"\n\s*(?://|#|--)? *", " ", (ROOT / name).read_text(errors="replace"))
        for named in TO_PROTOCOL.findall(text):
            yield from (f"{name}: docs/PROTOCOL.md has no section {number}" for number in re.findall(NUMBER, named)
                        if number not in sections)


def check_man_pages():
    if shutil.which("groff") is None:
        return
    for path in sorted((ROOT / "docs/man").iterdir()):
        said = subprocess.run(["groff", "-t", "-man", "-ww", "-z", str(path)], capture_output=True, text=True).stderr
        yield from said.splitlines()


def main():
    if len(sys.argv) != 2:
        print(f"usage: {sys.argv[0]} BIN", file=sys.stderr)
        return 64
    faults = [fault for name in PROGRAMS for fault in check_program(name, pathlib.Path(sys.argv[1]).resolve() / name)]
    for check in (check_keys, check_operations, check_refusals, check_width_of_operations, check_constants, check_links, check_sections,
                  check_man_pages):
        faults += check()
    print("\n".join(faults) if faults else "docs: programs, man pages, completion and links agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
