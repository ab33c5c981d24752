// Tokens of the REST interface: who may do what. A token is 256 random bits, shown once; the file
// keeps only its SHA-256, from which it cannot be guessed. The commands write the file, and the
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
// A choice, not measured: each is compared with the token presented.
inline constexpr size_t kMaxTokens = 1024;
inline constexpr std::string_view kTokenPrefix = "snapt_";  // so that searches find lost ones
inline constexpr size_t kTokenBytes = 32;

enum class Scope : uint8_t {
    Read,   // status, sessions, usage, metrics; no money
    Bill,   // also money and bookings; quotas
    Admin,  // also ending sessions
    Self,   // a user: its own usage, money and sessions
};
std::optional<Scope> parse_scope(std::string_view text);  // read, bill, admin, self
std::string_view to_string(Scope scope);

using TokenDigest = std::array<uint8_t, 32>;

struct Token {
    std::string name;
    Scope scope = Scope::Read;
    std::string user;        // for Self
    int64_t account_id = 0;  // for Self: a later account of the name is another
    int64_t created_us = 0;
    TokenDigest digest{};
};

// Each error has a sentence in `where`. Empty without a file. Errors: System, Malformed.
base::Result<std::vector<Token>> read_tokens(const std::string& path);
// Returns the secret and sets `token.digest`. Errors: InvalidState (the name exists), LimitReached,
// as above.
base::Result<std::string> add_token(const std::string& path, Token token, base::Random& random);
// NotFound: no token of the name.
base::Result<void> remove_token(const std::string& path, const std::string& name);

// The daemon's view of the file.
class TokenStore {
  public:
    explicit TokenStore(std::string path) : path_(std::move(path)) {}

    // The token for `secret`. Takes the same time whatever it is; an unreadable file counts as
    // empty, with a log line.
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
