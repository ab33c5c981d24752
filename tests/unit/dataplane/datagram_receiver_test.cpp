#include "common/dataplane/datagram_receiver.hpp"

#include <map>
#include <string>

#include <gtest/gtest.h>

namespace continuo::dataplane {
namespace {

constexpr uint16_t kPort = 9347;

using base::DropReason;

constexpr size_t kDatagramBytes = 8;
constexpr uint8_t kSealed = wire::kProtocolVersion << 4;
constexpr uint8_t kUnsealed = wire::kUnsealedVersion << 4;

// A datagram of `bytes` for session `id`; its last byte is `mark`.
std::vector<uint8_t>
datagram(uint8_t id, uint8_t mark, uint8_t first = kSealed, size_t bytes = kDatagramBytes) {
    std::vector<uint8_t> made(bytes);
    made[0] = first;
    if (bytes > 3) {
        made[3] = id;
    }
    made.back() = mark;
    return made;
}

// Sessions 1 and 2 exist. A run is noted as "<id>:<marks>".
class Receiver : public testing::Test {
  protected:
    void add(const std::vector<uint8_t>& bytes) {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    void split(uint16_t segment_bytes = kDatagramBytes) {
        io::ReceivedBatch batch;
        batch.from = {*base::IpAddress::parse("192.0.2.7"), 4500};
        batch.to = *base::IpAddress::parse("203.0.113.9");
        batch.bytes = bytes_;
        batch.segment_bytes = segment_bytes;
        receiver_.split(
            batch, kPort,
            [this](uint16_t id) {
                const auto at = owners_.find(id);
                return at == owners_.end() ? nullptr : &at->second;
            },
            [&](std::string& owner, std::span<session::ReceivedDatagram> run) {
                std::string text = owner + ":";
                for (const session::ReceivedDatagram& one : run) {
                    text += static_cast<char>(one.bytes.back());
                    EXPECT_EQ(one.from, batch.from);
                    EXPECT_EQ(one.to, (base::Endpoint{batch.to, kPort}));
                }
                runs_.push_back(text);
            },
            [this](wire::DatagramKind kind, const session::ReceivedDatagram& one) {
                strays_ += static_cast<char>(one.bytes.back());
                return kind == wire::DatagramKind::Unsealed && takes_unsealed_;
            });
    }

    std::map<uint16_t, std::string> owners_ = {{1, "one"}, {2, "two"}};
    bool takes_unsealed_ = true;
    std::vector<uint8_t> bytes_;
    base::DropCounters drops_;
    DatagramReceiver receiver_{drops_};
    std::vector<std::string> runs_;
    std::string strays_;
};

TEST_F(Receiver, HandsDatagramsOfOneSessionOverTogether) {
    add(datagram(1, 'a'));
    add(datagram(1, 'b'));
    add(datagram(2, 'c'));
    add(datagram(1, 'd'));
    split();
    EXPECT_EQ(runs_, (std::vector<std::string>{"one:ab", "two:c", "one:d"}));
    EXPECT_EQ(strays_, "");
}

TEST_F(Receiver, KeepsNothingForTheNextBatch) {
    add(datagram(1, 'a'));
    split();
    split();
    EXPECT_EQ(runs_, (std::vector<std::string>{"one:a", "one:a"}));
}

TEST_F(Receiver, ABatchWithoutSegmentsIsOneDatagram) {
    add(datagram(1, 'a'));
    add(datagram(2, 'b'));
    split(0);
    EXPECT_EQ(runs_, (std::vector<std::string>{"one:b"}));
}

TEST_F(Receiver, TheLastSegmentMayBeShorter) {
    add(datagram(1, 'a'));
    add(datagram(1, 'b', kSealed, kDatagramBytes - 1));
    split();
    EXPECT_EQ(runs_, (std::vector<std::string>{"one:ab"}));
}

TEST_F(Receiver, StrangersDoNotTearARunApart) {
    add(datagram(1, 'a'));
    add(datagram(9, 'x'));
    add(datagram(1, 'b'));
    split();
    EXPECT_EQ(runs_, (std::vector<std::string>{"one:ab"}));
    EXPECT_EQ(strays_, "x");
    EXPECT_EQ(drops_.count(DropReason::UnknownSession), 1U);
}

TEST_F(Receiver, UnsealedMessagesAreNoDropsWhereTheyAreOfUse) {
    add(datagram(0, 'u', kUnsealed));
    split();
    EXPECT_EQ(strays_, "u");
    EXPECT_EQ(drops_.count(DropReason::BadVersion), 0U);
    takes_unsealed_ = false;
    split();
    EXPECT_EQ(drops_.count(DropReason::BadVersion), 1U);
    EXPECT_TRUE(runs_.empty());
}

TEST_F(Receiver, CountsOtherVersionsAndStumps) {
    add(datagram(1, 'v', 0xF0));
    split();
    EXPECT_EQ(drops_.count(DropReason::BadVersion), 1U);
    bytes_ = datagram(1, 's', kSealed, wire::kShortHeaderBytes - 1);
    strays_.clear();
    split();
    EXPECT_EQ(drops_.count(DropReason::TooShort), 1U);
    EXPECT_EQ(strays_, "");  // nobody may answer it
    bytes_ = {0xF0};
    split();
    EXPECT_EQ(drops_.count(DropReason::TooShort), 2U);
    EXPECT_TRUE(runs_.empty());
}

}  // namespace
}  // namespace continuo::dataplane
