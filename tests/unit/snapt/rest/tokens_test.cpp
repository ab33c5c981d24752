#include "common/io/file.hpp"
#include "snapt/rest/tokens.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

namespace continuo::rest {
namespace {

class RestTokens : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = testing::TempDir() + "snapt-tokens-XXXXXX";
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        folder_ = pattern;
        path_ = folder_ + "/" + kTokenFileName;
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    std::string add(const std::string& name, Scope scope, const std::string& user = "") {
        Token token;
        token.name = name;
        token.scope = scope;
        token.user = user;
        token.account_id = user.empty() ? 0 : 7;
        token.created_us = 1'796'083'200'000'000;
        return add_token(path_, token, random_).value();
    }

    base::SeededRandom random_{1};
    std::string folder_;
    std::string path_;
};

TEST_F(RestTokens, AreFoundByTheirSecretAlone) {
    const std::string reader = add("grafana", Scope::Read);
    const std::string own = add("alice-page", Scope::Self, "alice");
    TokenStore store(path_);
    ASSERT_TRUE(store.find(reader));
    EXPECT_EQ(store.find(reader)->name, "grafana");
    EXPECT_EQ(store.find(reader)->scope, Scope::Read);
    ASSERT_TRUE(store.find(own));
    EXPECT_EQ(store.find(own)->user, "alice");
    EXPECT_EQ(store.find(own)->account_id, 7);
    for (const std::string& wrong :
         {std::string(), reader.substr(0, reader.size() - 1), reader + "A", std::string("grafana"),
          std::string(kTokenPrefix)}) {
        EXPECT_FALSE(store.find(wrong)) << wrong;
    }
}

TEST_F(RestTokens, FileHasNoSecret) {
    const std::string secret = add("grafana", Scope::Read);
    const std::string text = io::read_file(path_, 1 << 20).value();
    EXPECT_EQ(text.find(secret), std::string::npos);
    EXPECT_EQ(text.find(secret.substr(kTokenPrefix.size())), std::string::npos);
    EXPECT_NE(text.find("grafana read - 0 1796083200000000 "), std::string::npos) << text;
    struct stat status {};
    ASSERT_EQ(::stat(path_.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

TEST_F(RestTokens, SecretHasAllItsBits) {
    constexpr size_t kBase64Bytes = 43;  // of 32 bytes, without padding
    const std::string one = add("a", Scope::Read);
    const std::string other = add("b", Scope::Read);
    EXPECT_EQ(one.size(), kTokenPrefix.size() + kBase64Bytes);
    EXPECT_NE(one, other);
}

TEST_F(RestTokens, RemovedOnesAreRefusedAtOnce) {
    const std::string secret = add("grafana", Scope::Read);
    const std::string other = add("billing", Scope::Bill);
    TokenStore store(path_);
    ASSERT_TRUE(store.find(secret));
    ASSERT_TRUE(remove_token(path_, "grafana"));
    EXPECT_FALSE(store.find(secret));
    EXPECT_TRUE(store.find(other));
    EXPECT_EQ(remove_token(path_, "grafana").error().code, base::Errc::NotFound);
    const std::string again = add("grafana", Scope::Admin);
    EXPECT_FALSE(store.find(secret));
    EXPECT_EQ(store.find(again)->scope, Scope::Admin);
}

TEST_F(RestTokens, NamesAreThereOnce) {
    add("grafana", Scope::Read);
    Token token;
    token.name = "grafana";
    EXPECT_EQ(add_token(path_, token, random_).error().code, base::Errc::InvalidState);
    EXPECT_EQ(read_tokens(path_).value().size(), 1U);
}

TEST_F(RestTokens, WithoutAFileThereAreNone) {
    EXPECT_TRUE(read_tokens(path_).value().empty());
    TokenStore store(path_);
    EXPECT_FALSE(store.find("snapt_"));
    const std::string secret = add("grafana", Scope::Read);
    EXPECT_TRUE(store.find(secret));
}

TEST_F(RestTokens, DamagedFileLetsNobodyIn) {
    const std::string secret = add("grafana", Scope::Read);
    const std::string good = io::read_file(path_, 1 << 20).value();
    TokenStore store(path_);
    ASSERT_TRUE(store.find(secret));
    for (size_t bytes = 0; bytes < good.size(); ++bytes) {
        ASSERT_TRUE(io::write_file_atomically(path_, good.substr(0, bytes)));
        EXPECT_FALSE(store.find(secret)) << bytes;
    }
    for (const std::string& line : {std::string("x root - 0 0 00\n"), std::string("\n")}) {
        ASSERT_TRUE(io::write_file_atomically(path_, good + line));
        EXPECT_EQ(read_tokens(path_).error().code, base::Errc::Malformed) << line;
        EXPECT_FALSE(store.find(secret)) << line;
    }
    ASSERT_TRUE(io::write_file_atomically(path_, good));
    EXPECT_TRUE(store.find(secret));
}

TEST(RestScope, NamesAreReadAndWritten) {
    for (const Scope scope : {Scope::Read, Scope::Bill, Scope::Admin, Scope::Self}) {
        EXPECT_EQ(parse_scope(to_string(scope)), scope);
    }
    EXPECT_EQ(parse_scope("root"), std::nullopt);
    EXPECT_EQ(parse_scope(""), std::nullopt);
}

}  // namespace
}  // namespace continuo::rest
