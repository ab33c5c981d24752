// The command line of both programs: a table of commands with their options, and a parser. `--name
// value`, `--name=value`, flags; options may precede or follow the arguments; "--" ends them. An
// unknown word gets the most likely known one as a suggestion.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace continuo::report {

// Exit codes of both programs.
inline constexpr int kExitGood = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitAlarm = 2;    // `status` of a daemon in an alarm state
inline constexpr int kExitUsage = 64;   // EX_USAGE
inline constexpr int kExitConfig = 78;  // EX_CONFIG

enum class OptionValue : uint8_t { None, Required, Optional };

struct OptionSpec {
    std::string_view name;         // "--config"
    std::string_view placeholder;  // "F", shown in the usage
    OptionValue value = OptionValue::None;
    bool is_repeatable = false;     // otherwise given at most once
    std::string_view instead = {};  // for a removed option: what to do instead; not shown
    std::string_view help = {};     // its purpose, in a line
};

// --csv, which excludes --json.
inline OptionSpec csv_option() {
    return {"--csv", "", OptionValue::None, false, {}, "as comma-separated values"};
}

struct CommandSpec {
    std::string_view name;       // one or two words: "status", "user add"
    std::string_view arguments;  // as shown: "NAME", "[F...]"
    size_t min_arguments = 0;
    size_t max_arguments = 0;
    std::vector<OptionSpec> options;
    std::string_view help = {};  // its purpose, in a line
};

struct ProgramSpec {
    std::string_view name;
    std::vector<CommandSpec> commands;
    std::vector<OptionSpec> options;  // options of every command
};

// The given command line. Owns its texts.
struct ParsedCommand {
    std::string name;  // the CommandSpec's
    std::vector<std::string> arguments;
    std::vector<std::pair<std::string, std::string>> options;  // name and value, as given

    bool has(std::string_view option) const;
    // The value, the last one of a repeated option; empty for a flag.
    std::optional<std::string> value(std::string_view option) const;
    std::string value_or(std::string_view option, std::string_view fallback) const;
    std::vector<std::string> values(std::string_view option) const;
};

struct CommandLine {
    std::optional<ParsedCommand> command;
    // Without a command: print `text` and exit. --help: stdout and 0; a mistake: stderr and 64.
    std::string text;
    int exit_code = kExitGood;
};

// `arguments` without the program's name. Answers `help [COMMAND]` and --help itself.
CommandLine parse_command_line(const ProgramSpec& program, std::span<const char* const> arguments);
// One line per command; for the named one, or those that start with that word, also the arguments
// and one line per option.
std::string usage_text(const ProgramSpec& program, std::string_view command = {});

}  // namespace continuo::report
