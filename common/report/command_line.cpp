#include "common/report/command_line.hpp"

#include "common/report/suggestion.hpp"
#include "common/report/table.hpp"

#include <algorithm>

namespace continuo::report {
namespace {

std::string option_usage(const OptionSpec& option) {
    std::string text = "[" + std::string(option.name);
    if (option.value == OptionValue::Required) {
        text += " " + std::string(option.placeholder);
    } else if (option.value == OptionValue::Optional) {
        text += " [" + std::string(option.placeholder) + "]";
    }
    return text + (option.is_repeatable ? "]..." : "]");
}

constexpr size_t kHelpWidth = 80;
constexpr size_t kHelpIndent = 6;  // indent of a continued line

const CommandSpec& help_spec() {
    static const CommandSpec spec = {"help", "[COMMAND]", 0,
                                     2,      {},          "what a command does, and its options"};
    return spec;
}

std::string signature(const ProgramSpec& program, const CommandSpec& command) {
    std::string text = "  " + std::string(program.name) + " " + std::string(command.name);
    if (!command.arguments.empty()) {
        text += " " + std::string(command.arguments);
    }
    return text;
}

// Stands for a blank at which no line is broken.
constexpr char kFirmBlank = '\x01';

std::string unbroken(std::string text) {
    std::replace(text.begin(), text.end(), ' ', kFirmBlank);
    return text;
}

std::string broken(const std::string& line) {
    std::string text = wrapped(line, kHelpWidth, kHelpIndent);
    std::replace(text.begin(), text.end(), kFirmBlank, ' ');
    return text;
}

std::string command_usage(const ProgramSpec& program, const CommandSpec& command) {
    std::string text = signature(program, command);
    for (const OptionSpec& option : command.options) {
        if (!option.instead.empty()) {
            continue;
        }
        text += " " + unbroken(option_usage(option));
    }
    return broken(text) + "\n";
}

// Two columns: what, and what it does.
using HelpLines = std::vector<std::pair<std::string, std::string_view>>;
std::string aligned(const HelpLines& lines) {
    size_t widest = 0;
    for (const auto& line : lines) {
        widest = std::max(widest, line.first.size());
    }
    std::string text;
    for (const auto& [what, help] : lines) {
        const std::string padding(widest + 2 - what.size(), ' ');
        text += wrapped(what + (help.empty() ? "" : padding + std::string(help)), kHelpWidth,
                        widest + 2) +
                "\n";
    }
    return text;
}

std::string option_lines(const CommandSpec& command) {
    HelpLines lines;
    for (const OptionSpec& option : command.options) {
        if (option.instead.empty() && !option.help.empty()) {
            std::string usage = option_usage(option);
            usage = usage.substr(1, usage.rfind(']') - 1);  // without the outer brackets
            lines.emplace_back("  " + usage, option.help);
        }
    }
    return aligned(lines);
}

std::string command_list(const ProgramSpec& program) {
    HelpLines lines;
    for (const CommandSpec& command : program.commands) {
        lines.emplace_back(signature(program, command), command.help);
    }
    lines.emplace_back(signature(program, help_spec()), help_spec().help);
    return aligned(lines);
}

bool is_meant(const CommandSpec& command, std::string_view name) {
    return command.name == name ||
           (command.name.starts_with(name) && command.name.substr(name.size()).starts_with(' '));
}

}  // namespace

bool ParsedCommand::has(std::string_view option) const {
    return value(option).has_value();
}

std::optional<std::string> ParsedCommand::value(std::string_view option) const {
    const auto found = std::find_if(options.rbegin(), options.rend(),
                                    [option](const auto& given) { return given.first == option; });
    return found == options.rend() ? std::nullopt : std::optional(found->second);
}

std::string ParsedCommand::value_or(std::string_view option, std::string_view fallback) const {
    return value(option).value_or(std::string(fallback));
}

std::vector<std::string> ParsedCommand::values(std::string_view option) const {
    std::vector<std::string> result;
    for (const auto& [given, text] : options) {
        if (given == option) {
            result.push_back(text);
        }
    }
    return result;
}

class CommandLineParser {
  public:
    CommandLineParser(const ProgramSpec& program, std::span<const char* const> arguments)
        : program_(program), words_(arguments.begin(), arguments.end()) {}

