#include "common/control/portal_check.hpp"

#include <algorithm>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace continuo::control {

namespace {

constexpr std::string_view kSalt = "continuo portal 1";
constexpr std::string_view kNodeLabel = "continuo portal ask";
constexpr std::string_view kSnaptLabel = "continuo portal answer";
constexpr std::string_view kRequestStart = "GET /continuo/";
constexpr std::string_view kVersion = " HTTP/1.";
constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kAnswerHead =
    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 32\r\n\r\n";
constexpr std::string_view kDigits = "0123456789abcdef";
// The shortest HTTP status line: its digit, and the end of the head.
constexpr size_t kShortestRequest = kRequestStart.size() +
                                    2 * (kPortalNonceBytes + kPortalTagBytes) + kVersion.size() +
                                    1 + kHeadEnd.size();
static_assert(kAnswerHead.size() + 2 * kPortalTagBytes <= kShortestRequest);

std::string_view text_of(base::ByteView bytes) {
    return {static_cast<const char*>(static_cast<const void*>(bytes.data())), bytes.size()};
}

template <size_t kSize>
std::string hex(const std::array<uint8_t, kSize>& bytes) {
    std::string text;
    for (const uint8_t byte : bytes) {
        text += kDigits[byte >> 4];
        text += kDigits[byte & 0xFU];
    }
    return text;
}

// Lower case only: one text for each value.
template <size_t kSize>
bool read_hex(std::string_view text, std::array<uint8_t, kSize>& bytes) {
    for (size_t i = 0; i < kSize; ++i) {
        const size_t high = kDigits.find(text[2 * i]);
        const size_t low = kDigits.find(text[2 * i + 1]);
        if (high == std::string_view::npos || low == std::string_view::npos) {
            return false;
        }
        bytes[i] = static_cast<uint8_t>(high << 4 | low);
    }
    return true;
}

bool is_equal_without_case(std::string_view left, std::string_view right) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(),
                      [&](char a, char b) { return lower(a) == lower(b); });
}

// Value in a head; empty when there is none.
std::string_view header_value(std::string_view head, std::string_view name) {
    while (!head.empty()) {
        const size_t end = head.find('\n');
        std::string_view line = head.substr(0, end);
        head = end == std::string_view::npos ? std::string_view() : head.substr(end + 1);
        const size_t colon = line.find(':');
        if (colon == std::string_view::npos ||
            !is_equal_without_case(line.substr(0, colon), name)) {
            continue;
        }
        line.remove_prefix(colon + 1);
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        return line.substr(0, line.find_last_not_of(" \t\r") + 1);
    }
    return {};
}

// The text goes to logs, terminals and perhaps a shell: only characters of a URL are allowed.
bool is_clean_url(std::string_view url) {
    constexpr std::string_view kOthers = "-._~:/?#[]@!&()*+,;=%";
    return url.size() <= kMaxPortalUrlBytes && std::all_of(url.begin(), url.end(), [&](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      kOthers.find(c) != std::string_view::npos;
           });
}

// The host of an authority, without the port: "203.0.113.9", "[2001:db8::1]".
std::string_view without_port(std::string_view authority) {
    const size_t bracket = authority.rfind(']');
    const size_t colon = authority.rfind(':');
    const bool has_port =
        colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
    return has_port ? authority.substr(0, colon) : authority;
}

std::string portal_url(std::string_view location, std::string_view host) {
    constexpr std::string_view kHttp = "http://";
    constexpr std::string_view kHttps = "https://";
    size_t scheme_bytes = 0;
    for (const std::string_view scheme : {kHttp, kHttps}) {
        if (is_equal_without_case(location.substr(0, scheme.size()), scheme)) {
            scheme_bytes = scheme.size();
        }
    }
    std::string_view authority = location.substr(scheme_bytes);
    authority = authority.substr(0, authority.find_first_of("/?#"));
    authority.remove_prefix(std::min(authority.rfind('@') + 1, authority.size()));
    const bool is_elsewhere =
        !is_equal_without_case(without_port(authority), without_port(host)) && !authority.empty();
    return scheme_bytes != 0 && is_elsewhere && is_clean_url(location) ? std::string(location)
                                                                       : std::string();
}

}  // namespace

