#include "common/config/base64.hpp"
#include "common/report/status_report.hpp"
#include "snapt/cli.hpp"
#include "snapt/ledger/ledger.hpp"
#include "snapt/settings/key_file.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace continuo::snapt {
namespace {

using report::CommandLine;
using report::CommandOutput;
using report::JsonValue;
using settings::parse_snapt_config;

constexpr int64_t kNow = 1'793'491'200'000'000;

JsonValue json(std::string_view text) {
    auto parsed = JsonValue::parse(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? std::move(*parsed) : JsonValue();
}

CommandLine parse(std::vector<std::string> arguments) {
    std::vector<const char*> words;
    for (const std::string& argument : arguments) {
        words.push_back(argument.c_str());
    }
    return report::parse_command_line(program_spec(), words);
}

bool contains(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

// A directory of its own, and commands that find no daemon, or the one that `reply` stands for.
class SnaptCli : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-cli-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    std::string config() const { return folder_ + "/etc/snapt.toml"; }
    std::string state() const { return folder_ + "/state"; }
    CommandOutput init(std::vector<std::string> more) {
        std::vector<std::string> words = {"init", "--config", config(), "--state", state()};
        words.insert(words.end(), more.begin(), more.end());
        const CommandLine line = parse(words);
        EXPECT_TRUE(line.command) << line.text;
        return init_command(*line.command);
    }
    CommandOutput user(std::vector<std::string> words) {
        words.insert(words.begin(), "user");
        words.insert(words.end(), {"--config", config(), "--state", state()});
        const CommandLine line = parse(words);
        EXPECT_TRUE(line.command) << line.text;
        report::DaemonAccess access;
        access.program = "snapt";
        access.request = [this](std::string_view request, base::Duration) {
            requests_.emplace_back(request);
            return reply_;
        };
        return user_command(access, *line.command, false);
    }

    std::string folder_;
    base::Result<std::string> reply_ = base::Error{base::Errc::System, "connect", ENOENT};
    std::vector<std::string> requests_;
};

std::string content_of(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
}

TEST(SnaptCommandLine, KnowsTheCommandsOfTheContract) {
    for (const char* name :
         {"init", "run", "status", "sessions", "flows", "usage", "check", "doctor", "reload"}) {
        EXPECT_TRUE(parse({name}).command) << name;
    }
    for (const char* action : {"add", "disable", "enable", "rotate", "revoke", "remove"}) {
        EXPECT_TRUE(parse({"user", action, "alice"}).command) << action;
        EXPECT_EQ(parse({"user", action}).exit_code, report::kExitUsage) << action;
    }
    EXPECT_TRUE(parse({"user", "list"}).command);
    EXPECT_EQ(parse({"user"}).exit_code, report::kExitUsage);
}

TEST_F(SnaptCli, InitWritesASecretFileThatParses) {
    const CommandOutput output =
        init({"--name", "zrh-1", "--public", "192.0.2.1:9347,[2001:db8::1]:9347"});
    ASSERT_EQ(output.exit_code, report::kExitGood) << output.err;
    EXPECT_TRUE(contains(output.out, "snapt run --config " + config())) << output.out;
    struct stat facts {};
    ASSERT_EQ(stat(config().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777U, 0600U);
    const auto parsed = parse_snapt_config(content_of(config()), config());
    ASSERT_TRUE(parsed.config);
    EXPECT_EQ(parsed.config->name, "zrh-1");
    EXPECT_EQ(parsed.config->public_addresses.size(), 2U);
}

TEST_F(SnaptCli, InitTakesANameThatTheFilesOfUsersThenHave) {
    const CommandOutput output =
        init({"--name", "zrh-1", "--public", "snapt.example.org:9348,192.0.2.1:9347"});
    ASSERT_EQ(output.exit_code, report::kExitGood) << output.err;
    const auto parsed = parse_snapt_config(content_of(config()), config());
    ASSERT_TRUE(parsed.config);
    ASSERT_EQ(parsed.config->public_addresses.size(), 2U);
    EXPECT_EQ(parsed.config->public_addresses[0].host, "snapt.example.org");
    EXPECT_EQ(parsed.config->public_addresses[0].port, 9348);
    std::vector<std::string> listens;
    for (const base::Endpoint& endpoint : parsed.config->listen) {
        listens.push_back(endpoint.to_string());
    }
    EXPECT_EQ(listens,
              (std::vector<std::string>{"0.0.0.0:9348", "[::]:9348", "0.0.0.0:9347", "[::]:9347"}))
        << "of both versions: the name may lead to either";
    const std::string user_file = user({"add", "alice"}).out;
    EXPECT_TRUE(contains(user_file, R"(addresses = ["snapt.example.org:9348", "192.0.2.1:9347"])"))
        << user_file;
}

TEST_F(SnaptCli, InitNeverOverwrites) {
    ASSERT_EQ(init({"--name", "a", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    const std::string before = content_of(config());
    const CommandOutput output = init({"--name", "b", "--public", "192.0.2.2:9347"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_EQ(content_of(config()), before);
}

TEST_F(SnaptCli, InitRefusesWhatTheFileCouldNotHold) {
    EXPECT_EQ(init({"--name", "a"}).exit_code, report::kExitUsage);
    EXPECT_EQ(init({"--name", "a b", "--public", "192.0.2.1:1"}).exit_code, report::kExitUsage);
    EXPECT_EQ(init({"--name", "a", "--public", "192.0.2.1:0"}).exit_code, report::kExitUsage);
    EXPECT_FALSE(std::filesystem::exists(config()));
}

TEST_F(SnaptCli, UsersLiveInTheDatabaseWhenNoDaemonAnswers) {
    ASSERT_EQ(init({"--name", "zrh-1", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    const CommandOutput added = user({"add", "alice", "--quota", "50GiB/month"});
    ASSERT_EQ(added.exit_code, report::kExitGood) << added.err;
    EXPECT_TRUE(contains(added.out, "addresses = [\"192.0.2.1:9347\"]")) << added.out;
    EXPECT_EQ(user({"add", "alice"}).exit_code, report::kExitError) << "added twice";
    EXPECT_EQ(user({"disable", "alice"}).out, "alice disabled\n");
    const std::string list = user({"list"}).out;
    EXPECT_TRUE(contains(list, "disabled")) << list;
    EXPECT_TRUE(contains(list, "50.0 GiB/month")) << list;
    EXPECT_EQ(user({"enable", "alice"}).exit_code, report::kExitGood);
    const CommandOutput rotated = user({"rotate", "alice"});
    EXPECT_TRUE(contains(rotated.out, "key_id = \"k2\"")) << rotated.out;
    EXPECT_NE(rotated.out, added.out);
    EXPECT_EQ(user({"remove", "alice"}).exit_code, report::kExitGood);
    EXPECT_EQ(user({"list"}).out, "no users\n");
    const CommandOutput missing = user({"disable", "bob"});
    EXPECT_EQ(missing.exit_code, report::kExitError);
    EXPECT_TRUE(contains(missing.err, "there is no user \"bob\"")) << missing.err;
}

TEST_F(SnaptCli, EachDeviceHasAKeyOfItsOwn) {
    ASSERT_EQ(init({"--name", "zrh-1", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    const CommandOutput laptop = user({"add", "alice", "--device", "laptop"});
    ASSERT_EQ(laptop.exit_code, report::kExitGood) << laptop.err;
    EXPECT_TRUE(contains(laptop.out, "`snapt user add alice --device laptop`")) << laptop.out;
    EXPECT_EQ(user({"add", "alice", "--device", "phone"}).exit_code, report::kExitGood);
    const CommandOutput again = user({"add", "alice"});
    EXPECT_TRUE(contains(again.err, "--device NAME")) << again.err;
    const CommandOutput unclear = user({"rotate", "alice"});
    EXPECT_TRUE(contains(unclear.err, "several devices")) << unclear.err;
    EXPECT_EQ(user({"rotate", "alice", "--device", "phone", "--overlap", "24h"}).exit_code,
              report::kExitGood);
    EXPECT_EQ(user({"disable", "alice", "--device", "laptop"}).out,
              "alice, device laptop disabled\n");
    std::istringstream list(user({"list"}).out);
    std::string line;
    std::vector<std::vector<std::string>> rows;
    while (std::getline(list, line)) {
        std::istringstream words(line);
        rows.emplace_back(std::istream_iterator<std::string>(words),
                          std::istream_iterator<std::string>());
    }
    ASSERT_EQ(rows.size(), 4U);
    EXPECT_EQ(rows[1][1], "disabled");
    EXPECT_EQ(rows[1][3], "laptop");
    EXPECT_EQ(rows[2].size(), 9U) << "k2 has an end";
    EXPECT_EQ(rows[3][2], "k3");
    EXPECT_EQ(rows[3][4], "-") << "never seen";
    EXPECT_EQ(user({"revoke", "alice", "--key-id", "k3"}).out, "alice, key k3 revoked\n");
    EXPECT_EQ(user({"revoke", "alice"}).exit_code, report::kExitUsage) << "which?";
    EXPECT_EQ(user({"revoke", "alice", "--device", "tv"}).exit_code, report::kExitError);
    EXPECT_EQ(user({"add", "bob", "--device", "a b"}).exit_code, report::kExitUsage);
    EXPECT_EQ(user({"rotate", "alice", "--overlap", "soon"}).exit_code, report::kExitUsage);
    EXPECT_EQ(user({"rotate", "alice", "--overlap", "2000d"}).exit_code, report::kExitUsage);
}

TEST(SnaptUsers, ShowsWhenEachKeyWasSeen) {
    const std::string text = users_text(
        json(
            R"([{"user":"alice","disabled":false,"keys":["k1","k2"],"created":1793491200,"devices":[
{"key_id":"k1","device":"laptop","disabled":false,"created":1793491200,"last_seen":1793577600,"expires":1793664059},
{"key_id":"k2","device":null,"disabled":false,"created":1793491200,"last_seen":null,"expires":null}],
"quota_bytes":null,"quota_period":null},{"user":"bob","disabled":true,"keys":[],"devices":[],"created":1793491200}])"),
        false);
    EXPECT_EQ(
        text,
        "USER   STATE     KEY  DEVICE  LAST SEEN         QUOTA  SINCE       UNTIL\n"
        "alice  enabled   k1   laptop  2026-11-02 00:00   none  2026-11-01  2026-11-03 00:00\n"
        "alice  enabled   k2   -       -                  none  2026-11-01\n"
        "bob    disabled  -    -       -                  none  2026-11-01\n");
}

TEST_F(SnaptCli, AKeyComesFromAFileAndNeverFromTheCommandLine) {
    ASSERT_EQ(init({"--name", "zrh-1", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    const std::string key = "3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=";
    const std::string file = folder_ + "/key";
    std::ofstream(file) << key << "\n";
    const CommandOutput added = user({"add", "alice", "--key-file", file});
    ASSERT_EQ(added.exit_code, report::kExitGood) << added.err;
    EXPECT_TRUE(contains(added.out, "key = \"" + key + "\"")) << added.out;
    std::ofstream(file) << "too short";
    EXPECT_EQ(user({"add", "bob", "--key-file", file}).exit_code, report::kExitUsage);
    EXPECT_EQ(user({"add", "bob", "--key-file", folder_}).exit_code, report::kExitError);
    for (const std::vector<std::string>& given :
         {std::vector<std::string>{"--key", key}, std::vector<std::string>{"--key=" + key}}) {
        std::vector<std::string> words = {"user", "add", "carol"};
        words.insert(words.end(), given.begin(), given.end());
        const CommandLine line = parse(words);
        EXPECT_EQ(line.exit_code, report::kExitUsage);
        EXPECT_TRUE(contains(line.text, "--key-file")) << line.text;
        EXPECT_FALSE(contains(line.text, key)) << line.text;
    }
}

TEST_F(SnaptCli, AConfigurationOfAnotherSnaptBringsKeyAndId) {
    ASSERT_EQ(init({"--name", "zrh-1", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    ASSERT_EQ(user({"add", "alice"}).exit_code, report::kExitGood);
    const std::string file = folder_ + "/alice.toml";
    const auto save = [&file](const std::string& text) { std::ofstream(file) << text; };
    const std::string rotated = user({"rotate", "alice"}).out;
    save(rotated);
    // The second SNAPT.
    std::filesystem::rename(folder_ + "/etc", folder_ + "/etc1");
    std::filesystem::rename(state(), folder_ + "/state1");
    ASSERT_EQ(init({"--name", "gva-1", "--public", "192.0.2.2:9347"}).exit_code, report::kExitGood);
    const CommandOutput added = user({"add", "alice", "--key-file", file, "--block"});
    ASSERT_EQ(added.exit_code, report::kExitGood) << added.err;
    EXPECT_EQ(added.out.find("\n[[snapt]]"), 0U) << added.out;
    EXPECT_TRUE(contains(added.out, "name = \"gva-1\"")) << added.out;
    const auto own = parse_snapt_config(content_of(this->config()), "");
    EXPECT_TRUE(contains(added.out, "identity_key = \"" +
                                        config::to_base64(*own.config->identity_key) + "\""));
    EXPECT_FALSE(contains(added.out, "\nkey = ")) << added.out;
    const auto users = store::UserStore::open(state()).value();
    std::string failure;
    EXPECT_EQ(users->lookup("alice", "k2"), settings::parse_key_file(rotated, failure)->key);
    // Options that do not fit the command are errors.
    EXPECT_EQ(user({"add", "bob", "--key-file", file}).exit_code, report::kExitUsage);
    EXPECT_EQ(user({"rotate", "alice", "--key-file", file, "--key-id", "k3"}).exit_code,
              report::kExitUsage);
    const CommandOutput twice = user({"rotate", "alice", "--key-file", file});
    EXPECT_TRUE(contains(twice.err, "has, or had, a key of this id")) << twice.err;
    EXPECT_EQ(user({"add", "alice", "--key-id", "k7"}).exit_code, report::kExitUsage);
    save("realm = \"other\"\n" + rotated);
    const CommandOutput foreign = user({"add", "alice", "--device", "tv", "--key-file", file});
    EXPECT_TRUE(contains(foreign.err, "of realm \"other\"")) << foreign.err;
    save("[identity]\nuser = \"alice\"\nkey_id = \"k9\"\nkey_file = \"/x\"\n");
    EXPECT_TRUE(contains(user({"add", "alice", "--key-file", file}).err, "key_file"));
    save("[identity]\nuser = \"alice\"\nkey_id = \"k9\"\nkey = \"c2VjcmV0\"\n");
    const CommandOutput bad = user({"add", "alice", "--key-file", file});
    EXPECT_EQ(bad.exit_code, report::kExitUsage);
    EXPECT_FALSE(contains(bad.err, "c2VjcmV0")) << bad.err;
    // A key alone, of a device, under its id elsewhere.
    save("3q2+7wABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhs=\n");
    const CommandOutput tv =
        user({"add", "alice", "--device", "tv", "--key-file", file, "--key-id", "k5"});
    EXPECT_TRUE(contains(tv.out, "key_id = \"k5\"")) << tv.out << tv.err;
}

TEST_F(SnaptCli, UsersGoToTheDaemonThatAnswers) {
    reply_ = std::string(R"({"user":"alice","key_id":"k1","config":"node = 1\n"})");
    const CommandOutput output = user({"add", "alice", "--quota", "1GiB/day"});
    EXPECT_EQ(output.out, "node = 1\n");
    ASSERT_EQ(requests_.size(), 1U);
    EXPECT_EQ(requests_[0],
              R"({"command":"user","action":"add","name":"alice","quota":"1GiB/day"})");
    EXPECT_FALSE(std::filesystem::exists(state()));
}

TEST_F(SnaptCli, ADaemonsErrorIsNotWorkedAround) {
    ASSERT_EQ(init({"--name", "zrh-1", "--public", "192.0.2.1:9347"}).exit_code, report::kExitGood);
    reply_ = std::string(R"({"error":"the ledger is full"})");
    const CommandOutput output = user({"add", "alice"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_EQ(output.err, "snapt: the ledger is full\n");
    reply_ = base::Error{base::Errc::System, "connect", EACCES};
    EXPECT_EQ(user({"add", "alice"}).exit_code, report::kExitError);
    reply_ = base::Error{base::Errc::System, "connect", ECONNREFUSED};
    EXPECT_EQ(user({"list"}).out, "no users\n");
}

TEST_F(SnaptCli, UserCommandsSayWhatIsMissing) {
    const CommandOutput output = user({"list"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_TRUE(contains(output.err, "snapt init")) << output.err;
    EXPECT_EQ(user({"add", "a/b"}).exit_code, report::kExitUsage);
    EXPECT_EQ(user({"add", "a", "--quota", "50GiB"}).exit_code, report::kExitUsage);
    EXPECT_FALSE(std::filesystem::exists(state()));
}

TEST_F(SnaptCli, AKeyThatLetsNobodyInYetIsPrintedWithAWarning) {
    const std::string answer = R"({"user":"alice","config":"key = 1\n","block":"b\n","warning":)";
    reply_ = answer + R"("not yet"})";
    const CommandOutput warned = user({"rotate", "alice"});
    EXPECT_EQ(warned.out, "key = 1\n");
    EXPECT_EQ(warned.err, "snapt: not yet\n");
    EXPECT_EQ(warned.exit_code, report::kExitError);
    reply_ = answer + "null}";
    const CommandOutput good = user({"rotate", "alice"});
    EXPECT_EQ(good.err, "");
    EXPECT_EQ(good.exit_code, report::kExitGood);
}

TEST_F(SnaptCli, RequestsOfTheSocketAreCheckedAndTellWhoseSessionsEnd) {
    std::filesystem::create_directories(state());
    auto users = store::UserStore::open(state());
    ASSERT_TRUE(users);
    base::SeededRandom random(1);
    settings::SnaptConfig config = settings::default_snapt_config();
    config.name = "zrh-1";
    config.public_addresses = {*config::HostPort::parse("192.0.2.1:9347")};
    const auto run = [&](std::string_view text) {
        std::string failure;
        const auto request = users::parse_user_request(json(text), failure);
        EXPECT_TRUE(request) << failure;
        return request ? users::run_user_request(**users, config, *request, kNow, random)
                       : users::UserResult{};
    };
    using Ends = users::UserResult::Ends;
    EXPECT_EQ(run(R"({"action":"add","name":"alice","quota":null})").ends, Ends::Nothing);
    EXPECT_EQ(run(R"({"action":"disable","name":"alice"})").ends, Ends::User);
    EXPECT_EQ(run(R"({"action":"enable","name":"alice"})").ends, Ends::Nothing);
    EXPECT_EQ(run(R"({"action":"rotate","name":"alice"})").ends, Ends::Revoked);
    EXPECT_EQ(run(R"({"action":"add","name":"alice","device":"tv"})").ends, Ends::Nothing);
    EXPECT_EQ(run(R"({"action":"rotate","name":"alice","device":"tv","overlap_s":60})").ends,
              Ends::Revoked);
    EXPECT_EQ(run(R"({"action":"disable","name":"alice","key_id":"k3"})").ends, Ends::Revoked);
    EXPECT_EQ(run(R"({"action":"list"})").json,
              R"([{"user":"alice","account":1,"disabled":false,"keys":["k2","k4"],"devices":[)"
              R"({"key_id":"k2","device":null,"disabled":false,"created":1793491200,)"
              R"("last_seen":null,"expires":null},)"
              R"({"key_id":"k3","device":"tv","disabled":true,"created":1793491200,)"
              R"("last_seen":null,"expires":1793491260},)"
              R"({"key_id":"k4","device":"tv","disabled":false,"created":1793491200,)"
              R"("last_seen":null,"expires":null}],"created":1793491200,)"
              R"("quota_bytes":null,"quota_period":null}])");
    EXPECT_EQ(run(R"({"action":"revoke","name":"alice","device":"tv"})").ends, Ends::Revoked);
    EXPECT_EQ(run(R"({"action":"revoke","name":"alice","device":"tv"})").error,
              "the user \"alice\" has no valid key for a device \"tv\"");
    EXPECT_EQ(run(R"({"action":"revoke","name":"alice","key_id":"k4"})").error,
              "the user \"alice\" has no valid key \"k4\"");
    EXPECT_FALSE(run(R"({"action":"revoke","name":"alice"})").error.empty());
    EXPECT_EQ(run(R"({"action":"remove","name":"bob"})").ends, Ends::Nothing);
    for (const char* user : {"frank", "dave", "erin"}) {
        ASSERT_TRUE((*users)->add(user, {}, kNow, random));
    }
    auto database =
        store::Database::open(state() + "/" + store::kLedgerFileName, store::OpenMode::ReadWrite)
            .value();
    ASSERT_TRUE(database.execute("UPDATE credential SET secret=x'00' WHERE account_id="
                                 "(SELECT account_id FROM user WHERE user_id='frank')"));
    // A change that the disk has taken ends sessions also when the keys cannot be read again.
    for (const char* text : {R"({"action":"disable","name":"alice"})",
                             R"({"action":"revoke","name":"erin","key_id":"k1"})",
                             R"({"action":"remove","name":"dave"})"}) {
        const users::UserResult result = run(text);
        EXPECT_FALSE(result.error.empty()) << text;
        EXPECT_EQ(result.ends, Ends::Revoked) << text;
    }
    // A key that it has taken is shown.
    ASSERT_TRUE((*users)->add("gina", {}, kNow, random));
    const users::UserResult rotated = run(R"({"action":"rotate","name":"gina"})");
    EXPECT_EQ(rotated.error, "");
    EXPECT_EQ(rotated.ends, Ends::Revoked);
    EXPECT_NE(json(rotated.json).text("config").find("key_id = \"k2\""), std::string::npos);
    EXPECT_EQ(json(rotated.json).text("warning"),
              "the key is stored, but lets nobody in until `snapt reload` can read it: ledger.db "
              "is damaged");
    for (const char* text : {R"({"action":"fly","name":"a"})", R"({"action":"add"})",
                             R"({"action":"add","name":"a","quota":"much"})",
                             R"({"action":"add","name":"a","device":"a/b"})",
                             R"({"action":"revoke","name":"a","key_id":"/"})",
                             R"({"action":"rotate","name":"a","overlap_s":-1})",
                             R"({"action":"rotate","name":"a","overlap_s":99999999})"}) {
        std::string failure;
        EXPECT_FALSE(users::parse_user_request(json(text), failure)) << text;
        EXPECT_FALSE(failure.empty());
    }
    config.public_addresses.clear();
    EXPECT_FALSE(run(R"({"action":"add","name":"carol"})").error.empty());
    EXPECT_FALSE((*users)->is_known("carol")) << "a user whose configuration cannot be printed";
}

TEST(Enrolment, NamesWhatDiffersFromTheDefaults) {
    settings::SnaptConfig config = settings::default_snapt_config();
    config.name = "zrh-1";
    config.public_addresses = {*config::HostPort::parse("203.0.113.9:9347"),
                               *config::HostPort::parse("[2001:db8:9::9]:9347")};
    store::Credential credential{"alice", store::kNoAccount, "k1", {}};
    credential.key.fill(7);
    std::string text = users::render_enrolment(config, credential);
    EXPECT_TRUE(contains(text, "addresses = [\"203.0.113.9:9347\", \"[2001:db8:9::9]:9347\"]"));
    EXPECT_TRUE(contains(text, "\n# realm = "));
    EXPECT_TRUE(contains(text, "\n# protection = "));
    config.realm = "mesh";
    config.protection.encrypt = false;
    text = users::render_enrolment(config, credential);
    EXPECT_TRUE(contains(text, "\nrealm = \"mesh\"")) << text;
    EXPECT_TRUE(contains(text, "\nprotection = \"authenticate\"")) << text;
}

TEST(SnaptStatus, ShowsLedgerDenyListAndClasses) {
    const std::string text = status_text(
        json(R"({"version":"0.1.0","name":"zrh-1","state":"up","uptime_s":90061,"epoch":3,
"sessions":2,"flows":1234,"classes":{"ht-hd":{"packets":5,"inner_bytes":100,"wire_bytes":90,
"saved_percent":10.0}},"drops":{"unauthentic":4},"deny":["10.0.0.0/8","fc00::/7"],
"ledger":{"epoch":3,"records":77,"live_slots":131072,"live_slots_in_use":9,"failed_seals":0,"coarse":true},
"sinks":[],"io":{}})"),
        false);
    for (const char* part : {"zrh-1", "1d 01:01", "flows     1 234", "epoch 3, 77 records",
                             "nearly full", "10.0.0.0/8, fc00::/7", "ht-hd", "unauthentic 4"}) {
        EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
    }
    for (const char* other : {"{}", "[]", "7"}) {
        EXPECT_FALSE(status_text(json(other), false).empty());
        EXPECT_FALSE(sessions_text(json(other), false).empty());
        EXPECT_FALSE(users_text(json(other), false).empty());
    }
}

TEST(SnaptSessions, ShowsWhoIsWhereAndWhatWasSaved) {
    const std::string text = sessions_text(
        json(R"([{"user":"alice","node":"laptop","session_id":"00ff","from":"192.0.2.2:40001",
"transport":"udp","rtt_ms":0.42,"loss":0.021,"delivery_bits_per_s":2500000,"handovers":1,"inner_ipv4":"100.64.0.2","inner_ipv6":null,
"up_bytes":2048,"down_bytes":4096,"saved_percent":33.3,"since":1793491200,"flows":2}])"),
        false);
    for (const char* part : {"alice", "laptop", "192.0.2.2:40001", "0.42 ms", "2.1 %",
                             "2.50 Mbit/s", "100.64.0.2", "2.00 KiB", "33.3 %"}) {
        EXPECT_TRUE(contains(text, part)) << part << "\n" << text;
    }
}

TEST(StatusReport, SumsSessionsAndLeavesTheUnknownNull) {
    struct Delay {
        uint64_t count = 0;
        double ms = 0;
        uint64_t total() const { return count; }
        double quantile_ms(double) const { return ms; }
    };
    struct Counters {
        uint64_t packets = 1, datagrams = 1, packets_alone = 1, sent_by_timeout = 0;
        uint64_t sent_by_size = 1, inner_bytes = 100, wire_bytes = 80, queue_drops = 0;
        uint64_t super_packets = 2, super_segments = 40, software_segmented = 0;
        Delay queue_delay;
    };
    report::ClassFigureTable classes;
    Counters counters;
    counters.queue_delay = {1, 2.5};
    classes[0].add(counters);
    counters.queue_delay = {};
    classes[0].add(counters);
    report::JsonWriter writer;
    report::write_classes(writer, classes);
    const JsonValue written = json(writer.take());
    EXPECT_EQ(written["lt-ld"]["packets"].unsigned_integer(), 2U);
    EXPECT_EQ(written["lt-ld"]["saved_percent"].number(), 20.0);
    EXPECT_EQ(written["lt-ld"]["queue_ms_p50"].number(), 2.5);
    EXPECT_TRUE(written["ht-hd"]["saved_percent"].is_null());
    EXPECT_TRUE(written["ht-hd"]["queue_ms_p99"].is_null());
    report::write_io(writer, {}, classes);
    const JsonValue io = json(writer.take());
    EXPECT_TRUE(io["segments_per_write"].is_null());
    EXPECT_EQ(io["super_segments"].unsigned_integer(), 80U);
}

}  // namespace
}  // namespace continuo::snapt
