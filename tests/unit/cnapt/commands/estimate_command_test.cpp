#include "cnapt/cli.hpp"
#include "cnapt/commands/capture_clock.hpp"
#include "cnapt/commands/estimate_command.hpp"
#include "cnapt/commands/estimate_tunnel.hpp"
#include "cnapt/settings/node_config.hpp"
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

constexpr uint64_t kStep = 1'000'000;
constexpr const char* kLaptop = "10.0.0.2";
constexpr const char* kPage = "198.51.100.2";

class EstimateCommand : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/continuo-estimate-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        config_ = root_ + "/cnapt.toml";
        settings::NodeConfig config;
        config.realm = "example.net";
        config.identity.user = "alice";
        config.identity.key_id = "k1";
        config.identity.key = config::Key{1, 2};
        config.snapts = {{"zrh-1", {{"203.0.113.9", 9347}}, config::Key{3, 4}}};
        ASSERT_TRUE(io::write_file_atomically(config_, settings::render_node_config(config)));
    }
    void TearDown() override { std::filesystem::remove_all(root_); }

    CommandOutput run(const std::vector<std::string>& more = {}) {
        EXPECT_TRUE(io::write_file_atomically(root_ + "/capture", file_.text()));
        std::vector<std::string> words = {"estimate", "--pcap", root_ + "/capture", "--config",
                                          config_};
        words.insert(words.end(), more.begin(), more.end());
        std::vector<const char*> arguments;
        arguments.reserve(words.size());
        for (const std::string& word : words) {
            arguments.push_back(word.c_str());
        }
        const report::CommandLine line = report::parse_command_line(program_spec(), arguments);
        EXPECT_TRUE(line.command) << line.text;
        return estimate_command(*line.command, false);
    }
    JsonValue json(std::vector<std::string> more = {}) {
        more.emplace_back("--json");
        const CommandOutput output = run(more);
        EXPECT_EQ(output.exit_code, report::kExitGood) << output.err;
        return JsonValue::parse(output.out).value();
    }
    // Small packets to a name server, one a millisecond: thin streams of class lt-ld.
    void add_questions(int count, uint64_t pause_ns = kStep) {
        for (int i = 0; i < count; ++i) {
            file_.add(CaptureFile::fields_of(Protocol::Udp, kLaptop, 40000, kPage, 53),
                      std::vector<uint8_t>(30, static_cast<uint8_t>('a' + i % 26)),
                      now_ns_ += pause_ns);
        }
    }
    // A download whose payload is `byte_at`.
    template <typename ByteAt>
    void add_download(int segments, ByteAt&& byte_at, uint32_t segment = 1400) {
        auto up = CaptureFile::fields_of(Protocol::Tcp, kLaptop, 40001, kPage, 80,
                                         packet::tcp_flag::kSyn);
        auto down = CaptureFile::fields_of(Protocol::Tcp, kPage, 80, kLaptop, 40001,
                                           packet::tcp_flag::kSyn | packet::tcp_flag::kAck);
        file_.add(up, 0, now_ns_ += kStep);
        file_.add(down, 0, now_ns_ += kStep);
        up.flags = down.flags = packet::tcp_flag::kAck;
        up.window = down.window = 1000;
        for (int i = 0; i < segments; ++i) {
            std::vector<uint8_t> payload(segment);
            for (uint8_t& byte : payload) {
                byte = byte_at();
            }
            file_.add(down, payload, now_ns_ += kStep);
            down.sequence += segment;
            up.acknowledgement = down.sequence;
            if (i % 2 == 1) {
                file_.add(up, 0, now_ns_ += kStep / 10);
            }
        }
    }

    // A packet that says that it is longer than what the file has of it.
    void add_cut_packet() {
        const auto fields = CaptureFile::fields_of(Protocol::Udp, kLaptop, 40000, kPage, 53);
        std::vector<uint8_t> cut(768);
        packet::write_headers(fields, base::ByteView(cut).subspan(28), false, cut);
        cut.resize(100);
        file_.add(cut, now_ns_);
    }

    std::string root_;
    std::string config_;
    CaptureFile file_;
    uint64_t now_ns_ = 1'700'000'000ULL * 1'000'000'000;
};

