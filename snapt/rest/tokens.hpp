// Tokens of the REST interface: who may ask for what. A token is 256 random bits, shown once; the
// file keeps its SHA-256 alone, which nobody can guess back. The commands write the file, the
// daemon reads it again when it was replaced.
#pragma once

#include "common/base/random.hpp"
#include "common/base/result.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace continuo::rest {

inline constexpr const char* kTokenFileName = "tokens";
// A choice, not measured: each is compared with what is presented.
inline constexpr size_t kMaxTokens = 1024;
inline constexpr std::string_view kTokenPrefix = "snapt_";  // so that searches find lost ones
inline constexpr size_t kTokenBytes = 32;

enum class Scope : uint8_t {
    Read,   // status, sessions, usage, metrics; no money
    Bill,   // and money, also to book it; quotas
    Admin,  // and to end sessions
    Self,   // a user: its own usage, money and sessions
};
std::optional<Scope> parse_scope(std::string_view text);  // read, bill, admin, self
std::string_view to_string(Scope scope);

using TokenDigest = std::array<uint8_t, 32>;

struct Token {
    std::string name;
    Scope scope = Scope::Read;
    std::string user;        // of Self
    int64_t account_id = 0;  // of Self: one that has the name later is another
    int64_t created_us = 0;
    TokenDigest digest{};
};

// Each error has a sentence in `where`. None without the file. Errors: System, Malformed.
base::Result<std::vector<Token>> read_tokens(const std::string& path);
// Gives the secret. `token.digest` is set here. Errors: InvalidState (there is one of the name),
// LimitReached, as above.
base::Result<std::string> add_token(const std::string& path, Token token, base::Random& random);
// NotFound: there is none of the name.
base::Result<void> remove_token(const std::string& path, const std::string& name);

// The daemon's view of the file.
class TokenStore {
  public:
    explicit TokenStore(std::string path) : path_(std::move(path)) {}

    // The token that `secret` is. Takes as long whatever it is; a file that cannot be read has
    // none, and a log line.
    std::optional<Token> find(std::string_view secret);

  private:
    void refresh();

    struct Version {
        uint64_t inode = 0;
        int64_t changed_ns = 0;
        bool operator==(const Version&) const = default;
    };

    std::string path_;
    std::optional<Version> version_;
    std::vector<Token> tokens_;
};

}  // namespace continuo::rest
