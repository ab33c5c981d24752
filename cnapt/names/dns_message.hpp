// Questions to a name server and its answers (RFC 1035, RFC 3596), as a node needs them to find its
// SNAPTs: addresses of one name, with aliases inside the answer. Pure; answers are untrusted.
#pragma once

#include "common/base/bytes.hpp"
#include "common/base/ip_address.hpp"
#include "common/base/result.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace continuo::cnapt::names {

inline constexpr size_t kMaxDnsAnswerBytes = 1232;
inline constexpr size_t kMaxDnsAddresses = 16;

// A query for addresses of that version (A or AAAA). Empty: `name` is not valid (RFC 1035 2.3.4).
std::vector<uint8_t> make_dns_query(std::string_view name, base::IpVersion version, uint16_t id);

// The addresses; none if the name has none or does not exist. Errors: Malformed (also: not the
// answer to `query`), NotFound (the server refused or failed), Truncated.
base::Result<std::vector<base::IpAddress>> parse_dns_answer(base::ByteView answer,
                                                            base::ByteView query);

}  // namespace continuo::cnapt::names