    CommandLine parse() {
        if (words_.empty()) {
            return mistake("no command");
        }
        // Options of every command may stand before it.
        size_t first = 0;
        while (first < words_.size() && words_[first].starts_with("-")) {
            if (is_help(words_[first])) {
                return help();
            }
            if (auto wrong = take_option(first)) {
                return std::move(*wrong);
            }
        }
        if (first == words_.size()) {
            return mistake("no command");
        }
        if (words_[first] == help_spec().name) {
            return help_on(first + 1);
        }
        size_t at = first;
        if (!find_command(at)) {
            return mistake(unknown_command(first));
        }
        return parse_rest(at);
    }

  private:
    static bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

    // `help`, and what follows it.
    CommandLine help_on(size_t at) {
        std::string name;
        for (; at < words_.size() && !is_help(words_[at]); ++at) {
            name += (name.empty() ? "" : " ") + words_[at];
        }
        const auto& commands = program_.commands;
        const bool is_known =
            name.empty() || name == help_spec().name ||
            std::any_of(commands.begin(), commands.end(),
                        [&name](const CommandSpec& command) { return is_meant(command, name); });
        if (!is_known) {
            return mistake("unknown command \"" + name + "\"" + meant(name));
        }
        CommandLine line;
        line.text = usage_text(program_, name);
        return line;
    }

    // The error for a command line without a known command. Its words begin at `first`.
    std::string unknown_command(size_t first) const {
        std::string name = words_[first];
        std::string second_words;
        for (const CommandSpec& command : program_.commands) {
            if (command.name != name && is_meant(command, name)) {
                second_words += second_words.empty() ? "" : ", ";
                second_words += command.name.substr(name.size() + 1);
            }
        }
        const bool has_second = first + 1 < words_.size() && !words_[first + 1].starts_with("-");
        if (!second_words.empty() && !has_second) {
            return "\"" + name + "\" is not whole; expected one of: " + second_words;
        }
        if (!second_words.empty()) {
            name += " " + words_[first + 1];
            const std::string nearest = meant(name);
            return "unknown command \"" + name + "\"" +
                   (nearest.empty() ? "; expected one of: " + second_words : nearest);
        }
        return "unknown command \"" + name + "\"" + meant(name);
    }

    std::string meant(std::string_view name) const {
        std::vector<std::string_view> known = {help_spec().name};
        for (const CommandSpec& command : program_.commands) {
            known.push_back(command.name);
        }
        return did_you_mean(suggestion(name, known));
    }
    std::string meant_option(std::string_view name) const {
        std::vector<std::string_view> known = {"--help"};
        for (const auto* options :
             {&program_.options, command_ != nullptr ? &command_->options : nullptr}) {
            for (size_t i = 0; options != nullptr && i < options->size(); ++i) {
                if ((*options)[i].instead.empty()) {
                    known.push_back((*options)[i].name);
                }
            }
        }
        return did_you_mean(suggestion(name, known));
    }
    static std::string did_you_mean(std::string_view word) {
        return word.empty() ? "" : "; did you mean \"" + std::string(word) + "\"?";
    }

    CommandLine parse_rest(size_t at) {
        bool options_ended = false;
        while (at < words_.size()) {
            const std::string& word = words_[at];
            if (!options_ended && word == "--") {
                options_ended = true;
                ++at;
            } else if (!options_ended && is_help(word)) {
                return help();
            } else if (!options_ended && word.size() > 1 && word.front() == '-') {
                if (auto wrong = take_option(at)) {
                    return std::move(*wrong);
                }
            } else {
                parsed_.arguments.push_back(word);
                ++at;
            }
        }
        const size_t count = parsed_.arguments.size();
        if (count < command_->min_arguments) {
            return mistake("missing argument");
        }
        if (count > command_->max_arguments) {
            return mistake("unexpected argument \"" + parsed_.arguments[command_->max_arguments] +
                           "\"");
        }
        parsed_.name = command_->name;
        CommandLine line;
        line.command = std::move(parsed_);
        return line;
    }

