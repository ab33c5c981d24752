// A ClientControl and a ServerControl joined by two byte pipes, in virtual time.
#pragma once

#include "common/control/client_control.hpp"
#include "common/control/server_control.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

namespace continuo::control {

class FixedCredentials final : public CredentialSource {
  public:
    std::optional<UserKey> find(const Identity& identity) override {
        ++lookups;
        const auto found = keys.find(identity.user + "/" + identity.key_id);
        return found == keys.end() ? std::nullopt : std::optional(found->second);
    }
    std::map<std::string, UserKey> keys;
    int lookups = 0;
};

class RecordingSink final : public DatagramSink {
  public:
    void on_datagram(base::ByteView datagram) override {
        datagrams.emplace_back(datagram.begin(), datagram.end());
    }
    std::vector<std::vector<uint8_t>> datagrams;
};

inline UserKey key_of(uint8_t fill) {
    UserKey key;
    key.fill(fill);
    return key;
}

inline ClientParameters default_client() {
    ClientParameters parameters;
    parameters.identity = {"alice", "k1"};
    parameters.key = key_of(0x11);
    parameters.identity_key = IdentityKey{7};
    parameters.realm = "mesh.example";
    parameters.expected_snapt = "zrh-1";
    Hello& hello = parameters.hello;
    hello.versions = {kProtocolVersion};
    hello.node = "laptop";
    hello.software = "cnapt 0.1";
    hello.session_id = {1, 2, 3, 4};
    hello.wire_session_down = 0x4A31;
    hello.offers = {{ProtectionKind::ChaCha20Poly1305, 16}, {ProtectionKind::HmacSha256, 10}};
    return parameters;
}

inline Accept default_accept() {
    Accept accept;
    accept.wire_session_up = 0x0102;
    accept.snapt = "zrh-1";
    accept.realm = "mesh.example";
    accept.epoch = 1;
    accept.protection = {ProtectionKind::ChaCha20Poly1305, 16};
    accept.lease_ipv4 = base::IpAddress::parse("100.64.0.2");
    accept.lease_ipv6 = base::IpAddress::parse("fd93:47::2");
    accept.udp_ports = {9347};
    return accept;
}

// The changes that a pipe makes to a chunk before delivery.
using Mangle = std::function<void(std::vector<uint8_t>&)>;

struct ControlPair {
    ControlPair() {
        credentials.keys["alice/k1"] = key_of(0x11);
        server_parameters.realm = "mesh.example";
        server_parameters.identity_key = IdentityKey{7};
        server = std::make_unique<ServerControl>(server_context, credentials, server_parameters,
                                                 &up_sink);
        client = std::make_unique<ClientControl>(client_context, random, &down_sink);
    }

    void start(ClientParameters parameters = default_client()) {
        ASSERT_TRUE(server->start(now));
        ASSERT_TRUE(client->start(std::move(parameters), now));
    }

    // Moves all bytes of one end to the other, in pieces of `chunk_bytes`.
    template <typename From, typename To>
    size_t move(From& from, To& to, const Mangle& mangle) {
        std::vector<uint8_t> all;
        std::array<uint8_t, 777> buffer{};
        while (const size_t taken = from.poll_bytes(buffer)) {
            all.insert(all.end(), buffer.begin(),
                       buffer.begin() + static_cast<std::ptrdiff_t>(taken));
        }
        if (mangle) {
            mangle(all);
        }
        for (size_t at = 0; at < all.size(); at += chunk_bytes) {
            if (before_chunk) {
                before_chunk();
            }
            to.on_bytes(base::ByteView(all).subspan(at, std::min(chunk_bytes, all.size() - at)),
                        now);
        }
        return all.size();
    }

    void collect() {
        while (auto event = client->poll_event()) {
            client_events.push_back(std::move(*event));
        }
        for (auto event = server->poll_event(); event; event = next_server_event()) {
            if (const auto* hello = std::get_if<HelloReceived>(&*event);
                hello != nullptr && on_hello) {
                on_hello(*hello);
            }
            if (const auto* asked = std::get_if<RekeyAsked>(&*event);
                asked != nullptr && confirm_rekeys) {
                EXPECT_TRUE(server->confirm(asked->keys.epoch, now));
            }
            server_events.push_back(std::move(*event));
        }
    }

    std::optional<ServerEvent> next_server_event() {
        auto event = server->poll_event();
        if (!event) {
            server->read_on(now);
            event = server->poll_event();
        }
        return event;
    }

    // Until neither end has anything to say.
    void run() {
        while (true) {
            collect();
            const size_t up = move(*client, *server, mangle_up);
            collect();
            const size_t down = move(*server, *client, mangle_down);
            collect();
            bytes_up += up;
            bytes_down += down;
            if (up + down == 0 && !client->has_bytes() && !server->has_bytes()) {
                return;
            }
        }
    }

    // Answers HELLO with `accept`.
    void accept_with(Accept accept) {
        on_hello = [this, accept = std::move(accept)](const HelloReceived&) {
            const auto keys = server->accept(accept);
            ASSERT_TRUE(keys);
            server_keys = *keys;
            ASSERT_TRUE(server->confirm(accept.epoch, now));
        };
    }

    void establish() {
        accept_with(default_accept());
        start();
        run();
        ASSERT_EQ(client->state(), ClientState::Open);
        ASSERT_EQ(server->state(), ServerState::Open);
    }

    // The latest of its kind; its absence is a failure of the test.
    template <typename Event>
    const Event& client_event() const {
        return last<Event>(client_events);
    }
    template <typename Event>
    const Event& server_event() const {
        return last<Event>(server_events);
    }
    template <typename Event>
    bool has_client_event() const {
        return has<Event>(client_events);
    }
    template <typename Event>
    bool has_server_event() const {
        return has<Event>(server_events);
    }
    template <typename Event, typename Events>
    static bool has(const Events& events) {
        return std::any_of(events.begin(), events.end(),
                           [](const auto& event) { return std::holds_alternative<Event>(event); });
    }
    template <typename Event, typename Events>
    static const Event& last(const Events& events) {
        static const Event kNone{};
        for (auto event = events.rbegin(); event != events.rend(); ++event) {
            if (const auto* found = std::get_if<Event>(&*event)) {
                return *found;
            }
        }
        ADD_FAILURE() << "no such event";
        return kNone;
    }

    base::TimePoint now{base::seconds(1000)};
    base::SeededRandom random{42};
    TlsContext client_context = std::move(TlsContext::client()).value();
    TlsContext server_context = std::move(TlsContext::server()).value();
    FixedCredentials credentials;
    ServerParameters server_parameters;
    RecordingSink up_sink;
    RecordingSink down_sink;
    std::unique_ptr<ServerControl> server;
    std::unique_ptr<ClientControl> client;
    std::function<void(const HelloReceived&)> on_hello;
    bool confirm_rekeys = true;
    EpochKeys server_keys;
    std::function<void()> before_chunk;  // either way
    Mangle mangle_up;
    Mangle mangle_down;
    size_t chunk_bytes = 4096;
    size_t bytes_up = 0;
    size_t bytes_down = 0;
    std::vector<ClientEvent> client_events;
    std::vector<ServerEvent> server_events;
};

}  // namespace continuo::control
