#include "common/report/json_value.hpp"
#include "snapt/accounting/ledger.hpp"
#include "snapt/accounting/record_store.hpp"
#include "snapt/cli.hpp"
#include "snapt/record_commands.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::snapt {
namespace {

using report::CommandOutput;
using report::JsonValue;

// 2026-11-20 12:00:00 UTC
constexpr int64_t kFirstEndUs = 1'795'176'000'000'000;

class RecordCommands : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-records-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        auto database =
            Database::open(folder_ + "/" + kLedgerFileName, OpenMode::ReadWrite).value();
        ASSERT_TRUE(database.execute("INSERT INTO account(account_id,user_id) VALUES(1,'alice'),"
                                     "(2,'bob')"));
        auto store = RecordStore::open(database).value();
        for (int64_t seq = 0; seq < 4; ++seq) {
            flow::UsageRecord record;
            record.snapt_id = "zrh-1";
            record.epoch = 7;
            record.seq = seq;
            record.user_id = seq % 2 == 0 ? "alice" : "bob";
            record.account_id = 1 + seq % 2;
            record.cnapt_id = "laptop";
            record.session_id.back() = 0xAB;
            record.flow_id = (int64_t{1} << 62) + seq;
            record.cls = 3;
            record.proto = 6;
            record.app = "a \"b\", c";
            record.t_end = kFirstEndUs + seq * 3'600'000'000;
            record.t_start = record.t_end - 10;
            record.pay_down = 2048;
            record.flags = flow::record_flag::kHasAccount;
            ASSERT_TRUE(store.insert(record));
        }
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    // The output, behind what was written before it.
    CommandOutput run(std::vector<std::string> words) const {
        words.insert(words.end(), {"--state", folder_});
        std::vector<const char*> arguments;
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const auto line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command && is_record_command(line.command->name)) << line.text;
        if (!line.command) {
            return {};
        }
        std::string written;
        CommandOutput output = record_command(
            *line.command,
            [&](std::string_view text) {
                written += text;
                errno = ENOSPC;
                return written.size() <= room_;
            },
            false);
        output.out = written + output.out;
        return output;
    }
    static int64_t lines(const std::string& text) {
        return std::count(text.begin(), text.end(), '\n');
    }

    std::string folder_;
    size_t room_ = SIZE_MAX;  // for what is written
};

TEST_F(RecordCommands, ExportHasAllOfEachRecord) {
    const std::string csv = run({"export", "--format", "csv"}).out;
    EXPECT_EQ(lines(csv), 5);
    EXPECT_TRUE(csv.starts_with("snapt_id,epoch,seq,user_id,account_id,session_id,")) << csv;
    EXPECT_NE(csv.find("\r\nzrh-1,7,0,alice,1,000000000000000000000000000000ab,laptop,,"
                       "4611686018427387904,ht-hd,6,\"a \"\"b\"\", c\",,,"
                       "2026-11-20T11:59:59.999990Z,2026-11-20T12:00:00.000000Z,0,0,2048,"),
              std::string::npos)
        << csv;
    const std::string json = run({"export", "--format", "jsonl"}).out;
    EXPECT_EQ(lines(json), 4);
    const auto first = JsonValue::parse(json.substr(0, json.find('\n')));
    ASSERT_TRUE(first);
    EXPECT_EQ((*first)["t_end"].integer(), kFirstEndUs);
    EXPECT_EQ(first->text("flow_id"), "4611686018427387904") << "no reader rounds it";
    EXPECT_TRUE(first->has("delay_us"));
    EXPECT_FALSE((*first)["delay_us"].integer()) << "not known";
    for (const char* name : {"sharer_id", "lost_pkts", "delay_src"}) {
        EXPECT_TRUE(first->has(name) && (*first)[name].is_null()) << name;
    }
}