    // Two words before one, so that "user add" wins over a command "user" with an argument.
    bool find_command(size_t& at) {
        if (at + 1 < words_.size() && select(words_[at] + " " + words_[at + 1])) {
            at += 2;
            return true;
        }
        return select(words_[at++]);
    }
    bool select(std::string_view name) {
        const auto found =
            std::find_if(program_.commands.begin(), program_.commands.end(),
                         [name](const CommandSpec& command) { return command.name == name; });
        command_ = found == program_.commands.end() ? nullptr : &*found;
        return command_ != nullptr;
    }
    const OptionSpec* find_option(std::string_view name) const {
        const auto find_in = [name](const std::vector<OptionSpec>& options) -> const OptionSpec* {
            const auto found =
                std::find_if(options.begin(), options.end(),
                             [name](const OptionSpec& option) { return option.name == name; });
            return found == options.end() ? nullptr : &*found;
        };
        const OptionSpec* option = command_ == nullptr ? nullptr : find_in(command_->options);
        return option != nullptr ? option : find_in(program_.options);
    }
    // Takes the option at `at` and its value; gives what is wrong with it.
    std::optional<CommandLine> take_option(size_t& at) {
        const std::string word = words_[at++];
        const size_t equals = word.find('=');
        const std::string name = word.substr(0, equals);
        const OptionSpec* option = find_option(name);
        if (option == nullptr) {
            return mistake("unknown option \"" + name + "\"" + meant_option(name));
        }
        if (!option->instead.empty()) {
            return mistake("no option \"" + name + "\" any more: " + std::string(option->instead));
        }
        if (parsed_.has(name) && !option->is_repeatable) {
            return mistake("option \"" + name + "\" is given twice");
        }
        std::string value;
        if (equals != std::string::npos) {
            if (option->value == OptionValue::None) {
                return mistake("option \"" + name + "\" takes no value");
            }
            value = word.substr(equals + 1);
        } else if (option->value == OptionValue::Required) {
            if (at == words_.size()) {
                return mistake("option \"" + name + "\" needs a value");
            }
            value = words_[at++];
        } else if (option->value == OptionValue::Optional && at < words_.size() &&
                   !words_[at].starts_with("-")) {
            value = words_[at++];
        }
        parsed_.options.emplace_back(name, value);
        return std::nullopt;
    }

    CommandLine mistake(const std::string& what) const {
        CommandLine line;
        line.text = std::string(program_.name) + ": " + what + "\n" +
                    usage_text(program_, command_ == nullptr ? "" : command_->name);
        line.exit_code = kExitUsage;
        return line;
    }
    CommandLine help() const {
        CommandLine line;
        line.text = usage_text(program_, command_ == nullptr ? "" : command_->name);
        return line;
    }

    const ProgramSpec& program_;
    std::vector<std::string> words_;
    const CommandSpec* command_ = nullptr;
    ParsedCommand parsed_;
};

CommandLine parse_command_line(const ProgramSpec& program, std::span<const char* const> arguments) {
    return CommandLineParser(program, arguments).parse();
}

std::string usage_text(const ProgramSpec& program, std::string_view command) {
    std::string text = "usage:\n";
    if (command.empty()) {
        text += command_list(program);
    }
    std::vector<CommandSpec> commands = program.commands;
    commands.push_back(help_spec());
    for (const CommandSpec& spec : commands) {
        if (command.empty() || !is_meant(spec, command)) {
            continue;
        }
        text += command_usage(program, spec);
        text += spec.help.empty() ? "" : "    " + std::string(spec.help) + "\n";
        text += option_lines(spec);
    }
    if (!program.options.empty()) {
        std::string options = "options of every command:";
        for (const OptionSpec& option : program.options) {
            options += " " + unbroken(option_usage(option));
        }
        text += broken(options) + "\n";
    }
    return text;
}

}  // namespace continuo::report
