#include "common/report/command_line.hpp"

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

std::string command_usage(const ProgramSpec& program, const CommandSpec& command) {
    std::string text = "  " + std::string(program.name) + " " + std::string(command.name);
    if (!command.arguments.empty()) {
        text += " " + std::string(command.arguments);
    }
    for (const OptionSpec& option : command.options) {
        if (!option.instead.empty()) {
            continue;
        }
        text += " " + option_usage(option);
    }
    return text + "\n";
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
        size_t at = first;
        if (!find_command(at)) {
            return mistake("unknown command \"" + words_[first] + "\"");
        }
        return parse_rest(at);
    }

  private:
    static bool is_help(const std::string& word) { return word == "--help" || word == "-h"; }

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
            return mistake("unknown option \"" + name + "\"");
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
    for (const CommandSpec& spec : program.commands) {
        if (command.empty() || spec.name == command) {
            text += command_usage(program, spec);
        }
    }
    if (!program.options.empty()) {
        text += "options of every command:";
        for (const OptionSpec& option : program.options) {
            text += " " + option_usage(option);
        }
        text += "\n";
    }
    return text;
}

}  // namespace continuo::report
