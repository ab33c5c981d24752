#include "cnapt/control_link/reach_probe.hpp"
#include "common/io/socket_address.hpp"
#include "common/io/unique_fd.hpp"
#include "common/wire/unsealed.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <thread>

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::cnapt::control_link {
namespace {

constexpr base::Duration kLong = base::seconds(20);
constexpr base::Duration kShort = base::milliseconds(150);

// A socket at a free port of the loopback.
struct Place {
    io::UniqueFd fd;
    base::Endpoint endpoint;
};

Place place(int type) {
    Place place{io::UniqueFd(::socket(AF_INET, type | SOCK_CLOEXEC, 0)), {}};
    const io::SocketAddress any(*base::Endpoint::parse("127.0.0.1:0"));
    EXPECT_EQ(::bind(place.fd.value(), any.data(), any.size()), 0);
    io::SocketAddress name;
    socklen_t length = io::SocketAddress::capacity();
    EXPECT_EQ(::getsockname(place.fd.value(), name.data(), &length), 0);
    place.endpoint = name.endpoint().value_or(base::Endpoint{});
    return place;
}

// Answers every datagram until it gets one of one byte.
class Answering {
  public:
    using Answer = std::function<std::vector<uint8_t>(base::ByteView datagram)>;
    explicit Answering(Answer answer)
        : place_(place(SOCK_DGRAM)), thread_([this, answer = std::move(answer)] { run(answer); }) {}
    ~Answering() {
        const Place self = place(SOCK_DGRAM);
        const io::SocketAddress to(place_.endpoint);
        const uint8_t end = 0;
        EXPECT_EQ(::sendto(self.fd.value(), &end, 1, 0, to.data(), to.size()), 1);
        thread_.join();
    }
    Answering(const Answering&) = delete;
    Answering& operator=(const Answering&) = delete;
    const base::Endpoint& endpoint() const { return place_.endpoint; }

  private:
    void run(const Answer& answer) const {
        std::array<uint8_t, 2048> buffer{};
        for (;;) {
            io::SocketAddress from;
            socklen_t length = io::SocketAddress::capacity();
            const ssize_t count = ::recvfrom(place_.fd.value(), buffer.data(), buffer.size(), 0,
                                             from.data(), &length);
            if (count <= 1) {
                return;
            }
            const auto bytes = answer(base::ByteView(buffer).first(static_cast<size_t>(count)));
            if (!bytes.empty()) {
                ::sendto(place_.fd.value(), bytes.data(), bytes.size(), 0, from.data(),
                         from.size());
            }
        }
    }
    Place place_;
    std::thread thread_;
};

std::vector<uint8_t> unknown(base::ByteView datagram) {
    std::vector<uint8_t> bytes(wire::Unknown::kBytes);
    base::ByteWriter writer(bytes);
    wire::Unknown{wire::UnknownReason::Session, *wire::Quote::of(datagram)}.serialize(writer);
    return bytes;
}

UdpReach ask(const base::Endpoint& to, base::Duration time) {
    return probe_udp({{to}, 0, time}).front();
}

TEST(ReachProbe, ASnaptAnswersByUdpUpToTheSizeThatPasses) {
    const Answering all(unknown);
    const UdpReach whole = ask(all.endpoint(), kLong);
    EXPECT_TRUE(whole.answered_in);
    EXPECT_EQ(whole.largest, 1500);
    EXPECT_EQ(whole.interface, "lo");
    const Answering narrow([](base::ByteView datagram) {
        return datagram.size() > 1400 - 28 ? std::vector<uint8_t>() : unknown(datagram);
    });
    const UdpReach less = ask(narrow.endpoint(), kLong);
    EXPECT_TRUE(less.answered_in);
    EXPECT_EQ(less.largest, 1400);
}

TEST(ReachProbe, OneAnswerThatIsLostIsAskedForAgain) {
    std::atomic<int> asked = 0;
    const Answering forgetful([&asked](base::ByteView datagram) {
        return ++asked <= 7 ? std::vector<uint8_t>() : unknown(datagram);
    });
    EXPECT_EQ(ask(forgetful.endpoint(), kLong).largest, 1500);
}

TEST(ReachProbe, WhatQuotesNothingThatWasSentIsNoAnswer) {
    const Answering liar([](base::ByteView datagram) {
        std::vector<uint8_t> other(datagram.begin(), datagram.end());
        other.back() ^= 1U;
        return unknown(other);
    });
    const Answering mute([](base::ByteView) { return std::vector<uint8_t>(4, 0x02); });
    for (const base::Endpoint& endpoint : {liar.endpoint(), mute.endpoint()}) {
        const UdpReach reach = ask(endpoint, kShort);
        EXPECT_FALSE(reach.answered_in);
        EXPECT_EQ(reach.sys_errno, ETIMEDOUT);
    }
}

TEST(ReachProbe, TellsWhereNobodyListens) {
    const base::Endpoint udp = place(SOCK_DGRAM).endpoint;
    EXPECT_EQ(ask(udp, kLong).sys_errno, ECONNREFUSED);
    const Place open = place(SOCK_STREAM);
    ASSERT_EQ(::listen(open.fd.value(), 4), 0);
    const base::Endpoint closed = place(SOCK_STREAM).endpoint;
    const auto reach = probe_tcp({{open.endpoint, closed}, 0, kLong});
    ASSERT_EQ(reach.size(), 2U);
    EXPECT_TRUE(reach[0].connected_in);
    EXPECT_FALSE(reach[1].connected_in);
    EXPECT_EQ(reach[1].sys_errno, ECONNREFUSED);
    EXPECT_TRUE(probe_tcp({{}, 0, kLong}).empty());
    EXPECT_TRUE(probe_udp({{}, 0, kLong}).empty());
}

// Says `text` to whoever connects, and ends.
LoginReach::Kind kind_against(const std::string& text, base::Duration time, bool says_hello) {
    const Place open = place(SOCK_STREAM);
    EXPECT_EQ(::listen(open.fd.value(), 4), 0);
    std::promise<void> done;
    std::thread server([&] {
        const io::UniqueFd peer(::accept(open.fd.value(), nullptr, nullptr));
        std::array<uint8_t, 4096> buffer{};
        EXPECT_GT(::recv(peer.value(), buffer.data(), buffer.size(), 0), 0);
        ::send(peer.value(), text.data(), text.size(), MSG_NOSIGNAL);
        if (text.empty()) {
            done.get_future().wait();
        }
    });
    LoginQuestion question;
    question.to = open.endpoint;
    question.time = time;
    question.says_hello = says_hello;
    question.parameters.identity = {"alice", "k1"};
    question.parameters.realm = "continuo";
    const LoginReach reach = probe_login(question);
    done.set_value();
    server.join();
    return reach.kind;
}

TEST(ReachProbe, WhatIsNoSnaptIsToldFromARefusal) {
    const std::string alert("\x15\x03\x03\x00\x02\x02\x33", 7);  // decrypt_error
    for (const bool says_hello : {false, true}) {
        EXPECT_EQ(kind_against("HTTP/1.1 302 Found\r\n\r\n", kLong, says_hello),
                  LoginReach::Kind::NoTls);
        EXPECT_EQ(kind_against(alert, kLong, says_hello), LoginReach::Kind::Refused);
        EXPECT_EQ(kind_against("", kShort, says_hello), LoginReach::Kind::Silent);
    }
}

}  // namespace
}  // namespace continuo::cnapt::control_link
