#include "cnapt/cli.hpp"
#include "cnapt/commands/capture_flows.hpp"
#include "cnapt/commands/classify_command.hpp"
#include "common/io/file.hpp"
#include "common/report/json_value.hpp"
#include "tests/unit/cnapt/commands/capture_file.hpp"

#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::cnapt::commands {
namespace {

using packet::Protocol;
using report::CommandOutput;
using report::JsonValue;
namespace flag = packet::tcp_flag;

constexpr uint64_t kNsPerMs = 1'000'000;
constexpr const char* kPolicy = R"(version = 1
[promotion]
enabled = true
above_bits_per_s = 64000
for_ms = 2000
[[rule]]
app = "dns"
match = { proto = "udp", dport = 53 }
class = "lt-ld"
[[rule]]
app = "browser"
match = { process = "firefox", proto = "tcp" }
class = "ht-ld"
[[rule]]
app = "web"
match = { proto = "tcp", dport = 443 }
class = "ht-hd"
[[rule]]
app = "voice"
match = { dscp = ["ef"] }
class = "ht-ld"
[[rule]]
app = "never"
match = { dport = 25 }
action = "deny"
)";

class ClassifyCommand : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/continuo-classify-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        ASSERT_TRUE(io::write_file_atomically(root_ + "/policy.toml", kPolicy));
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    CommandOutput run(const std::string& capture, std::vector<std::string> more = {}) {
        EXPECT_TRUE(io::write_file_atomically(root_ + "/capture", capture));
        return run_words({"--pcap", root_ + "/capture", "--policy", root_ + "/policy.toml"}, more);
    }
    static CommandOutput run_words(std::vector<std::string> words,
                                   const std::vector<std::string>& more = {}) {
        words.insert(words.begin(), "classify");
        words.insert(words.end(), more.begin(), more.end());
        std::vector<const char*> arguments;
        arguments.reserve(words.size());
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const report::CommandLine line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command) << line.text;
        return classify_command(*line.command, false);
    }
    JsonValue json_of(const CaptureFile& file) {
        const CommandOutput output = run(file.text(), {"--json"});
        EXPECT_EQ(output.exit_code, report::kExitGood) << output.err;
        return JsonValue::parse(output.out).value();
    }
    void add(Protocol protocol,
             const char* from,
             uint16_t from_port,
             const char* to,
             uint16_t to_port,
             uint8_t flags = 0,
             size_t bytes = 10) {
        file_.add(CaptureFile::fields_of(protocol, from, from_port, to, to_port, flags), bytes,
                  now_ns_ += kNsPerMs);
    }

    static constexpr const char* kNode = "10.0.0.2";
    static constexpr const char* kServer = "198.51.100.2";
    std::string root_;
    CaptureFile file_;
    uint64_t now_ns_ = 1'700'000'000ULL * 1'000'000'000;
};