double figure_of(const JsonValue& value) {
    return value.number().value_or(-1000);
}

TEST_F(EstimateCommand, ManySmallPacketsShareFrames) {
    add_questions(2000);
    const JsonValue told = json();
    const JsonValue& up = told["classes"]["lt-ld"]["up"];
    EXPECT_EQ(up["packets"].unsigned_integer(), 2000U);
    EXPECT_EQ(up["inner_bytes"].unsigned_integer(), 2000U * 58);
    EXPECT_LT(figure_of(up["datagrams"]), 1000);
    EXPECT_GT(figure_of(up["frames_saved_percent"]), 50);
    EXPECT_GT(figure_of(up["saved_percent"]), 20);
    EXPECT_EQ(told["classes"]["ht-hd"]["up"]["packets"].unsigned_integer(), 0U);
    EXPECT_TRUE(told["classes"]["ht-hd"]["up"]["saved_percent"].is_null());
    EXPECT_EQ(told["flows"].unsigned_integer(), 1U);
    EXPECT_GT(figure_of(told["overhead_bytes"]["down"]), 0) << "what the SNAPT acknowledges";
    const double frames = figure_of(up["datagrams"]) + figure_of(told["overhead_datagrams"]["up"]) +
                          figure_of(told["overhead_datagrams"]["down"]);
    EXPECT_GT(figure_of(told["overhead_datagrams"]["down"]), 0);
    EXPECT_EQ(figure_of(told["total"]["datagrams"]), frames) << "acknowledgements are frames too";
    const double all = figure_of(up["wire_bytes"]) + figure_of(told["overhead_bytes"]["up"]) +
                       figure_of(told["overhead_bytes"]["down"]);
    EXPECT_EQ(figure_of(told["total"]["wire_bytes"]), all);
}

// Nothing waits for the next question, a second later: each travels alone and pays for its seal.
TEST_F(EstimateCommand, PacketsThatTravelAloneSaveNoFrames) {
    add_questions(20, 1000 * kStep);
    const JsonValue told = json();
    EXPECT_EQ(figure_of(told["classes"]["lt-ld"]["up"]["frames_saved_percent"]), 0);
    EXPECT_LT(figure_of(told["total"]["saved_percent"]), 0) << "and it is said";
}

TEST_F(EstimateCommand, TextIsCompressedAndRandomBytesAreNot) {
    uint64_t count = 0;
    add_download(400, [&] { return static_cast<uint8_t>("the quick brown fox "[count++ % 20]); });
    const double text = figure_of(json({"--rate", "20mbit"})["total"]["saved_percent"]);
    EXPECT_GT(text, 30);
    file_ = CaptureFile();
    base::SeededRandom random(7);
    add_download(400, [&] { return static_cast<uint8_t>(random.u64()); });
    const double noise = figure_of(json({"--rate", "20mbit"})["total"]["saved_percent"]);
    EXPECT_LT(noise, 10);
    EXPECT_GT(noise, -10);
}

// Full segments do not fit a datagram of the tunnel, whose programs learn a smaller MSS.
TEST_F(EstimateCommand, SegmentsOfAnotherNetworkAreCutAnew) {
    base::SeededRandom random(7);
    const auto noise = [&] { return static_cast<uint8_t>(random.u64()); };
    add_download(1460, noise, 1400);
    const JsonValue small = json({"--rtt", "1ms"});
    file_ = CaptureFile();
    add_download(1400, noise, 1460);
    const JsonValue full = json({"--rtt", "1ms"});
    const JsonValue& down = full["classes"]["ht-hd"]["down"];
    const double wire = figure_of(down["wire_bytes"]);
    EXPECT_NEAR(wire, figure_of(small["classes"]["ht-hd"]["down"]["wire_bytes"]),
                wire / 100 + 3000);
    EXPECT_GT(figure_of(down["packets"]), 1400);
    // A segment a millisecond: one leaves within the round trip after the SYN-ACK, before that is
    // acknowledged. Its headers are whole and do not fit beside a full segment.
    EXPECT_LE(figure_of(down["datagrams"]), figure_of(down["packets"]) + 1);
}

