// The question whether a captive portal stands between a node and a SNAPT: an HTTP request with a
// nonce to the control port, which only a SNAPT that knows the node's key can answer. Names nobody:
// the SNAPT finds the user by trying its keys. docs/PROTOCOL.md section 4.9. Pure.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/random.hpp"
#include "common/base/secret.hpp"
#include "common/control/identity.hpp"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace continuo::control {

inline constexpr size_t kPortalNonceBytes = 16;
inline constexpr size_t kPortalTagBytes = 16;
// Limit of a request's head, with what a proxy may have added.
inline constexpr size_t kMaxPortalRequestBytes = 2048;
// Bytes of an answer that are examined.
inline constexpr size_t kMaxPortalAnswerBytes = 4096;
inline constexpr size_t kMaxPortalUrlBytes = 512;

using PortalKey = base::Secret<32>;
using PortalNonce = std::array<uint8_t, kPortalNonceBytes>;
using PortalTag = std::array<uint8_t, kPortalTagBytes>;

// HKDF-SHA256 (RFC 5869): secret `key`, salt "continuo portal 1", info `realm`.
PortalKey derive_portal_key(const UserKey& key, std::string_view realm);

enum class PortalSide : uint8_t { Node, Snapt };
PortalTag portal_tag(const PortalKey& key, PortalSide side, const PortalNonce& nonce);
// In a time that does not depend on where they differ.
bool is_same_tag(const PortalTag& left, const PortalTag& right);

// --- SNAPT
struct PortalRequest {
    PortalNonce nonce{};
    PortalTag tag{};
};
struct PortalInput {
    bool needs_more = false;               // a beginning of a request
    std::optional<PortalRequest> request;  // else none: it is another one
};
PortalInput parse_portal_request(base::ByteView bytes);
// Never longer than any request that parses.
std::string format_portal_answer(const PortalTag& tag);

// --- Node
// `host` as in a URL: "203.0.113.9:9347".
std::string format_portal_request(const PortalRequest& request, std::string_view host);

enum class PortalVerdict : uint8_t {
    None,   // no HTTP, or nothing at all: tells nothing
    Snapt,  // the SNAPT has answered
    // An answer in the SNAPT's form with another content: a SNAPT that does not know the key, or no
    // longer lets its user in. Nobody stands in its place.
    Stranger,
    Portal  // somebody else has, in its place
};
struct PortalAnswer {
    PortalVerdict verdict = PortalVerdict::None;
    std::string url;  // where a portal leads; empty: it did not say
};
// `bytes`: all that came, up to kMaxPortalAnswerBytes. `host` as above: a URL that leads there, or
// names no host, is none to log in at, since that is the SNAPT.
PortalAnswer
judge_portal_answer(base::ByteView bytes, const PortalTag& expected, std::string_view host);

}  // namespace continuo::control
