// Control messages, the message cutter, wire identities and the server's end of a connection, from
// untrusted bytes. The first byte chooses.
#include "common/base/assert.hpp"
#include "common/control/handshake_limiter.hpp"
#include "common/control/identity.hpp"
#include "common/control/message.hpp"
#include "common/control/message_reader.hpp"
#include "common/control/server_control.hpp"

#include <algorithm>
#include <cstring>

namespace {

namespace base = continuo::base;
namespace control = continuo::control;

class NoCredentials final : public control::CredentialSource {
  public:
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        CTN_ASSERT(control::is_valid_identity(identity));
        return std::nullopt;
    }
};

// A message that parses can be written, and parses to the same again.
void check_message(uint8_t type, base::ByteView body) {
    const auto parsed = control::parse_message(type, body);
    if (!parsed || !parsed->has_value()) {
        return;
    }
    std::vector<uint8_t> first;
    if (!control::append_message(first, **parsed)) {
        return;  // all offers were of unknown kinds, or canonical text is longer
    }
    const auto again = control::parse_message(
        first[0], base::ByteView(first).subspan(control::kMessageHeaderBytes));
    CTN_ASSERT(again && again->has_value());
    std::vector<uint8_t> second;
    CTN_ASSERT(control::append_message(second, **again));
    CTN_ASSERT(first == second);
}

void check_stream(base::ByteView bytes) {
    control::MessageReader reader;
    while (!bytes.empty()) {
        const base::MutableByteView room = reader.room();
        CTN_ASSERT(!room.empty());
        const size_t count = std::min(room.size(), bytes.size());
        std::memcpy(room.data(), bytes.data(), count);
        reader.filled(count);
        bytes = bytes.subspan(count);
        while (const auto raw = reader.next()) {
            check_message(raw->type, raw->body);
        }
    }
}

void check_server(base::ByteView bytes) {
    static const control::TlsContext context = std::move(control::TlsContext::server()).value();
    static const control::ServerParameters parameters{"realm", std::nullopt};
    NoCredentials credentials;
    control::ServerControl server(context, credentials, parameters, nullptr);
    const base::TimePoint now{base::seconds(1)};
    CTN_ASSERT(server.start(now));
    const size_t half = bytes.size() / 2;
    server.on_bytes(bytes.first(half), now);
    server.on_bytes(bytes.subspan(half), now);
    CTN_ASSERT(!server.is_authenticated());
    server.on_timeout(now + control::kHandshakeTimeout);
    CTN_ASSERT(server.state() == control::ServerState::Closed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) {
        return 0;
    }
    const base::ByteView rest(data + 1, size - 1);
    switch (data[0] % 4) {
    case 0:
        check_message(rest[0], rest.subspan(1));
        break;
    case 1:
        check_stream(rest);
        break;
    case 2:
        static_cast<void>(control::decode_identity(rest, std::nullopt).has_value());
        static_cast<void>(control::decode_identity(rest, control::IdentityKey{}).has_value());
        break;
    default:
        check_server(rest);
        break;
    }
    return 0;
}