// Headers are whole until the first acknowledgement: the longer the round trip, the more segments
// take two datagrams, however many follow.
TEST_F(EstimateCommand, ALongerRoundTripCostsAtTheBeginningOfAFlow) {
    const auto more_datagrams = [&](int segments, const char* rtt) {
        base::SeededRandom random(7);
        file_ = CaptureFile();
        add_download(
            segments, [&] { return static_cast<uint8_t>(random.u64()); }, 1460);
        const JsonValue told = json({"--rtt", rtt});
        const JsonValue& down = told["classes"]["ht-hd"]["down"];
        return figure_of(down["datagrams"]) - figure_of(down["packets"]);
    };
    const double few = more_datagrams(200, "50ms");
    EXPECT_GT(few, 40) << "a segment a millisecond";
    EXPECT_LE(few, 50);
    EXPECT_EQ(more_datagrams(400, "50ms"), few);
    EXPECT_LE(more_datagrams(200, "5ms"), 5);
}

// A capture on the host that sends has the check sums that its device would write.
TEST_F(EstimateCommand, CheckSumsOfTheCaptureDoNotMatter) {
    uint64_t count = 0;
    const auto text = [&] { return static_cast<uint8_t>("the quick brown fox "[count++ % 20]); };
    add_download(100, text);
    const double right = figure_of(json()["total"]["wire_bytes"]);
    std::string bytes = file_.text();
    CaptureFile wrong;
    packet::CaptureReader reader([&](base::MutableByteView to) {
        const size_t part = std::min(to.size(), bytes.size());
        std::copy_n(bytes.begin(), part, to.begin());
        bytes.erase(0, part);
        return part;
    });
    while (const auto packet = *reader.next()) {
        std::vector<uint8_t> damaged(packet->bytes.begin(), packet->bytes.end());
        damaged[36] ^= 0xFFU;
        wrong.add(damaged, packet->at_ns);
    }
    file_ = wrong;
    EXPECT_EQ(figure_of(json()["total"]["wire_bytes"]), right);
}

TEST_F(EstimateCommand, ALinkThatIsTooSlowIsSaid) {
    base::SeededRandom random(7);
    add_download(2000, [&] { return static_cast<uint8_t>(random.u64()); });  // 11 Mbit/s
    const JsonValue told = json({"--rate", "1mbit"});
    const double dropped = figure_of(told["link_drops"]) +
                           figure_of(told["classes"]["lt-hd"]["down"]["queue_drops"]) +
                           figure_of(told["classes"]["ht-hd"]["down"]["queue_drops"]);
    EXPECT_GT(dropped, 0);
    EXPECT_NE(run({"--rate", "1mbit"}).out.find("the capture is faster than the link"),
              std::string::npos);
    EXPECT_NE(run({"--rate", "1mbit"}).out.find("the link is used to"), std::string::npos);
}

TEST_F(EstimateCommand, WhatIsWrongIsSaid) {
    add_questions(1);
    for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
             {"--rate", "fast"}, {"--rate", "0"}, {"--rtt", "11s"}, {"--rtt", "x"}}) {
        EXPECT_EQ(run({option, value}).exit_code, report::kExitUsage) << option << value;
    }
    EXPECT_NE(run({"--svg", root_ + "/no/folder.svg"}).err.find("cannot write"), std::string::npos);
}

TEST_F(EstimateCommand, AConfigurationThatIsNamedIsNotReplaced) {
    add_questions(1);
    ASSERT_TRUE(io::write_file_atomically(config_, "node = 7\n"));
    const CommandOutput invalid = run();
    EXPECT_EQ(invalid.exit_code, report::kExitConfig);
    EXPECT_EQ(invalid.out, "");
    EXPECT_NE(invalid.err.find("cnapt.toml:1:"), std::string::npos) << invalid.err;
    config_ = root_ + "/nothing.toml";
    const CommandOutput missing = run();
    EXPECT_EQ(missing.exit_code, report::kExitError);
    EXPECT_EQ(missing.out, "");
    EXPECT_NE(missing.err.find("cannot read " + config_ + ": "), std::string::npos) << missing.err;
}

