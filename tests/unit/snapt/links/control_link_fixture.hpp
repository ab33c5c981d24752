// The socket sides of control over loopback: a ControlServer with its handler, and a ControlClient
// with its own.
#pragma once

#include "cnapt/control_link/control_client.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/udp_socket.hpp"
#include "snapt/links/control_server.hpp"

#include <array>
#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

namespace continuo::tests {

inline constexpr base::Duration kPatience = base::seconds(20);

class Credentials final : public control::CredentialSource {
  public:
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        std::unique_lock lock(mutex_);
        if (waiting_ == 0) {
            ++waiting_;
            changed_.notify_all();
            changed_.wait(lock, [this] { return !is_held_; });
            --waiting_;
        }
        return identity == control::Identity{"alice", "k1"} ? std::optional(control::UserKey{1})
                                                            : std::nullopt;
    }
    std::shared_ptr<const std::vector<control::UserKey>> keys() override {
        return std::make_shared<const std::vector<control::UserKey>>(
            std::vector{control::UserKey{9}, control::UserKey{1}});
    }

    // While held the first who asks gets no answer, and its thread stands.
    void hold(bool is_held) {
        const std::scoped_lock lock(mutex_);
        is_held_ = is_held;
        changed_.notify_all();
    }
    // Returns false if nobody asked within `patience`.
    bool wait_for_question(base::Duration patience) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, patience, [this] { return waiting_ > 0; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool is_held_ = false;
    int waiting_ = 0;
};

struct DeskSide final : snapt::links::LinkDesk {
    void on_names(std::span<const control::App> apps) override {
        const std::scoped_lock lock(mutex);
        ++messages;
        last.assign(apps.begin(), apps.end());
    }
    std::optional<std::string> on_usage_query(const control::UsageQuery& query) override {
        return query.json + query.json;
    }
    bool is_session_known() const override { return false; }
    void on_paused() override { ++pauses; }

    std::mutex mutex;
    size_t messages = 0;
    std::atomic<size_t> pauses = 0;
    std::vector<control::App> last;
};

struct SnaptSide final : snapt::links::ControlHandler {
    void on_hello(snapt::links::LinkId link,
                  const base::Endpoint& from,
                  const control::HelloReceived& hello) override {
        hellos.push_back(hello);
        last_from = from;
        last_link = link;
        if (!reject_text.empty()) {
            server->reject(link, control::RejectReason::SessionLimit, reject_text);
            return;
        }
        control::Accept accept;
        accept.wire_session_up = 77;
        accept.snapt = "zrh-1";
        accept.realm = "mesh.example";
        accept.protection = hello.hello.offers.front();
        accept.lease_ipv4 = base::IpAddress::parse("100.64.0.2");
        accept.epoch = hello.hello.continuation ? hello.hello.continuation->epoch + 1 : 1;
        accept.continued = hello.hello.continuation.has_value();
        server->accept(link, accept, desk);
        if (!waiting.empty()) {
            echo = server->open_stream(link);
            for (const std::vector<uint8_t>& datagram : waiting) {
                EXPECT_TRUE(echo.push(datagram, 0).is_taken);
            }
        }
    }
    void on_keys(snapt::links::LinkId link, const control::EpochKeys& given) override {
        keys[given.epoch] = given;
        server->confirm(link, given.epoch);
    }
    void on_modes(snapt::links::LinkId link, std::span<const control::AppMode> modes) override {
        ++mode_messages[link];
        last_modes.assign(modes.begin(), modes.end());
    }
    void on_datagrams(snapt::links::LinkId link, dataplane::DatagramQueue& queue) override {
        if (!echo) {
            echo = server->open_stream(link);
        }
        queue.pull([&](base::MutableByteView datagram) {
            ++received;
            echoed += echo.push(datagram, 0).is_taken ? 1U : 0U;
            return true;
        });
    }
    void on_stream_room(snapt::links::LinkId /*link*/) override {}
    void on_closed(snapt::links::LinkId link, const control::LinkClosed& gone) override {
        closed[link] = gone;
    }

    snapt::links::ControlServer* server = nullptr;
    dataplane::StreamPort echo;
    std::vector<std::vector<uint8_t>> waiting;  // for a node that is let in
    size_t received = 0;
    size_t echoed = 0;
    std::string reject_text;
    std::vector<control::HelloReceived> hellos;
    std::map<uint32_t, control::EpochKeys> keys;
    std::map<snapt::links::LinkId, control::LinkClosed> closed;
    std::shared_ptr<DeskSide> desk = std::make_shared<DeskSide>();
    std::vector<control::AppMode> last_modes;
    std::map<snapt::links::LinkId, size_t> mode_messages;
    base::Endpoint last_from;
    snapt::links::LinkId last_link = 0;
};

struct NodeSide final : cnapt::control_link::ControlClientHandler {
    void on_established(const base::Endpoint& remote,
                        const std::optional<cnapt::control_link::ControlUplink>& /*from*/,
                        const control::Established& now) override {
        last_remote = remote;
        established.push_back(now);
    }
    void on_rejected(const control::Reject& reject) override { rejected.push_back(reject); }
    void on_rekeyed(const control::EpochKeys& keys) override { rekeyed.push_back(keys); }
    void on_rekey_wanted() override { ++rekeys_wanted; }
    void on_directory(const control::Directory& now) override { directory = now; }
    void on_keepalive_request() override { ++keepalives; }
    void on_usage(const control::UsageReply& reply) override { usage.push_back(reply); }
    void on_session_state(bool known) override { session_states.push_back(known); }
    void on_allowance(const control::Allowance& told) override {
        allowance = told;
        ++allowances;
    }
    void on_datagrams(dataplane::DatagramQueue& queue) override {
        queue.pull([&](base::MutableByteView datagram) {
            early += established.empty() ? 1 : 0;
            datagrams.emplace_back(datagram.begin(), datagram.end());
            return true;
        });
    }
    void on_stream_room() override { ++rooms; }
    void on_stream_lost() override { ++losses; }
    void on_stream_stuck(bool is_stuck) override { stuck.push_back(is_stuck); }
    void on_closed(const cnapt::control_link::LinkEnd& end) override { closed.push_back(end); }
    void on_way_failed(const cnapt::control_link::LinkEnd& end) override {
        failed_ways.push_back(end);
    }