TEST_F(ClassifyCommand, EachFlowHasItsClassAndTheRuleThatGaveIt) {
    add(Protocol::Udp, kNode, 40000, kServer, 53);
    add(Protocol::Udp, kServer, 53, kNode, 40000);
    add(Protocol::Tcp, kServer, 443, kNode, 40001, flag::kAck, 1000);  // began earlier
    add(Protocol::Tcp, kNode, 40001, kServer, 443, flag::kAck);
    add(Protocol::Tcp, "2001:db8::2", 25, "2001:db8::9", 25, flag::kSyn);
    add(Protocol::Udp, kNode, 40002, kServer, 9999);
    const JsonValue json = json_of(file_);
    const auto& flows = json["flows"].items();
    ASSERT_EQ(flows.size(), 4U);
    EXPECT_EQ(flows[0].text("app"), "dns");
    EXPECT_EQ(flows[0].text("class"), "lt-ld");
    EXPECT_EQ(flows[0]["rule"].unsigned_integer(), 1U);
    EXPECT_EQ(flows[0]["packets_up"].unsigned_integer(), 1U);
    EXPECT_EQ(flows[0]["packets_down"].unsigned_integer(), 1U);
    EXPECT_EQ(flows[0]["may_depend_on_process"].boolean(), false);
    EXPECT_EQ(flows[0]["first_at"].unsigned_integer(), 1'700'000'000U);
    EXPECT_EQ(flows[0]["span_ms"].unsigned_integer(), 1U);
    EXPECT_EQ(flows[1].text("src"), kNode) << "the higher port is the node's";
    EXPECT_EQ(flows[1].text("class"), "ht-hd");
    EXPECT_EQ(flows[1]["rule"].unsigned_integer(), 3U);
    EXPECT_EQ(flows[1]["may_depend_on_process"].boolean(), true) << "if it is firefox";
    EXPECT_EQ(flows[1]["bytes_down"].unsigned_integer(), 1040U);
    EXPECT_EQ(flows[2].text("src"), "2001:db8::2") << "it sent the SYN";
    EXPECT_EQ(flows[2].text("action"), "deny");
    EXPECT_TRUE(flows[3]["rule"].is_null());
    EXPECT_TRUE(flows[3]["app"].is_null());
    EXPECT_EQ(flows[3].text("class"), "ht-ld") << "the default of UDP";
    EXPECT_EQ(json["packets"].unsigned_integer(), 6U);
    EXPECT_EQ(json["whole"].boolean(), true);
    const std::string text = run(file_.text()).out;
    EXPECT_NE(text.find("10.0.0.2:40001"), std::string::npos) << text;
    EXPECT_NE(text.find("or by its process"), std::string::npos) << text;
    EXPECT_LT(text.find("ht-hd"), text.find("lt-ld")) << "what carried most comes first\n" << text;
}

TEST_F(ClassifyCommand, TheDscpOfTheNodesFirstPacketCounts) {
    auto fields = CaptureFile::fields_of(Protocol::Udp, kNode, 40000, kServer, 4000);
    constexpr uint8_t kExpedited = 46 << 2;
    fields.tos = kExpedited;
    file_.add(fields, 10, now_ns_);
    EXPECT_EQ(json_of(file_)["flows"].items()[0].text("app"), "voice");
}

TEST_F(ClassifyCommand, AFlowThatOutgrowsItsClassIsPromoted) {
    for (int i = 0; i < 100; ++i) {  // 1 Mbit/s for five seconds
        file_.add(CaptureFile::fields_of(Protocol::Udp, kNode, 40000, kServer, 53), 6000,
                  now_ns_ += 50 * kNsPerMs);
    }
    const JsonValue flow = json_of(file_)["flows"].items()[0];
    EXPECT_EQ(flow.text("class"), "ht-ld");
    EXPECT_EQ(flow.text("class_at_first"), "lt-ld");
    EXPECT_NE(run(file_.text()).out.find("was lt-ld: its rate"), std::string::npos);
}

TEST_F(ClassifyCommand, TheBeginningsOfPacketsAreEnough) {
    std::vector<uint8_t> cut(28);  // headers of a datagram of 1000 bytes
    auto fields = CaptureFile::fields_of(Protocol::Udp, kNode, 40000, kServer, 53);
    std::vector<uint8_t> whole(1028);
    packet::write_headers(fields, base::ByteView(whole).subspan(28), false, whole);
    std::copy_n(whole.begin(), cut.size(), cut.begin());
    file_.add(cut, now_ns_);
    const JsonValue flow = json_of(file_)["flows"].items()[0];
    EXPECT_EQ(flow.text("app"), "dns");
    EXPECT_EQ(flow["bytes_up"].unsigned_integer(), 1028U);
}

TEST_F(ClassifyCommand, PacketsOfNoFlowAreCounted) {
    add(Protocol::Udp, kNode, 40000, kServer, 53);
    std::vector<uint8_t> gre(40, 0);
    gre[0] = 0x45;
    gre[3] = 40;
    gre[9] = 47;
    file_.add(gre, now_ns_);
    std::vector<uint8_t> fragment = gre;
    fragment[9] = 17;
    fragment[7] = 9;  // offset 72
    file_.add(fragment, now_ns_);
    std::vector<uint8_t> bad(20, 0);
    bad[0] = 0x41;  // a header of four bytes
    bad[3] = 20;
    file_.add(bad, now_ns_);
    const JsonValue json = json_of(file_);
    EXPECT_EQ(json["flows"].items().size(), 1U);
    EXPECT_EQ(json["skipped"]["other_protocols"].unsigned_integer(), 1U);
    EXPECT_EQ(json["skipped"]["fragments"].unsigned_integer(), 1U);
    EXPECT_EQ(json["skipped"]["malformed"].unsigned_integer(), 1U);
    EXPECT_NE(run(file_.text())
                  .out.find("packets of no flow: 1 neither TCP, UDP nor ping, "
                            "1 later fragments, 1 damaged"),
              std::string::npos);
}

TEST_F(ClassifyCommand, ACaptureThatIsCutOffIsShownAsFarAsItGoes) {
    add(Protocol::Udp, kNode, 40000, kServer, 53);
    add(Protocol::Udp, kNode, 40001, kServer, 53);
    const std::string whole = file_.text();
    const CommandOutput output = run(whole.substr(0, whole.size() - 5), {"--json"});
    EXPECT_EQ(output.exit_code, report::kExitError);
    EXPECT_NE(output.err.find("ends within a packet: the file is cut off"), std::string::npos);
    const auto json = JsonValue::parse(output.out);
    ASSERT_TRUE(json);
    EXPECT_EQ((*json)["flows"].items().size(), 1U);
    EXPECT_EQ((*json)["whole"].boolean(), false);
}

TEST_F(ClassifyCommand, WhatIsNoCaptureIsAnError) {
    const CommandOutput text = run("not a capture at all\n");
    EXPECT_EQ(text.exit_code, report::kExitError);
    EXPECT_TRUE(text.out.empty());
    EXPECT_EQ(text.err,
              "cnapt: " + root_ + "/capture is no capture file (neither pcap nor pcapng)\n");
    EXPECT_NE(run("").err.find("is empty"), std::string::npos);
    EXPECT_NE(run(CaptureFile().text()).err.find("has no IP packet"), std::string::npos);
    const CommandOutput none = run_words({"--pcap", root_ + "/nothing"});
    EXPECT_NE(none.err.find("cannot read " + root_ + "/nothing: No such file"), std::string::npos);
    EXPECT_NE(run_words({"--pcap", root_}).err.find("Is a directory"), std::string::npos);
    EXPECT_EQ(run_words({}).exit_code, report::kExitUsage);
}

TEST_F(ClassifyCommand, ABadPolicyIsSaidWithItsPlace) {
    add(Protocol::Udp, kNode, 40000, kServer, 53);
    ASSERT_TRUE(io::write_file_atomically(root_ + "/policy.toml", "version = 1\n[[rul]]\n"));
    const CommandOutput output = run(file_.text());
    EXPECT_EQ(output.exit_code, report::kExitConfig);
    EXPECT_NE(output.err.find("policy.toml:2:"), std::string::npos) << output.err;
    EXPECT_TRUE(output.out.empty());
}

// As a flood of a scanner leaves it.
TEST_F(ClassifyCommand, FurtherFlowsThanAreToldApartAreCounted) {
    CaptureFlows flows(classifier::built_in_ruleset(), 1);
    auto fields = CaptureFile::fields_of(Protocol::Udp, kNode, 1, kServer, 9);
    std::vector<uint8_t> packet(28);
    for (size_t i = 0; i < kMaxCaptureFlows + 7; ++i) {
        fields.source_port = static_cast<uint16_t>(1000 + i % 50'000);
        fields.destination = base::IpAddress::v4(static_cast<uint32_t>(0xC6336400U + i / 50'000));
        packet::write_headers(fields, {}, false, packet);
        packet::CapturedPacket captured;
        captured.bytes = packet;
        captured.length = packet.size();
        EXPECT_EQ(flows.add(captured) != nullptr, i < kMaxCaptureFlows);
    }
    EXPECT_EQ(flows.flows().size(), kMaxCaptureFlows);
    EXPECT_EQ(flows.rest().beyond_limit, 7U);
}

}  // namespace
}  // namespace continuo::cnapt::commands