// One that is cut off, or says a wrong length, costs itself and nothing else.
TEST_F(EstimateCommand, CutPacketsAreLeftOut) {
    add_questions(100);
    add_cut_packet();
    add_questions(100);
    const JsonValue told = json();
    EXPECT_EQ(told["classes"]["lt-ld"]["up"]["packets"].unsigned_integer(), 200U);
    EXPECT_EQ(told["left_out"]["cut_off"].unsigned_integer(), 1U);
    const CommandOutput output = run();
    EXPECT_NE(output.err.find("has only the beginnings of 1 packets, which are left out"),
              std::string::npos)
        << output.err;
    EXPECT_NE(output.out.find("1 cut off)"), std::string::npos) << output.out;
}

TEST_F(EstimateCommand, AnEstimateOfNothingSaysWhatWasLeftOut) {
    add_cut_packet();
    add_cut_packet();
    const JsonValue told = json({"--svg", root_ + "/estimate.svg"});
    EXPECT_EQ(told["total"]["packets"].unsigned_integer(), 0U);
    EXPECT_TRUE(told["total"]["saved_percent"].is_null());
    EXPECT_EQ(told["left_out"]["cut_off"].unsigned_integer(), 2U);
    const CommandOutput output = run();
    EXPECT_EQ(output.out,
              "no packet in the estimate\nleft out: 2 packets (0 of no flow, 0 by the policy, 0 "
              "without room, 2 cut off)\n");
    file_ = CaptureFile();
    const CommandOutput empty = run({"--json"});
    EXPECT_NE(empty.exit_code, report::kExitGood);
    EXPECT_EQ(empty.out, "");
}