    std::vector<control::Established> established;
    std::vector<control::Reject> rejected;
    std::vector<control::EpochKeys> rekeyed;
    std::vector<control::UsageReply> usage;
    std::vector<bool> session_states;
    std::optional<control::Allowance> allowance;
    std::vector<std::vector<uint8_t>> datagrams;
    std::vector<cnapt::control_link::LinkEnd> closed;
    std::vector<cnapt::control_link::LinkEnd> failed_ways;
    control::Directory directory;
    base::Endpoint last_remote;
    int rekeys_wanted = 0;
    int keepalives = 0;
    int allowances = 0;
    int losses = 0;
    std::vector<bool> stuck;
    int early = 0;  // datagrams before it was established
    int rooms = 0;
};

// Segments longer than that do not arrive at the port and its connections, or at their other ends;
// 0: all arrive. Returns how many there are.
inline int let_pass(uint16_t port, uint32_t bytes, bool is_other_end = false) {
    std::array<sock_filter, 4> steps = {{{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                         {BPF_JMP | BPF_JGT | BPF_K, 0, 1, bytes},
                                         {BPF_RET | BPF_K, 0, 0, 0},
                                         {BPF_RET | BPF_K, 0, 0, 0xFFFF}}};
    const sock_fprog program{steps.size(), steps.data()};
    int changed = 0;
    for (int fd = 0; fd < 1024; ++fd) {
        io::SocketAddress name;
        socklen_t length = io::SocketAddress::capacity();
        const bool is_there =
            (is_other_end ? ::getpeername : ::getsockname)(fd, name.data(), &length) == 0;
        const auto endpoint = is_there ? name.endpoint() : std::nullopt;
        if (endpoint && endpoint->port == port) {
            ++changed;
            ::setsockopt(fd, SOL_SOCKET, bytes == 0 ? SO_DETACH_FILTER : SO_ATTACH_FILTER, &program,
                         sizeof program);
        }
    }
    return changed;
}

class ControlLinkTest : public ::testing::Test {
  protected:
    void SetUp() override { start_server(0); }
    void TearDown() override {
        credentials.hold(false);
        client.reset();
        server.reset();
    }

    // `more`: an address at which it listens, too.
    void start_server(uint16_t port, const char* more = nullptr) {
        server = std::make_unique<snapt::links::ControlServer>(loop, snapt_side, credentials);
        snapt_side.server = server.get();
        snapt::links::ControlServerOptions options;
        options.listen = {{base::IpAddress::v4(0x7F000001), port}};
        if (more != nullptr) {
            options.listen.push_back({*base::IpAddress::parse(more), port});
        }
        options.parameters.realm = "mesh.example";
        ASSERT_TRUE(server->start(options));
    }
    cnapt::control_link::ControlClientOptions options() const {
        cnapt::control_link::ControlClientOptions result;
        result.parameters.identity = {"alice", "k1"};
        result.parameters.key = control::UserKey{1};
        result.parameters.realm = "mesh.example";
        result.parameters.expected_snapt = "zrh-1";
        result.parameters.hello.versions = {control::kProtocolVersion};
        result.parameters.hello.node = "laptop";
        result.parameters.hello.offers = {{control::ProtectionKind::ChaCha20Poly1305, 16}};
        result.addresses = server->endpoints();
        return result;
    }
    void start_client(cnapt::control_link::ControlClientOptions with) {
        client = std::make_unique<cnapt::control_link::ControlClient>(thread, loop, node_side);
        ASSERT_TRUE(client->start(std::move(with)));
    }
    void establish() {
        start_client(options());
        ASSERT_TRUE(wait([this] { return node_side.established.size() == 1; }));
    }
    bool wait(const std::function<bool()>& done) { return loop.run_until(done, kPatience); }

    io::EventLoop loop;
    cnapt::control_link::ControlThread thread;
    Credentials credentials;
    SnaptSide snapt_side;
    NodeSide node_side;
    std::unique_ptr<snapt::links::ControlServer> server;
    std::unique_ptr<cnapt::control_link::ControlClient> client;
};

}  // namespace continuo::tests
