#include "common/io/file.hpp"
#include "common/record/recording.hpp"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

namespace continuo::record {
namespace {

using base::IpAddress;

class Recorded : public testing::Test {
  protected:
    Recorded() {
        std::string pattern = std::filesystem::temp_directory_path() / "recording.XXXXXX";
        folder_ = ::mkdtemp(pattern.data());
        path_ = folder_ + "/file";
    }
    ~Recorded() override { std::filesystem::remove_all(folder_); }

    std::string content() const { return io::read_file(path_, size_t{64} << 20).value(); }
    std::unique_ptr<PacketRecorder> recorder(uint64_t limit_bytes) {
        return std::make_unique<PacketRecorder>(
            loop_, std::move(io::open_private_file(path_, false).value()),
            PacketRecorderOptions{path_, limit_bytes, "t0"});
    }
    // Blocks of the file by type; every length is right and said twice.
    std::vector<std::string> blocks(uint32_t type) const {
        const std::string text = content();
        std::vector<std::string> found;
        const auto word = [&](size_t at) {
            return base::load_big_endian<uint32_t>(
                reinterpret_cast<const uint8_t*>(text.data() + at));
        };
        for (size_t at = 0; at < text.size();) {
            const uint32_t length = word(at + 4);
            EXPECT_LE(at + length, text.size());
            EXPECT_EQ(word(at + length - 4), length);
            if (word(at) == type) {
                found.push_back(text.substr(at, length));
            }
            at += length;
        }
        return found;
    }

