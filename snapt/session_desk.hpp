// SessionDesk: the LinkDesk of an accepted link. Names and questions about usage go to the ledger
// without passing the data loop. docs/PROTOCOL.md section 4.3.
#pragma once

#include "snapt/accounting/accountant.hpp"
#include "snapt/app_names.hpp"
#include "snapt/control_server.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace continuo::snapt {

class SessionDesk final : public LinkDesk, public std::enable_shared_from_this<SessionDesk> {
  public:
    struct Session {
        LinkId link = 0;
        Account account;
        uint32_t accounting_number = 0;
        std::shared_ptr<AppNames> names;
        std::shared_ptr<std::atomic<uint64_t>> pauses;
    };
    // All must outlive functions posted to `loop`, which carries the answers.
    SessionDesk(io::EventLoop& loop, Accountant& accountant, ControlServer& server, Session session)
        : loop_(loop), accountant_(accountant), server_(server), session_(std::move(session)) {}

    // Data loop: the session is over.
    void on_session_over() { is_known_ = false; }

    void on_names(std::span<const control::App> apps) override;
    std::optional<std::string> on_usage_query(const control::UsageQuery& query) override;
    bool is_session_known() const override { return is_known_; }
    void on_paused() override { ++*session_.pauses; }

  private:
    io::EventLoop& loop_;
    Accountant& accountant_;
    ControlServer& server_;
    const Session session_;
    std::atomic<bool> is_known_ = true;
    std::atomic<bool> is_asking_ = false;  // one look-up of usage at a time
};

}  // namespace continuo::snapt