TEST_F(RecordCommands, RecordsAreChosenByUserAndTime) {
    const auto alices = JsonValue::parse(run({"records", "--user", "alice", "--json"}).out);
    ASSERT_TRUE(alices);
    EXPECT_EQ(alices->items().size(), 2U);
    EXPECT_EQ(lines(run({"export", "--format", "jsonl", "--from", "2026-11-20T13:30:00Z"}).out), 2);
    EXPECT_EQ(
        lines(run({"export", "--format", "jsonl", "--user", "bob", "--to", "2026-11-20T13:30:00Z"})
                  .out),
        1);
    EXPECT_EQ(run({"records", "--user", "carol"}).out, "no records\n");
    EXPECT_EQ(run({"records", "--user", "carol", "--json"}).out, "[]\n");
    const std::string two = run({"records", "--limit", "2"}).out;
    EXPECT_NE(two.find("7/1     bob"), std::string::npos) << two;
    EXPECT_EQ(two.find("7/2"), std::string::npos);
    EXPECT_TRUE(two.ends_with("the first 2; see --limit\n"));
    EXPECT_EQ(lines(run({"records", "--csv"}).out), 5);
}

TEST_F(RecordCommands, WhatIsNotWrittenIsNoAnswer) {
    auto database = Database::open(folder_ + "/" + kLedgerFileName, OpenMode::ReadWrite).value();
    ASSERT_TRUE(database.execute(
        "INSERT INTO usage_record SELECT snapt_id,epoch,seq+n.value,user_id,session_id,cnapt_id,"
        "sharer_id,flow_id,cls,proto,app,dport,dst,t_start,t_end,active_us,pay_up,pay_down,"
        "inner_up,inner_down,pkt_up,pkt_down,pre,post,delay_us,delay_max_us,delay_src,jitter_us,"
        "handovers,lost_pkts,cause,flags,sha,account_id,undelivered,tun_up,tun_down "
        "FROM usage_record,(WITH RECURSIVE n(value) AS (SELECT 10 UNION ALL SELECT value+1 FROM n "
        "WHERE value<5009) SELECT value FROM n) n WHERE seq=0"));
    EXPECT_EQ(lines(run({"export", "--format", "jsonl"}).out), 5004) << "in pages";
    EXPECT_EQ(lines(run({"export", "--format", "jsonl", "--user", "alice"}).out), 5002);
    EXPECT_EQ(lines(run({"export", "--format", "jsonl", "--limit", "4001"}).out), 4001);
    room_ = size_t{300} * 1024;
    const CommandOutput cut = run({"export", "--format", "csv"});
    EXPECT_EQ(cut.exit_code, report::kExitError);
    EXPECT_EQ(cut.err, "snapt: cannot write the output: No space left on device\n");
    EXPECT_LE(cut.out.size(), room_ + size_t{80} * 1024) << "it stops";
}

// The log begins anew only when nobody reads.
TEST_F(RecordCommands, AReaderThatWaitsHoldsNothing) {
    auto database = Database::open(folder_ + "/" + kLedgerFileName, OpenMode::ReadWrite).value();
    int64_t seen = 0;
    ASSERT_TRUE(visit_records_of(database, {}, SIZE_MAX, [&](const flow::UsageRecord&) {
        auto writer = Database::open(folder_ + "/" + kLedgerFileName, OpenMode::ReadWrite).value();
        EXPECT_TRUE(writer.execute("INSERT INTO event(at,kind,detail) VALUES(0,'a','b')"));
        auto checkpoint = writer.prepare("PRAGMA wal_checkpoint(TRUNCATE)").value();
        EXPECT_TRUE(*checkpoint.step());
        EXPECT_EQ(checkpoint.integer(0), 0) << "busy";
        return ++seen < 2;
    }));
    EXPECT_EQ(seen, 2);
}

TEST_F(RecordCommands, WhatCannotBeMeantIsRefused) {
    for (const std::vector<std::string>& words : {std::vector<std::string>{"export"},
                                                  {"export", "--format", "xml"},
                                                  {"records", "--limit", "0"},
                                                  {"records", "--from", "yesterday"}}) {
        EXPECT_EQ(run(words).exit_code, report::kExitUsage) << words.back();
    }
}

}  // namespace
}  // namespace continuo::snapt