TEST_F(EstimateCommand, APictureIsDrawn) {
    add_questions(100);
    const std::string path = root_ + "/estimate.svg";
    const CommandOutput output = run({"--svg", path});
    EXPECT_NE(output.out.find("lt-ld"), std::string::npos) << output.out;
    const auto svg = io::read_file(path, 100'000);
    ASSERT_TRUE(svg);
    EXPECT_TRUE(svg->starts_with("<svg ")) << *svg;
    EXPECT_TRUE(svg->ends_with("</svg>\n"));
    EXPECT_NE(svg->find("saved "), std::string::npos);
}

// Years of silence, clocks that go back, the last time that there is: what follows is estimated as
// if it were alone.
TEST_F(EstimateCommand, TimesOfACaptureAreNotBelieved) {
    constexpr int kCount = 2000;
    const std::vector<std::string> link = {"--rate", "1mbit"};
    add_questions(kCount);
    const JsonValue alone = json(link);
    const auto question = CaptureFile::fields_of(Protocol::Udp, kLaptop, 40000, kPage, 53);
    file_ = CaptureFile();
    for (const uint64_t at_ns :
         {now_ns_, uint64_t{1}, UINT64_MAX, uint64_t{0}, now_ns_ + kStep, UINT64_MAX}) {
        file_.add(question, 30, at_ns);
    }
    add_questions(kCount);
    const JsonValue told = json(link);
    const JsonValue& up = told["classes"]["lt-ld"]["up"];
    const JsonValue& up_alone = alone["classes"]["lt-ld"]["up"];
    EXPECT_EQ(up["packets"].unsigned_integer(), 6U + kCount);
    EXPECT_EQ(up["inner_bytes"].unsigned_integer(), (6U + kCount) * 58);
    EXPECT_NEAR(figure_of(up["datagrams"]), figure_of(up_alone["datagrams"]), 6 + 1);
    EXPECT_NEAR(figure_of(up["wire_bytes"]), figure_of(up_alone["wire_bytes"]), 6 * 150);
    EXPECT_EQ(told["link_drops"].unsigned_integer(), 0U);
    EXPECT_EQ(up["queue_drops"].unsigned_integer(), 0U);
    EXPECT_EQ(told["span_s"].unsigned_integer(), 3U * 3600 + kCount / 1000 - 1);
}

TEST(CaptureClock, GoesOnWhateverTheTimesAre) {
    CaptureClock clock;
    EXPECT_EQ(clock.at(5000), base::Duration{}) << "the first packet is at the beginning";
    EXPECT_EQ(clock.at(7000), base::Duration(2000));
    EXPECT_EQ(clock.at(6000), base::Duration(2000));
    EXPECT_EQ(clock.at(6500), base::Duration(2500));
    EXPECT_EQ(clock.at(UINT64_MAX), base::Duration(2500) + kLongestGap);
    EXPECT_EQ(clock.at(7000), base::Duration(2500) + kLongestGap);
    EXPECT_EQ(clock.at(8000), base::Duration(3500) + kLongestGap);
    for (int64_t i = 0; i < kLongestSpan / kLongestGap + 10; ++i) {
        clock.at(0);
        clock.at(UINT64_MAX);
    }
    EXPECT_EQ(clock.span(), kLongestSpan);
}

class Flood {
  public:
    explicit Flood(EstimateTunnel& tunnel) : tunnel_(tunnel) {
        tuple_.local = *base::IpAddress::parse(kLaptop);
        tuple_.remote = *base::IpAddress::parse(kPage);
        tuple_.local_port = 40000;
        tuple_.remote_port = 9;
        tuple_.protocol = Protocol::Udp;
    }
    // All at the same time; how many bytes.
    uint64_t send(int packets, size_t payload) {
        const auto fields = CaptureFile::fields_of(Protocol::Udp, kLaptop, 40000, kPage, 9);
        uint64_t bytes = 0;
        for (int i = 0; i < packets; ++i) {
            std::vector<uint8_t> packet(fields.header_bytes() + payload);
            for (size_t at = fields.header_bytes(); at < packet.size(); ++at) {
                packet[at] = static_cast<uint8_t>(random_.u64());
            }
            packet::write_headers(fields, base::ByteView(packet).subspan(fields.header_bytes()),
                                  false, packet);
            EXPECT_TRUE(tunnel_.send({tuple_, base::TrafficClass::HtLd, true, true}, packet, {}));
            bytes += packet.size();
        }
        return bytes;
    }

  private:
    EstimateTunnel& tunnel_;
    packet::FiveTuple tuple_;
    base::SeededRandom random_{7};
};

// However much a capture has in one moment: time goes on before all of it is in memory.
TEST(EstimateTunnel, WhatIsUnderWayIsBounded) {
    constexpr size_t kMost = 1 << 20;
    const dataplane::ClassTable classes =
        dataplane::class_table(config::default_class_knobs(), 1 << 20);
    EstimateTunnel narrow({.most_under_way = kMost}, {classes});
    const uint64_t bytes = Flood(narrow).send(4000, 1000);
    EXPECT_GE(narrow.delivered_bytes(), bytes - 2 * kMost) << "the queue has at most as much";
    narrow.finish();
    EXPECT_EQ(narrow.delivered_bytes(), bytes);
    EXPECT_EQ(narrow.link_drops(), 0U);
    EstimateTunnel usual({}, {classes});
    Flood(usual).send(4000, 1000);
    EXPECT_EQ(usual.delivered_bytes(), 0U) << "which is far below the usual limit";
}

TEST(EstimateTunnel, DeliversWhatGoesIn) {
    EstimateTunnel tunnel({}, {dataplane::class_table(config::default_class_knobs(), 1 << 20)});
    packet::FiveTuple tuple;
    tuple.local = *base::IpAddress::parse(kLaptop);
    tuple.remote = *base::IpAddress::parse(kPage);
    tuple.local_port = 40000;
    tuple.remote_port = 9;
    tuple.protocol = Protocol::Udp;
    uint64_t bytes = 0;
    for (int i = 0; i < 500; ++i) {
        const bool is_up = i % 3 != 0;
        const auto fields = is_up ? CaptureFile::fields_of(Protocol::Udp, kLaptop, 40000, kPage, 9)
                                  : CaptureFile::fields_of(Protocol::Udp, kPage, 9, kLaptop, 40000);
        std::vector<uint8_t> packet(fields.header_bytes() + 200);
        packet::write_headers(fields, base::ByteView(packet).subspan(fields.header_bytes()), false,
                              packet);
        bytes += packet.size();
        ASSERT_TRUE(tunnel.send({tuple, base::TrafficClass::HtLd, true, is_up}, packet,
                                base::milliseconds(i)));
    }
    tunnel.finish();
    EXPECT_EQ(tunnel.delivered_bytes(), bytes);
    EXPECT_EQ(tunnel.link_drops(), 0U);
}

}  // namespace
}  // namespace continuo::cnapt::commands
