// The question whether a captive portal stands between a node and a SNAPT: an HTTP request with a
// nonce to the control port, which only a SNAPT with the node's key can answer. It names no user:
// the SNAPT tries all keys. docs/PROTOCOL.md section 4.9. Pure.
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
// Limit of a request's head, including headers that a proxy adds.
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
// Compares in a time that does not depend on the position of the difference.
bool is_same_tag(const PortalTag& left, const PortalTag& right);

// --- SNAPT
struct PortalRequest {
    PortalNonce nonce{};
    PortalTag tag{};
};
struct PortalInput {
    bool needs_more = false;               // start of a request
    std::optional<PortalRequest> request;  // else none: it is another one
};
PortalInput parse_portal_request(base::ByteView bytes);
// Never longer than any request that parses.
std::string format_portal_answer(const PortalTag& tag);

// --- Node
// `host` as in a URL: "203.0.113.9:9347".
std::string format_portal_request(const PortalRequest& request, std::string_view host);

enum class PortalVerdict : uint8_t {
    None,   // no HTTP or no answer: tells nothing
    Snapt,  // the SNAPT has answered
    // An answer in the SNAPT's form with other content: a SNAPT that does not know the key, or no
    // longer lets its user in. It is no portal.
    Stranger,
    Portal  // another server answered in its place
};
struct PortalAnswer {
    PortalVerdict verdict = PortalVerdict::None;
    std::string url;  // URL of the portal; empty: it gave none
};
// `bytes`: everything received, up to kMaxPortalAnswerBytes. `host` as above: a URL to that host,
// or without a host, is no login page, since that is the SNAPT.
PortalAnswer
judge_portal_answer(base::ByteView bytes, const PortalTag& expected, std::string_view host);

}  // namespace continuo::control
