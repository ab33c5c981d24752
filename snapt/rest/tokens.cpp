#include "snapt/rest/tokens.hpp"

#include "common/base/log.hpp"
#include "common/base/secret.hpp"
#include "common/config/base64.hpp"
#include "common/io/file.hpp"

#include <algorithm>
#include <charconv>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/stat.h>

namespace continuo::rest {

using base::Errc;
using base::Error;
using base::Result;

namespace {

constexpr std::string_view kHead = "continuo tokens 1\n";
constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr unsigned kMode = 0600;
constexpr std::string_view kNoUser = "-";  // no name begins so
constexpr std::array<std::pair<std::string_view, Scope>, 4> kScopes = {
    {{"read", Scope::Read}, {"bill", Scope::Bill}, {"admin", Scope::Admin}, {"self", Scope::Self}}};

TokenDigest digest_of(std::string_view secret) {
    TokenDigest digest{};
    static_cast<void>(
        EVP_Digest(secret.data(), secret.size(), digest.data(), nullptr, EVP_sha256(), nullptr));
    return digest;
}

std::string hex_of(const TokenDigest& digest) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const uint8_t octet : digest) {
        text += kDigits[octet >> 4U];
        text += kDigits[octet & 0x0FU];
    }
    return text;
}

template <typename Number>
bool read_number(std::string_view text, Number& number, int radix = 10) {
    const char* end = text.data() + text.size();
    const auto read = std::from_chars(text.data(), end, number, radix);
    return read.ec == std::errc() && read.ptr == end;
}

bool read_digest(std::string_view text, TokenDigest& digest) {
    constexpr size_t kDigits = 2;
    if (text.size() != digest.size() * kDigits) {
        return false;
    }
    for (size_t i = 0; i < digest.size(); ++i) {
        if (!read_number(text.substr(i * kDigits, kDigits), digest[i], 16)) {
            return false;
        }
    }
    return true;
}

std::optional<Token> token_of(std::string_view line) {
    std::vector<std::string_view> fields;
    for (size_t at = 0; at != std::string_view::npos;) {
        const size_t end = line.find(' ', at);
        fields.push_back(line.substr(at, end == std::string_view::npos ? end : end - at));
        at = end == std::string_view::npos ? end : end + 1;
    }
    constexpr size_t kFields = 6;
    Token token;
    const auto scope = fields.size() == kFields ? parse_scope(fields[1]) : std::nullopt;
    if (!scope || fields[0].empty() || !read_number(fields[3], token.account_id) ||
        !read_number(fields[4], token.created_us) || !read_digest(fields[5], token.digest)) {
        return std::nullopt;
    }
    token.name = fields[0];
    token.scope = *scope;
    token.user = fields[2] == kNoUser ? "" : fields[2];
    return token;
}

std::string line_of(const Token& token) {
    return token.name + " " + std::string(to_string(token.scope)) + " " +
           (token.user.empty() ? std::string(kNoUser) : token.user) + " " +
           std::to_string(token.account_id) + " " + std::to_string(token.created_us) + " " +
           hex_of(token.digest) + "\n";
}

Result<void> write_tokens(const std::string& path, const std::vector<Token>& tokens) {
    std::string text(kHead);
    for (const Token& token : tokens) {
        text += line_of(token);
    }
    return io::write_file_atomically(path, text, kMode);
}

Result<io::LockFile> lock(const std::string& path) {
    return io::LockFile::acquire(path + ".lock");
}

// base64url without padding (RFC 4648 section 5).
std::string url_text(const base::Secret<kTokenBytes>& bytes) {
    std::string text = config::to_base64(bytes);
    std::erase(text, '=');
    std::replace(text.begin(), text.end(), '+', '-');
    std::replace(text.begin(), text.end(), '/', '_');
    return text;
}

}  // namespace

std::optional<Scope> parse_scope(std::string_view text) {
    for (const auto& [name, scope] : kScopes) {
        if (name == text) {
            return scope;
        }
    }
    return std::nullopt;
}

std::string_view to_string(Scope scope) {
    for (const auto& [name, one] : kScopes) {
        if (one == scope) {
            return name;
        }
    }
    return "";
}

Result<std::vector<Token>> read_tokens(const std::string& path) {
    const auto text = io::read_file(path, kMaxFileBytes);
    if (!text) {
        if (text.error().code == Errc::NotFound) {
            return std::vector<Token>();
        }
        return text.error();
    }
    std::string_view rest = *text;
    if (!rest.starts_with(kHead)) {
        return Error{Errc::Malformed, "it is not a file of tokens", 0};
    }
    rest.remove_prefix(kHead.size());
    std::vector<Token> tokens;
    while (!rest.empty()) {
        const size_t end = rest.find('\n');
        const auto token = token_of(rest.substr(0, end));
        if (!token || end == std::string_view::npos || tokens.size() == kMaxTokens) {
            return Error{Errc::Malformed, "a line of it is not a token", 0};
        }
        tokens.push_back(*token);
        rest.remove_prefix(end + 1);
    }
    return tokens;
}

Result<std::string> add_token(const std::string& path, Token token, base::Random& random) {
    const io::LockFile held = CTN_TRY(lock(path));
    std::vector<Token> tokens = CTN_TRY(read_tokens(path));
    for (const Token& other : tokens) {
        if (other.name == token.name) {
            return Error{Errc::InvalidState, "there is a token of that name", 0};
        }
    }
    if (tokens.size() == kMaxTokens) {
        return Error{Errc::LimitReached, "the limit of tokens is reached", 0};
    }
    base::Secret<kTokenBytes> bytes;
    random.fill(bytes);
    std::string secret = std::string(kTokenPrefix) + url_text(bytes);
    token.digest = digest_of(secret);
    tokens.push_back(std::move(token));
    CTN_TRY(write_tokens(path, tokens));
    return secret;
}

Result<void> remove_token(const std::string& path, const std::string& name) {
    const io::LockFile held = CTN_TRY(lock(path));
    std::vector<Token> tokens = CTN_TRY(read_tokens(path));
    if (std::erase_if(tokens, [&name](const Token& one) { return one.name == name; }) == 0) {
        return Error{Errc::NotFound, "there is no token of that name", 0};
    }
    return write_tokens(path, tokens);
}

std::optional<Token> TokenStore::find(std::string_view secret) {
    refresh();
    const TokenDigest digest = digest_of(secret);
    const Token* found = nullptr;
    for (const Token& token : tokens_) {
        if (CRYPTO_memcmp(token.digest.data(), digest.data(), digest.size()) == 0) {
            found = &token;  // continues, to take as long as without a match
        }
    }
    return found != nullptr ? std::optional(*found) : std::nullopt;
}

void TokenStore::refresh() {
    constexpr int64_t kNsPerS = 1'000'000'000;
    struct stat status {};
    std::optional<Version> version;
    if (::stat(path_.c_str(), &status) == 0) {
        version = Version{status.st_ino, status.st_mtim.tv_sec * kNsPerS + status.st_mtim.tv_nsec};
    }
    if (version == version_) {
        return;
    }
    version_ = version;
    tokens_.clear();
    auto read = read_tokens(path_);
    if (read) {
        tokens_ = std::move(*read);
    } else {
        base::log(base::LogLevel::Error, "nobody may use the REST interface: cannot read %s: %.*s",
                  path_.c_str(), static_cast<int>(read.error().where.size()),
                  read.error().where.data());
    }
}

}  // namespace continuo::rest
