#include "snapt/settings/directory.hpp"

#include <gtest/gtest.h>

namespace continuo::snapt::settings {
namespace {

SnaptConfig config() {
    SnaptConfig config = default_snapt_config();
    config.name = "zrh-1";
    config.realm = "example.net";
    config.public_addresses = {{"203.0.113.1", 9347}, {"snapt.example.org", 443}};
    config.snapts = {{"ber-1", {{"2001:db8::2", 9347}}}};
    return config;
}

TEST(Directory, HasTheSnaptItselfAndTheOthers) {
    const control::Directory expected = {
        {{"zrh-1",
          "example.net",
          {*base::Endpoint::parse("203.0.113.1:9347")},
          200,
          1000,
          {{"snapt.example.org", 443}}},
         {"ber-1", "example.net", {*base::Endpoint::parse("[2001:db8::2]:9347")}, 0, 1000}}};
    EXPECT_EQ(make_directory(config(), 200), expected);
}

TEST(Directory, TellsWhatUsageCostsHere) {
    SnaptConfig dear = config();
    dear.accounting.price_permille = 1250;
    EXPECT_EQ(make_directory(dear, 200).entries[0].price_permille, 1250U);
    EXPECT_EQ(make_directory(dear, 200).entries[1].price_permille, 1000U) << "it tells its own";
}

TEST(Directory, ASnaptThatCannotForwardHasTheHighestPriceAndTheOthersStay) {
    control::Directory directory = make_directory(config(), 200);
    set_no_forwarding(directory);
    EXPECT_EQ(directory.entries[0].load_permille, 1000U);
    EXPECT_EQ(directory.entries[0].price_permille, UINT32_MAX);
    EXPECT_EQ(directory.entries[1], make_directory(config(), 200).entries[1]);
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(control::append_message(bytes, directory));
}

TEST(Directory, AVersionWithoutAWayOutIsToldInItsOwnEntry) {
    const control::Directory directory = make_directory(config(), 200, {false, true});
    EXPECT_EQ(directory.entries[0].no_way_out, (control::VersionSet{false, true}));
    EXPECT_EQ(directory.entries[0].price_permille, 1000U);
    EXPECT_EQ(directory.entries[1], make_directory(config(), 200).entries[1]);
}

TEST(Directory, FitsAMessageWhateverTheConfigurationSays) {
    SnaptConfig large = config();
    const config::HostPort long_name = {std::string(control::kMaxHostNameBytes, 'n'), 9347};
    large.public_addresses.assign(control::kMaxDirectoryAddresses + 3, long_name);
    large.snapts.clear();
    for (size_t i = 0; i < kMaxOtherSnapts; ++i) {
        large.snapts.push_back(
            {"s" + std::to_string(i), std::vector(control::kMaxDirectoryAddresses, long_name)});
    }
    const control::Directory directory = make_directory(large, 0);
    EXPECT_EQ(directory.entries.front().names.size(), control::kMaxDirectoryAddresses);
    EXPECT_GE(directory.entries.size(), 10U);
    std::vector<uint8_t> bytes;
    EXPECT_TRUE(control::append_message(bytes, directory));
    // One more does not fit, until names are shorter; each byte up to there is tried.
    large.snapts.resize(directory.entries.size());
    large.public_addresses.resize(control::kMaxDirectoryAddresses);
    const auto told = [&] { return make_directory(large, 0, {true, true}); };
    for (size_t length = long_name.host.size(); told().entries.size() <= large.snapts.size();) {
        ASSERT_NE(--length, 0U);
        for (config::HostPort& place : large.public_addresses) {
            place.host.resize(length);
        }
    }
    for (config::HostPort& place : large.public_addresses) {
        bytes.clear();
        EXPECT_TRUE(control::append_message(bytes, told()));
        place.host += 'n';
    }
    EXPECT_EQ(told().entries.size(), large.snapts.size());
}

TEST(Directory, LoadIsToldInTenths) {
    EXPECT_EQ(load_permille(0, 10'000), 0U);
    EXPECT_EQ(load_permille(999, 10'000), 0U);
    EXPECT_EQ(load_permille(1000, 10'000), 100U);
    EXPECT_EQ(load_permille(10'000, 10'000), 1000U);
    EXPECT_EQ(load_permille(20'000, 10'000), 1000U);
    EXPECT_EQ(load_permille(7, 0), 0U) << "no limit";
}

}  // namespace
}  // namespace continuo::snapt::settings
