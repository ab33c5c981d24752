// HostileLink: a control connection for a user with a key; its owner decides what it sends, how
// much and how fast. One thread, no event loop.
#pragma once

#include "common/host/system_random.hpp"
#include "common/io/tcp_stream.hpp"
#include "tests/support/hostile_user/account.hpp"

#include <memory>
#include <optional>
#include <string>

namespace continuo::tests {

base::TimePoint clock_now();

class HostileLink {
  public:
    enum class State : uint8_t { Opening, Open, Refused, Lost };

    // Connects; what comes of it is for step(). Null: not even that.
    static std::unique_ptr<HostileLink> connect(const Account& account, const std::string& node);
    // The same, until it is open or not to be.
    static std::unique_ptr<HostileLink>
    open(const Account& account, const std::string& node, base::Duration patience);

    State state() const { return state_; }
    int fd() const { return stream_.fd(); }
    // Reads and writes what can be without waiting. False: closed.
    bool step();
    // The same, after waiting for something to come, or for room to write.
    bool wait_and_step(base::Duration at_most);
    bool has_unsent() const { return has_unsent_; }
    control::ClientControl& control() { return control_; }
    const control::Established& established() const { return *established_; }
    base::TimePoint began() const { return began_; }

    uint64_t answers = 0;       // to questions
    uint64_t last_request = 0;  // that was answered

  private:
    HostileLink(io::UniqueFd fd, const control::TlsContext& context);
    void take_events();

    host::SystemRandom random_;
    io::TcpStream stream_;
    control::ClientControl control_;
    State state_ = State::Opening;
    bool has_unsent_ = false;
    std::optional<control::Established> established_;
    base::TimePoint began_;
};

}  // namespace continuo::tests
