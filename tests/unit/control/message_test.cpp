#include "common/control/message.hpp"
#include "common/control/message_reader.hpp"
#include "tests/unit/control/sample_messages.hpp"

#include <gtest/gtest.h>

namespace continuo::control {
namespace {

std::vector<uint8_t> serialized(const Message& message) {
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(append_message(bytes, message)) << message.index();
    return bytes;
}

base::ByteView body_of(const std::vector<uint8_t>& bytes) {
    return base::ByteView(bytes).subspan(kMessageHeaderBytes);
}

template <typename T>
T parsed_as(const std::vector<uint8_t>& bytes) {
    const auto parsed = parse_message(bytes[0], body_of(bytes));
    if (parsed && parsed->has_value()) {
        if (const T* found = std::get_if<T>(&**parsed)) {
            return *found;
        }
    }
    ADD_FAILURE() << "not that message";
    return {};
}

TEST(Message, TypeNumbersAreThoseOfTheVariant) {
    const auto messages = all_messages();
    ASSERT_EQ(messages.size(), std::variant_size_v<Message>);
    for (size_t i = 0; i < messages.size(); ++i) {
        EXPECT_EQ(messages[i].index(), i);
        EXPECT_EQ(serialized(messages[i])[0], i + 1);
    }
}

TEST(Message, ComesBackAsSent) {
    for (const Message& message : all_messages()) {
        const auto bytes = serialized(message);
        const auto parsed = parse_message(bytes[0], body_of(bytes));
        ASSERT_TRUE(parsed && parsed->has_value()) << message.index();
        EXPECT_EQ((*parsed)->index(), message.index());
        EXPECT_EQ(serialized(**parsed), bytes) << message.index();
    }
    const auto hello = serialized(full_hello());
    EXPECT_EQ(parsed_as<Hello>(hello), full_hello());
    const auto accept = serialized(full_accept());
    EXPECT_EQ(parsed_as<Accept>(accept), full_accept());
}

TEST(Message, EveryTruncationIsRefusedOrLacksOnlyOptionalFields) {
    for (const Message& message : all_messages()) {
        const auto bytes = serialized(message);
        if (std::holds_alternative<Data>(message) || std::holds_alternative<UsageReply>(message)) {
            continue;
        }
        // A cut between two fields may leave a message without its optional fields; then it must
        // say less, not other.
        for (size_t length = 0; length < body_of(bytes).size(); ++length) {
            const auto parsed = parse_message(bytes[0], body_of(bytes).first(length));
            if (parsed && parsed->has_value()) {
                EXPECT_EQ((*parsed)->index(), message.index());
                EXPECT_NE(serialized(**parsed), bytes) << message.index() << " at " << length;
            }
        }
    }
}

// If a message is readable after a bit was flipped, it is another one, and is written again to the
// same bytes each time.
TEST(Message, EveryFlippedBitIsRefusedOrReadsAsACanonicalMessage) {
    for (const Message& message : all_messages()) {
        std::vector<uint8_t> bytes = serialized(message);
        const size_t looked_at = std::min<size_t>(bytes.size(), 400);
        for (size_t bit = 0; bit < looked_at * 8; ++bit) {
            const auto mask = static_cast<uint8_t>(1U << (bit % 8));
            bytes[bit / 8] ^= mask;
            const auto parsed = parse_message(bytes[0], body_of(bytes));
            std::vector<uint8_t> first;
            if (parsed && parsed->has_value() && append_message(first, **parsed)) {
                const auto again = parse_message(first[0], body_of(first));
                ASSERT_TRUE(again && again->has_value()) << message.index() << " bit " << bit;
                EXPECT_EQ(serialized(**again), first) << message.index() << " bit " << bit;
            }
            bytes[bit / 8] ^= mask;
        }
    }
}

TEST(Message, AcceptWithTimesOfZeroIsRefused) {
    for (int which = 0; which < 4; ++which) {
        Accept accept = full_accept();
        accept.keepalive_s = which == 0 ? 0 : 25;
        accept.rekey_s = which == 1 ? 0 : 3600;
        accept.rekey_datagrams = which == 2 ? 0 : 1024;
        accept.idle_timeout_s = which == 3 ? 0 : 60;
        const auto bytes = serialized(accept);
        EXPECT_FALSE(parse_message(bytes[0], body_of(bytes))) << which;
    }
}

TEST(Message, MandatoryFieldsAreMandatory) {
    const auto hello = serialized(full_hello());
    // versions 1+2+2, node 1+2+6, software 1+2+9, session id 1+2+16, wire id 1+2+2, then the offers
    constexpr size_t kBeforeOffers = 5 + 9 + 12 + 19 + 5;
    for (size_t length = 0; length <= kBeforeOffers; ++length) {
        EXPECT_FALSE(parse_message(1, body_of(hello).first(length))) << length;
    }
    EXPECT_TRUE(parse_message(1, body_of(hello).first(kBeforeOffers + 3 + 4)));
}

TEST(Message, UnknownOptionalFieldsAreSkippedCriticalOnesRefused) {
    for (const Message& message : all_messages()) {
        if (std::holds_alternative<Data>(message) || std::holds_alternative<UsageReply>(message)) {
            continue;
        }
        auto bytes = serialized(message);
        const auto plain = bytes;
        bytes.insert(bytes.end(), {0x7F, 0, 2, 0xAA, 0xBB});
        const auto skipped = parse_message(bytes[0], body_of(bytes));
        ASSERT_TRUE(skipped && skipped->has_value()) << message.index();
        EXPECT_EQ(serialized(**skipped), plain);
        bytes[bytes.size() - 5] = 0x80;
        const auto refused = parse_message(bytes[0], body_of(bytes));
        ASSERT_FALSE(refused) << message.index();
        EXPECT_EQ(refused.error().code, base::Errc::Unsupported);
    }
}

TEST(Message, UnknownTypesAreSkippedCriticalOnesRefused) {
    EXPECT_FALSE(parse_message(0x7F, {})->has_value());
    EXPECT_FALSE(parse_message(0x00, {})->has_value());
    EXPECT_EQ(parse_message(0x80, {}).error().code, base::Errc::Unsupported);
}

TEST(Message, AFieldMayNotComeTwice) {
    auto bytes = serialized(Rekey{5});
    const auto field = std::vector<uint8_t>(bytes.begin() + kMessageHeaderBytes, bytes.end());
    bytes.insert(bytes.end(), field.begin(), field.end());
    EXPECT_EQ(parse_message(bytes[0], body_of(bytes)).error().code, base::Errc::Malformed);
}

TEST(Message, AcceptTellsALimitOfFlowsInField19) {
    Accept accept = full_accept();
    const std::vector<uint8_t> field = {19, 0, 4, 0, 0, 0x10, 0};
    auto bytes = serialized(accept);
    ASSERT_TRUE(std::equal(field.rbegin(), field.rend(), bytes.rbegin()));
    accept.user_flows = 0;
    const auto without = serialized(accept);
    EXPECT_EQ(without.size() + field.size(), bytes.size());
    EXPECT_EQ(parsed_as<Accept>(without).user_flows, 0U) << "an older SNAPT tells none";
    bytes.pop_back();
    bytes[bytes.size() - field.size() + 3] = 3;
    EXPECT_FALSE(parse_message(bytes[0], body_of(bytes)));
}

TEST(Message, UnknownProtectionsAreLeftOutOfHello) {
    Hello hello = full_hello();
    hello.offers = {{static_cast<ProtectionKind>(99), 16},
                    {ProtectionKind::Aes256Gcm, 16},
                    {ProtectionKind::Aes256Gcm, 10},  // no such tag
                    {ProtectionKind::HmacSha256, 10}};
    const auto bytes = serialized(hello);
    EXPECT_EQ(parsed_as<Hello>(bytes).offers, full_hello().offers);
}

TEST(Message, ControlCharactersInTextAreRefusedBothWays) {
    std::vector<uint8_t> bytes;
    EXPECT_FALSE(append_message(bytes, Reject{RejectReason::Internal, "a\nb"}));
    EXPECT_TRUE(bytes.empty());
    const std::array<uint8_t, 8> body = {1, 0, 1, 1, 2, 0, 1, '\n'};
    EXPECT_FALSE(parse_message(3, body));
}

TEST(Message, BeyondALimitNothingIsAppended) {
    Hello hello = full_hello();
    hello.node.assign(kMaxNameBytes + 1, 'n');
    Apps apps;
    apps.apps.assign(kMaxApps + 1, {1, "a"});
    Directory directory;
    directory.entries.assign(kMaxDirectoryEntries + 1, {"s", "r", {}, 0, 0});
    const std::vector<uint8_t> long_datagram(kMaxMessageBodyBytes + 1, 0);
    Apps big;
    big.apps.assign(kMaxApps, {1, std::string(kMaxNameBytes, 'a')});
    const std::vector<Message> beyond = {
        hello,
        apps,
        directory,
        big,
        Data{long_datagram},
        Data{},
        UsageReply{1, std::string(kMaxUsageBytes + 1, 'x')},
        Reject{RejectReason::Internal, std::string(kMaxTextBytes + 1, 't')}};
    for (const Message& message : beyond) {
        std::vector<uint8_t> bytes = {42};
        const auto result = append_message(bytes, message);
        ASSERT_FALSE(result) << message.index();
        EXPECT_EQ(result.error().code, base::Errc::LimitReached);
        EXPECT_EQ(bytes.size(), 1U);
    }
}

TEST(Message, ADirectoryEntryTellsVersionsWithoutAWayOut) {
    Directory directory;
    directory.entries.push_back({"s", "r", {}, 0, 1000, {{"snapt.example.org", 9347}}});
    const auto without = serialized(directory);
    directory.entries.front().no_way_out = {true, true};
    EXPECT_EQ(parsed_as<Directory>(serialized(directory)), directory);
    directory.entries.front().no_way_out = {false, true};
    auto bytes = serialized(directory);
    EXPECT_EQ(parsed_as<Directory>(bytes), directory);
    EXPECT_EQ(bytes.size(), without.size() + 4) << "nothing is told where nothing is lost";
    bytes.back() = 0xFC;
    EXPECT_EQ(parsed_as<Directory>(bytes), parsed_as<Directory>(without)) << "not assigned";
}

TEST(Message, ADirectoryEntryHasAnAddressOrANameAndSixteenOfBothAtMost) {
    const auto endpoint = *base::Endpoint::parse("192.0.2.1:2");
    Directory directory;
    directory.entries.push_back({"s", "r", {}, 0, 1000, {{"snapt.example.org", 9347}}});
    EXPECT_EQ(parsed_as<Directory>(serialized(directory)), directory);
    DirectoryEntry& entry = directory.entries.front();
    entry.addresses.assign(kMaxDirectoryAddresses - 1, endpoint);
    EXPECT_EQ(parsed_as<Directory>(serialized(directory)), directory);
    std::vector<uint8_t> bytes;
    entry.addresses.push_back(endpoint);
    EXPECT_FALSE(append_message(bytes, directory));
    entry.addresses.clear();
    entry.names.front().name.assign(kMaxHostNameBytes + 1, 'n');
    EXPECT_FALSE(append_message(bytes, directory));
    entry.names.clear();
    EXPECT_FALSE(append_message(bytes, directory));
    // From a peer that keeps no such limit: an entry without an address, a name that is empty.
    const std::array<uint8_t, 11> no_address = {1, 0, 8, 1, 0, 1, 's', 2, 0, 1, 'r'};
    EXPECT_FALSE(parse_message(8, no_address));
    const std::array<uint8_t, 16> no_name = {1, 0, 13, 1, 0, 1, 's', 2, 0, 1, 'r', 6, 0, 2, 0, 9};
    EXPECT_FALSE(parse_message(8, no_name));
    const std::array<uint8_t, 17> good = {1, 0, 14, 1, 0, 1, 's', 2, 0, 1, 'r', 6, 0, 3, 0, 9, 'h'};
    EXPECT_TRUE(parse_message(8, good));
}

TEST(MessageReader, CutsAnyFragmentationIntoTheSameMessages) {
    std::vector<uint8_t> stream;
    for (const Message& message : all_messages()) {
        ASSERT_TRUE(append_message(stream, message));
    }
    for (const size_t step : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}, size_t{100000}}) {
        MessageReader reader;
        std::vector<uint8_t> again;
        size_t at = 0;
        while (at < stream.size()) {
            const base::MutableByteView room = reader.room();
            ASSERT_FALSE(room.empty());
            const size_t count = std::min({step, room.size(), stream.size() - at});
            std::copy_n(stream.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
            reader.filled(count);
            at += count;
            while (const auto raw = reader.next()) {
                const auto parsed = parse_message(raw->type, raw->body);
                ASSERT_TRUE(parsed && parsed->has_value());
                ASSERT_TRUE(append_message(again, **parsed));
            }
        }
        EXPECT_EQ(again, stream) << step;
    }
}

TEST(MessageReader, GivesTheLongestMessage) {
    const std::vector<uint8_t> datagram(kMaxMessageBodyBytes, 9);
    const auto bytes = serialized(Data{datagram});
    MessageReader reader;
    size_t at = 0;
    std::optional<RawMessage> raw;
    while (!raw) {
        const base::MutableByteView room = reader.room();
        const size_t count = std::min(room.size(), bytes.size() - at);
        ASSERT_GT(count, 0U);
        std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), count, room.begin());
        reader.filled(count);
        at += count;
        raw = reader.next();
    }
    EXPECT_EQ(raw->body.size(), kMaxMessageBodyBytes);
}

}  // namespace
}  // namespace continuo::control
