// ResolvFileTest: a resolv.conf in a directory of the test's own.
#pragma once

#include "cnapt/names/resolv_file.hpp"
#include "common/io/file.hpp"

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace continuo::cnapt::names {

namespace fs = std::filesystem;

inline constexpr const char* kOriginal = "nameserver 192.168.1.1\nsearch lan\n";

class ResolvFileTest : public ::testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = ::testing::TempDir() + "/continuo-resolv-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root = pattern;
        fs::create_directory(root + "/etc");
        path = root + "/etc/resolv.conf";
        kept = root + "/dns";
    }
    void TearDown() override { fs::remove_all(root); }

    void write(const std::string& text, mode_t mode = 0644) const {
        ASSERT_TRUE(io::write_file_atomically(path, text, mode));
    }
    std::string read() const {
        auto text = io::read_file(path, 1 << 20);
        return text ? *text : "<none>";
    }
    ResolvFile open() const {
        auto file = ResolvFile::open(path, kept);
        EXPECT_TRUE(file);
        return std::move(*file);
    }
    std::set<std::string> names() const {
        std::set<std::string> all;
        for (const auto& entry : fs::directory_iterator(root + "/etc")) {
            all.insert(entry.path().filename());
        }
        return all;
    }
    // The attributes of the file itself, also when it is a link.
    std::string attributes() const {
        struct stat status {};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0);
        std::string text;
        for (const auto value :
             {static_cast<int64_t>(status.st_ino), static_cast<int64_t>(status.st_mode),
              static_cast<int64_t>(status.st_uid), static_cast<int64_t>(status.st_gid),
              static_cast<int64_t>(status.st_mtim.tv_sec),
              static_cast<int64_t>(status.st_mtim.tv_nsec)}) {
            text += std::to_string(value) + " ";
        }
        return text;
    }
    bool has_kept() const { return fs::exists(kept + "/resolv.conf"); }

    const std::vector<base::IpAddress> servers = {*base::IpAddress::parse("198.51.100.53")};
    const std::vector<base::IpAddress> lan = {*base::IpAddress::parse("192.168.1.1")};
    std::string root;
    std::string path;
    std::string kept;
};

}  // namespace continuo::cnapt::names
