// Questions to a name server and its answers (RFC 1035, RFC 3596), as far as a node needs them to
// find its SNAPTs: addresses of one name, aliases followed inside the answer. Pure; answers are
// anybody's bytes.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt {

inline constexpr size_t kMaxDnsAnswerBytes = 1232;
inline constexpr size_t kMaxDnsAddresses = 16;

// A query for addresses of that version (A or AAAA). Empty: `name` is none (RFC 1035 2.3.4).
std::vector<uint8_t> make_dns_query(std::string_view name, base::IpVersion version, uint16_t id);

// Addresses; none when the name has none or is not known. Errors: Malformed (or not the answer to
// `query`), NotFound (the server did not answer the question: refused, failed), Truncated.
base::Result<std::vector<base::IpAddress>> parse_dns_answer(base::ByteView answer,
                                                            base::ByteView query);

}  // namespace continuo::cnapt