    io::EventLoop loop_;
    std::string folder_;
    std::string path_;
};

constexpr uint32_t kStatistics = 5;
constexpr uint32_t kPacket = 6;
constexpr uint64_t kNoLimit = UINT64_MAX;

TEST_F(Recorded, WritesInnerPacketsWithTheirDirection) {
    auto sink = recorder(kNoLimit);
    const std::array<uint8_t, 4> packet = {0x45, 1, 2, 3};
    sink->inner(packet, {}, packet::CaptureDirection::Outbound);
    sink.reset();
    const auto written = blocks(kPacket);
    ASSERT_EQ(written.size(), 1U);
    EXPECT_EQ(written[0].substr(28, 4), std::string("\x45\1\2\3", 4));
    EXPECT_EQ(written[0][11], 0);  // interface
    EXPECT_EQ(written[0][39], 2);  // direction
}

TEST_F(Recorded, WritesEachDatagramOfARunBelowAHeader) {
    auto sink = recorder(kNoLimit);
    io::UdpSocketOptions options;
    options.local = {*IpAddress::parse("127.0.0.1"), 0};
    const auto socket = io::UdpSocket::open(options);
    ASSERT_TRUE(socket.has_value());
    std::array<uint8_t, 25> run{};
    const base::Endpoint remote{*IpAddress::parse("127.0.0.2"), 9347};
    sink->sent(*socket, {remote, IpAddress::any(base::IpVersion::V4), run, 10, 0xB8});
    sink->received(*socket, {remote, IpAddress::any(base::IpVersion::V4), run, 0});
    sink.reset();
    const auto written = blocks(kPacket);
    ASSERT_EQ(written.size(), 4U);
    const std::array<size_t, 4> lengths = {38, 38, 33, 53};
    for (size_t i = 0; i < lengths.size(); ++i) {
        EXPECT_EQ(written[i][11], 1);
        EXPECT_EQ(static_cast<uint8_t>(written[i][27]), lengths[i]);
    }
    EXPECT_EQ(written[0].substr(40, 8), std::string("\x7F\0\0\1\x7F\0\0\2", 8));
    EXPECT_EQ(written[3].substr(40, 8), std::string("\x7F\0\0\2\x7F\0\0\1", 8));
}

TEST_F(Recorded, WritesWhatGoesOverTcpToAnInterfaceOfItsOwn) {
    auto sink = recorder(kNoLimit);
    const packet::DatagramHeader header{{IpAddress::any(base::IpVersion::V4), 0},
                                        {*IpAddress::parse("127.0.0.2"), 9347}};
    std::array<uint8_t, 25> run{};
    run[20] = 7;
    sink->streamed(header, run, 20, packet::CaptureDirection::Outbound);
    report::JsonWriter json;
    sink->write_status(json);
    sink.reset();
    const auto written = blocks(kPacket);
    ASSERT_EQ(written.size(), 2U);
    for (const std::string& block : written) {
        EXPECT_EQ(block[11], 2);
        EXPECT_EQ(block.substr(40, 8), std::string("\0\0\0\0\x7F\0\0\2", 8));
    }
    EXPECT_EQ(static_cast<uint8_t>(written[1][27]), 28 + 5);
    EXPECT_EQ(written[1][28 + 28], 7);
    EXPECT_NE(json.take().find("\"tcp\":{\"written\":2,\"dropped\":0}"), std::string::npos);
}

TEST_F(Recorded, StopsAtTheLimitAndCountsWhatFollows) {
    constexpr uint64_t kLimit = 4096;
    auto sink = recorder(kLimit);
    const std::array<uint8_t, 500> packet{};
    for (int i = 0; i < 20; ++i) {
        sink->inner(packet, {}, packet::CaptureDirection::Inbound);
    }
    const std::array<uint8_t, 1> small{};
    sink->inner(small, {}, packet::CaptureDirection::Inbound);  // not even what would fit
    report::JsonWriter json;
    sink->write_status(json);
    sink.reset();
    EXPECT_LE(content().size(), kLimit);
    const size_t written = blocks(kPacket).size();
    EXPECT_GE(written, 6U);
    EXPECT_NE(json.take().find("\"state\":\"full\""), std::string::npos);
    const auto statistics = blocks(kStatistics);
    ASSERT_EQ(statistics.size(), packet::kCaptureInterfaces);
    EXPECT_EQ(static_cast<size_t>(statistics[0][43]), 21 - written);
}

TEST_F(Recorded, OpensNothingThatIsNotAskedFor) {
    config::Diagnostic complaint;
    const auto files = open_recording({}, "f.toml", complaint);
    ASSERT_TRUE(files.has_value());
    EXPECT_FALSE(files->capture.is_open());
    EXPECT_FALSE(files->keys.is_open());
    Recorders recorders(loop_, {}, {}, "t0");
    EXPECT_EQ(recorders.recording().packets, nullptr);
    EXPECT_EQ(recorders.recording().keys, nullptr);
}

TEST_F(Recorded, AFileThatCannotBeOpenedIsToldWithItsPlace) {
    config::DebugConfig debug;
    debug.capture_keys_file = folder_ + "/none/keys";
    debug.capture_keys_file_place = {7, 21};
    config::Diagnostic complaint;
    EXPECT_FALSE(open_recording(debug, "f.toml", complaint).has_value());
    EXPECT_EQ(config::to_text(complaint),
              "f.toml:7:21: error: \"capture_keys_file\" is \"" + debug.capture_keys_file +
                  "\", which cannot be written: No such file or directory; expected a file in a "
                  "directory that is there");
}

TEST_F(Recorded, ExportsTheKeysOfBothDirections) {
    control::EpochKeys keys;
    keys.epoch = 3;
    keys.up.key.fill(0xA1);
    keys.up.iv.fill(0xB2);
    keys.down.key.fill(0xC3);
    keys.down.iv.fill(0xD4);
    const auto repeated = [](std::string_view octet, size_t count) {
        std::string text;
        for (size_t i = 0; i < count; ++i) {
            text += octet;
        }
        return text;
    };
    const std::string expected = "continuo_key 0a1b 3 up hmac-sha256/10 " + repeated("a1", 32) +
                                 " " + repeated("b2", 12) +
                                 "\ncontinuo_key 2c3d 3 down hmac-sha256/10 " + repeated("c3", 32) +
                                 " " + repeated("d4", 12) + "\n";
    const KeyNames names{0x0A1B, 0x2C3D, {control::ProtectionKind::HmacSha256, 10}};
    EXPECT_EQ(key_lines(names, keys), expected);
    KeyExport sink(std::move(io::open_private_file(path_, true).value()), path_);
    sink.add(names, keys);
    sink.add(names, keys);
    EXPECT_EQ(content(), expected + expected);
}

}  // namespace
}  // namespace continuo::record
