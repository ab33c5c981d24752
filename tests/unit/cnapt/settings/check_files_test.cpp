#include "cnapt/settings/check_files.hpp"
#include "cnapt/settings/node_config.hpp"
#include "common/io/file.hpp"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace continuo::cnapt::settings {
namespace {

namespace fs = std::filesystem;

constexpr const char* kKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";

class CheckFiles : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "/continuo-check-XXXXXX";
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        // The daemon's user, where there is one, reads all of it.
        ::chmod(root_.c_str(), 0755);
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string write(const std::string& name, const std::string& text, mode_t mode) const {
        const std::string path = root_ + "/" + name;
        EXPECT_TRUE(io::write_file_atomically(path, text, mode));
        return path;
    }
    std::string config(const std::string& key, const std::string& more = {}) const {
        return "[identity]\nuser = \"alice\"\nkey_id = \"k1\"\n" + key +
               "\n[[snapt]]\nname = \"zrh-1\"\naddresses = [\"203.0.113.9:9347\"]\n" + more;
    }
    std::string key_file(const std::string& path) const {
        return config("key_file = \"" + path + "\"");
    }
    // As people read them, without the folder.
    std::string findings(const std::string& text, mode_t mode = 0644) const {
        const std::string path = write("cnapt.toml", text, mode);
        std::string all;
        for (const config::Diagnostic& one : check_node_file(text, path)) {
            std::string line = to_text(one) + "\n";
            for (size_t at = line.find(root_); at != std::string::npos; at = line.find(root_)) {
                line.erase(at, root_.size() + 1);
            }
            all += line;
        }
        return all;
    }
    std::string root_;
};

TEST_F(CheckFiles, AKeyFileIsThereAndHoldsAKey) {
    const std::string good = write("good", std::string(kKey) + "\n", 0644);
    const std::string bad = write("bad", "secret\n", 0644);
    EXPECT_EQ(findings(key_file(root_ + "/none")),
              "cnapt.toml:4:12: error: \"identity.key_file\" is \"none\", which cannot be read: No "
              "such file or directory; expected a file with the key\n");
    EXPECT_EQ(findings(key_file(bad))
                  .find("cnapt.toml:4:12: error: \"identity.key_file\" is \"bad\", "
                        "which holds no key; expected"),
              0U);
    EXPECT_EQ(
        findings(key_file(good)),
        "good:1:1: warning: it holds a key, and every user of this host may read it; expected "
        "mode 0640 or 0600\n");
}

TEST_F(CheckFiles, AConfigurationWithAKeyIsNotForEverybody) {
    const std::string with_key = config("key = \"" + std::string(kKey) + "\"");
    EXPECT_EQ(findings(with_key, 0644),
              "cnapt.toml:1:1: warning: it holds a key, and every user of this host may read it; "
              "expected mode 0640 or 0600\n");
    EXPECT_EQ(findings(with_key, 0600).find("every user"), std::string::npos);
    EXPECT_EQ(findings("[default]\ntcp = \"lt-ld\"\n"), "") << "a policy may be read";
}

TEST_F(CheckFiles, CapturesCanBeWritten) {
    const std::string key = "key_file = \"" + write("key", kKey, 0600) + "\"";
    const auto debug = [&](const std::string& path) {
        return findings(config(key, "[debug]\ncapture_file = \"" + path + "\"\n"));
    };
    EXPECT_NE(debug(root_ + "/none/x.pcapng").find("cannot be written: No such file or directory"),
              std::string::npos);
    EXPECT_EQ(debug(root_ + "/x.pcapng").find("cannot be written"), std::string::npos);
}

TEST_F(CheckFiles, ThePolicyIsTheOneThatRunWouldRead) {
    const std::string named = root_ + "/other.toml";
    const std::string path =
        write("cnapt.toml",
              "policy = \"" + named + "\"\n" + config("key = \"" + std::string(kKey) + "\""), 0600);
    EXPECT_EQ(policy_file_of(path), std::nullopt) << "then the built-in one is";
    write("other.toml", "[default]\n", 0644);
    EXPECT_EQ(policy_file_of(path), named);
}

}  // namespace
}  // namespace continuo::cnapt::settings
