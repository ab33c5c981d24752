#include "common/report/json_value.hpp"
#include "snapt/cli.hpp"
#include "snapt/commands/token_commands.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/rest/tokens.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace continuo::snapt::commands {
namespace {

using report::CommandOutput;
using report::JsonValue;

class TokenCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-token-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        auto database = store::Database::open(folder_ + "/" + store::kLedgerFileName,
                                              store::OpenMode::ReadWrite)
                            .value();
        ASSERT_TRUE(database.execute(
            "INSERT INTO account(account_id,user_id,removed) VALUES(1,'alice',5),(2,'gone',5),"
            "(3,'alice',NULL);"
            "INSERT INTO user(user_id,created,disabled,account_id) VALUES('alice',0,0,3)"));
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    CommandOutput run(std::vector<std::string> words) const {
        words.insert(words.end(), {"--state", folder_});
        if (words[1] == "add") {
            words.insert(words.end(), {"--config", folder_ + "/snapt.toml"});
        }
        std::vector<const char*> arguments;
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const auto line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command && is_token_command(line.command->name)) << line.text;
        return line.command ? token_command(*line.command, false) : CommandOutput{};
    }
    JsonValue json(const CommandOutput& output) const {
        EXPECT_EQ(output.exit_code, 0) << output.err;
        return JsonValue::parse(output.out).value();
    }
    std::optional<rest::Token> find(const std::string& secret) const {
        return rest::TokenStore(folder_ + "/" + rest::kTokenFileName).find(secret);
    }

    std::string folder_;
};

TEST_F(TokenCommands, TokenIsShownOnceAndWorks) {
    const JsonValue made = json(run({"token", "add", "office", "--scope", "bill", "--json"}));
    const auto token = find(made.text("token"));
    ASSERT_TRUE(token);
    EXPECT_EQ(token->scope, rest::Scope::Bill);
    EXPECT_TRUE(made["link"].is_null());
    EXPECT_TRUE(made["user"].is_null());
    const CommandOutput list = run({"token", "list"});
    EXPECT_EQ(list.out.find("snapt_"), std::string::npos);
    EXPECT_NE(list.out.find("office  bill"), std::string::npos) << list.out;
    EXPECT_EQ(run({"token", "remove", "office"}).out, "token office removed\n");
    EXPECT_FALSE(find(made.text("token")));
    EXPECT_EQ(run({"token", "list"}).out, "no tokens\n");
}

TEST_F(TokenCommands, SelfIsOfTheAccountThatTheUserHasNow) {
    const JsonValue made = json(run({"token", "add", "page", "--self", "alice", "--json"}));
    const auto token = find(made.text("token"));
    ASSERT_TRUE(token);
    EXPECT_EQ(token->user, "alice");
    EXPECT_EQ(token->account_id, 3);
    EXPECT_EQ(run({"token", "add", "x", "--self", "gone"}).err, "snapt: gone: no such user\n");
}

TEST_F(TokenCommands, LinkLeadsToThePage) {
    const CommandOutput without = run({"token", "add", "a", "--scope", "read"});
    EXPECT_NE(without.out.find("none yet"), std::string::npos) << without.out;
    std::ofstream(folder_ + "/snapt.toml")
        << "name = \"zrh-1\"\npublic = [\"203.0.113.9:9347\"]\n[rest]\n"
           "listen = [\"/run/x.sock\", \"127.0.0.1:9348\"]\n";
    const JsonValue made = json(run({"token", "add", "b", "--scope", "read", "--json"}));
    EXPECT_EQ(made.text("link"), "http://127.0.0.1:9348/#token=" + made.text("token"));
    const JsonValue far = json(run(
        {"token", "add", "c", "--scope", "read", "--url", "https://u.example.net/x//", "--json"}));
    EXPECT_EQ(far.text("link"), "https://u.example.net/x/#token=" + far.text("token"));
}

TEST_F(TokenCommands, WrongOnesMakeNone) {
    using Words = std::vector<std::string>;
    for (const Words& words :
         {Words{"token", "add", "a"}, Words{"token", "add", "a", "--scope", "self"},
          Words{"token", "add", "a", "--scope", "root"},
          Words{"token", "add", "a b", "--scope", "read"},
          Words{"token", "add", "a", "--scope", "read", "--self", "alice"}}) {
        EXPECT_EQ(run(words).exit_code, report::kExitUsage) << words.back();
    }
    EXPECT_EQ(run({"token", "remove", "a"}).exit_code, 1);
    EXPECT_EQ(run({"token", "add", "a", "--scope", "read"}).exit_code, 0);
    EXPECT_EQ(run({"token", "add", "a", "--scope", "read"}).err,
              "snapt: no token is made: there is a token of that name\n");
    EXPECT_EQ(json(run({"token", "list", "--json"})).items().size(), 1U);
}

}  // namespace
}  // namespace continuo::snapt::commands