PortalKey derive_portal_key(const UserKey& key, std::string_view realm) {
    return derive_key(key, kSalt, realm);
}

PortalTag portal_tag(const PortalKey& key, PortalSide side, const PortalNonce& nonce) {
    const std::string_view label = side == PortalSide::Node ? kNodeLabel : kSnaptLabel;
    std::array<uint8_t, kSnaptLabel.size() + kPortalNonceBytes> message{};
    std::copy(label.begin(), label.end(), message.begin());
    std::copy(nonce.begin(), nonce.end(), message.begin() + static_cast<ptrdiff_t>(label.size()));
    std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
    const uint8_t* const done =
        HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), message.data(),
             label.size() + nonce.size(), digest.data(), nullptr);
    CTN_ASSERT(done != nullptr);
    PortalTag tag{};
    std::copy_n(digest.begin(), tag.size(), tag.begin());
    return tag;
}

bool is_same_tag(const PortalTag& left, const PortalTag& right) {
    return CRYPTO_memcmp(left.data(), right.data(), left.size()) == 0;
}

PortalInput parse_portal_request(base::ByteView bytes) {
    const std::string_view text = text_of(bytes);
    const std::string_view begin = text.substr(0, kRequestStart.size());
    if (begin != kRequestStart.substr(0, begin.size()) || text.size() > kMaxPortalRequestBytes) {
        return {};
    }
    const size_t end = text.find(kHeadEnd);
    if (end == std::string_view::npos) {
        return {text.size() < kMaxPortalRequestBytes, std::nullopt};
    }
    const size_t length = end + kHeadEnd.size();
    constexpr size_t kNonceAt = kRequestStart.size();
    constexpr size_t kTagAt = kNonceAt + 2 * kPortalNonceBytes;
    constexpr size_t kVersionAt = kTagAt + 2 * kPortalTagBytes;
    PortalRequest request;
    const bool is_whole = length >= kShortestRequest &&
                          read_hex(text.substr(kNonceAt, 2 * kPortalNonceBytes), request.nonce) &&
                          read_hex(text.substr(kTagAt, 2 * kPortalTagBytes), request.tag) &&
                          text.substr(kVersionAt, kVersion.size()) == kVersion;
    return {false, is_whole ? std::optional(request) : std::nullopt};
}

std::string format_portal_answer(const PortalTag& tag) {
    return std::string(kAnswerHead) + hex(tag);
}

std::string format_portal_request(const PortalRequest& request, std::string_view host) {
    std::string text(kRequestStart);
    text.append(hex(request.nonce)).append(hex(request.tag)).append(kVersion).append("1\r\nHost: ");
    text.append(host).append("\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
    return text;
}

PortalAnswer
judge_portal_answer(base::ByteView bytes, const PortalTag& expected, std::string_view host) {
    const std::string_view text =
        text_of(bytes.first(std::min(bytes.size(), kMaxPortalAnswerBytes)));
    constexpr std::string_view kHttp = "HTTP/1.";
    constexpr size_t kCodeAt = kHttp.size() + 2;
    if (text.substr(0, kHttp.size()) != kHttp || text.size() < kCodeAt + 3) {
        return {};
    }
    const size_t end = text.find(kHeadEnd);
    const std::string_view head = text.substr(0, end);
    const bool is_good = text.substr(kCodeAt, 3) == "200";
    if (is_good && end != std::string_view::npos) {
        PortalTag tag{};
        const std::string_view body = text.substr(end + kHeadEnd.size());
        if (body.size() == 2 * kPortalTagBytes && read_hex(body, tag)) {
            return {is_same_tag(tag, expected) ? PortalVerdict::Snapt : PortalVerdict::Stranger,
                    {}};
        }
    }
    return {PortalVerdict::Portal, portal_url(header_value(head, "Location"), host)};
}

}  // namespace continuo::control
