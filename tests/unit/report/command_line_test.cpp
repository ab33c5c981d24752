#include "common/report/command_line.hpp"
#include "common/report/suggestion.hpp"

#include <gtest/gtest.h>

namespace continuo::report {
namespace {

const ProgramSpec kProgram = {
    "snapt",
    {{"run", "", 0, 0, {{"--config", "F", OptionValue::Required}}},
     {"user", "NAME", 1, 1, {}},
     {"user add", "NAME", 1, 1, {{"--quota", "Q", OptionValue::Required}}},
     {"status",
      "",
      0,
      0,
      {{"--wait", "STATE", OptionValue::Optional}, {"--timeout", "S", OptionValue::Required}}},
     {"check", "[F...]", 0, 8, {{"--by", "KEY", OptionValue::Required, true}}},
     {"key add",
      "NAME",
      1,
      1,
      {{"--size", "N", OptionValue::Optional, false, {}, "bits"},
       {"--old", "", OptionValue::None, false, "not any more", "nothing"}},
      "make a key"},
     {"key list", "", 0, 0, {}, "all keys"}},
    {{"--json", "", OptionValue::None}, {"--socket", "P", OptionValue::Required}}};

CommandLine parse(std::vector<const char*> arguments) {
    return parse_command_line(kProgram, arguments);
}

TEST(CommandLine, TakesOptionsAnywhere) {
    for (const auto& words : std::vector<std::vector<const char*>>{
             {"user", "add", "alice", "--json", "--socket", "/s", "--quota=1GiB"},
             {"--json", "--socket=/s", "user", "add", "--quota", "1GiB", "alice"}}) {
        const CommandLine line = parse(words);
        ASSERT_TRUE(line.command) << line.text;
        EXPECT_EQ(line.command->name, "user add");
        EXPECT_EQ(line.command->arguments, std::vector<std::string>{"alice"});
        EXPECT_TRUE(line.command->has("--json"));
        EXPECT_EQ(line.command->value("--socket"), "/s");
        EXPECT_EQ(line.command->value("--quota"), "1GiB");
        EXPECT_EQ(line.command->value_or("--config", "x"), "x");
    }
}

TEST(CommandLine, TellsTwoWordCommandsFromArguments) {
    EXPECT_EQ(parse({"user", "bob"}).command->name, "user");
    EXPECT_EQ(parse({"user", "add", "bob"}).command->name, "user add");
}

TEST(CommandLine, TakesOptionalValues) {
    EXPECT_EQ(parse({"status", "--wait", "--timeout", "5"}).command->value("--wait"), "");
    EXPECT_EQ(parse({"status", "--wait", "up", "--timeout", "5"}).command->value("--wait"), "up");
    EXPECT_EQ(parse({"status", "--wait=down"}).command->value("--wait"), "down");
    EXPECT_FALSE(parse({"status"}).command->value("--wait"));
}

TEST(CommandLine, RepeatsOnlyWhatMayBeRepeated) {
    EXPECT_EQ(parse({"check", "--by", "user", "--by=day"}).command->values("--by"),
              (std::vector<std::string>{"user", "day"}));
    EXPECT_EQ(parse({"status", "--json", "--json"}).exit_code, kExitUsage);
}

TEST(CommandLine, EndsOptionsAtTwoDashes) {
    const CommandLine line = parse({"check", "--", "--json", "-x"});
    ASSERT_TRUE(line.command);
    EXPECT_EQ(line.command->arguments, (std::vector<std::string>{"--json", "-x"}));
    EXPECT_EQ(parse({"check", "-"}).command->arguments, std::vector<std::string>{"-"});
}

TEST(CommandLine, AnswersMistakesWithUsageAndSixtyFour) {
    const std::pair<std::vector<const char*>, std::string_view> cases[] = {
        {{}, "snapt: no command\n"},
        {{"--json"}, "snapt: no command\n"},
        {{"fly"}, "snapt: unknown command \"fly\"\n"},
        {{"stauts"}, "snapt: unknown command \"stauts\"; did you mean \"status\"?\n"},
        {{"help", "stat"}, "snapt: unknown command \"stat\"; did you mean \"status\"?\n"},
        {{"key"}, "snapt: \"key\" is not whole; expected one of: add, list\n"},
        {{"key", "--json"}, "snapt: \"key\" is not whole; expected one of: add, list\n"},
        {{"key", "fly"}, "snapt: unknown command \"key fly\"; expected one of: add, list\n"},
        {{"key", "lsit"}, "snapt: unknown command \"key lsit\"; did you mean \"key list\"?\n"},
        {{"--config", "f", "run"}, "snapt: unknown option \"--config\"\n"},
        {{"run", "--jsn"}, "snapt: unknown option \"--jsn\"; did you mean \"--json\"?\n"},
        {{"run", "--fly"}, "snapt: unknown option \"--fly\"\n"},
        {{"run", "--config"}, "snapt: option \"--config\" needs a value\n"},
        {{"run", "--json=1"}, "snapt: option \"--json\" takes no value\n"},
        {{"run", "x"}, "snapt: unexpected argument \"x\"\n"},
        {{"user"}, "snapt: missing argument\n"},
        {{"status", "--json", "--json"}, "snapt: option \"--json\" is given twice\n"},
    };
    for (const auto& [words, expected] : cases) {
        const CommandLine line = parse(words);
        EXPECT_FALSE(line.command);
        EXPECT_EQ(line.exit_code, kExitUsage);
        EXPECT_EQ(line.text.substr(0, expected.size()), expected);
        EXPECT_NE(line.text.find("usage:\n"), std::string::npos);
    }
}

TEST(CommandLine, PrintsUsageOnRequest) {
    const CommandLine line = parse({"status", "--help"});
    EXPECT_FALSE(line.command);
    EXPECT_EQ(line.exit_code, kExitGood);
    EXPECT_EQ(line.text, "usage:\n"
                         "  snapt status [--wait [STATE]] [--timeout S]\n"
                         "options of every command: [--json] [--socket P]\n");
    EXPECT_EQ(parse({"help", "status"}).text, line.text);
}

TEST(CommandLine, HasALineForEachCommand) {
    const CommandLine line = parse({"help"});
    EXPECT_EQ(line.exit_code, kExitGood);
    EXPECT_NE(line.text.find("\n  snapt key add NAME    make a key\n"
                             "  snapt key list        all keys\n"
                             "  snapt help [COMMAND]"),
              std::string::npos)
        << line.text;
    EXPECT_EQ(line.text.find("--size"), std::string::npos);
    EXPECT_EQ(parse({"--help"}).text, line.text);
    EXPECT_EQ(parse({"-h"}).text, line.text);
}

TEST(CommandLine, HelpTellsOfTheOptions) {
    EXPECT_EQ(parse({"help", "key", "add"}).text,
              "usage:\n"
              "  snapt key add NAME [--size [N]]\n"
              "    make a key\n"
              "  --size [N]  bits\n"
              "options of every command: [--json] [--socket P]\n");
    const std::string both = parse({"help", "key"}).text;
    EXPECT_NE(both.find("snapt key add"), std::string::npos);
    EXPECT_NE(both.find("snapt key list"), std::string::npos);
    EXPECT_EQ(both.find("snapt status"), std::string::npos);
    EXPECT_NE(parse({"help", "help"}).text.find("snapt help [COMMAND]"), std::string::npos);
}

TEST(Suggestion, IsWhatIsNear) {
    const std::string_view known[] = {"status", "snapts", "flows", "usage"};
    const std::pair<std::string_view, std::string_view> cases[] = {
        {"statsu", "status"}, {"flow", "flows"},   {"sta", "status"}, {"usge", "usage"},
        {"flwos", "flows"},   {"s", ""},           {"xyz", ""},       {"", ""},
        {"snapt", "snapts"},  {"sattus", "status"}};
    for (const auto& [word, meant] : cases) {
        EXPECT_EQ(suggestion(word, known), meant) << word;
    }
    EXPECT_EQ(suggestion(std::string(1000, 'x'), known), "");
}

}  // namespace
}  // namespace continuo::report
