#!/usr/bin/env python3
"""Fails when the documentation is behind the programs. BIN is the folder of cnapt and snapt.

  - a command or option of `--help` that is not in the man page, or that is only there; a line of the help that does not fit 80 columns
  - the shell completion, run by bash, offers other commands, or other options behind a command, than `--help` names
  - a key that the readers of the configuration files know and the man page in section 5 does not describe
  - a counter of dropped packets or a named nftables counter that docs/OPERATIONS.md does not name
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
    "cnapt.toml.5": ("cnapt/node_config.cpp", "common/config/class_knobs.cpp", "common/config/debug_section.cpp"),
    "snapt.toml.5": ("snapt/snapt_config.cpp", "common/config/class_knobs.cpp", "common/config/debug_section.cpp"),
    "policy.toml.5": ("classifier/policy_file.cpp",),
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
    counters = [name for source in ("cnapt/routes.hpp", "snapt/nat.hpp")
                for name in re.findall(r'k\w+Counter = "(\w+)"', read(source))]
    for word in re.findall(r'"(\w+)"', reasons) + counters:
        if f"`{word}`" not in text:
            yield f"docs/OPERATIONS.md: no counter {word}"


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
    faults += [*check_keys(), *check_operations(), *check_links(), *check_man_pages()]
    print("\n".join(faults) if faults else "docs: programs, man pages, completion and links agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
