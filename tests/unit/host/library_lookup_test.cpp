#include "common/host/library_lookup.hpp"

#include <gtest/gtest.h>

namespace continuo::host {

using base::IpAddress;

TEST(LibraryLookup, ALiteralAddressIsItsOwn) {
    EXPECT_EQ(look_up_by_library("192.0.2.7"),
              std::vector<IpAddress>{*IpAddress::parse("192.0.2.7")});
    EXPECT_EQ(look_up_by_library("2001:db8::7"),
              std::vector<IpAddress>{*IpAddress::parse("2001:db8::7")});
}

TEST(LibraryLookup, ReadsTheHostsFile) {
    const auto found = look_up_by_library("localhost");
    ASSERT_FALSE(found.empty());
    for (const IpAddress& address : found) {
        EXPECT_TRUE(address == *IpAddress::parse("127.0.0.1") ||
                    address == *IpAddress::parse("::1"))
            << address.to_string();
    }
}

// No server is asked for it.
TEST(LibraryLookup, WhatCannotBeANameHasNoAddress) {
    EXPECT_TRUE(look_up_by_library("no name").empty());
    EXPECT_TRUE(look_up_by_library("").empty());
}

}  // namespace continuo::host
