// SessionDesk: the LinkDesk of an accepted link. Names and questions about usage go to the ledger
// without passing the data loop. docs/PROTOCOL.md section 4.3.
#pragma once

#include "snapt/accounting/accountant.hpp"
#include "snapt/accounting/app_names.hpp"
#include "snapt/links/control_server.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace continuo::snapt::users {

class SessionDesk final : public links::LinkDesk, public std::enable_shared_from_this<SessionDesk> {
  public:
    struct Session {
        links::LinkId link = 0;
        store::Account account;
        uint32_t accounting_number = 0;
        std::shared_ptr<accounting::AppNames> names;
        std::shared_ptr<std::atomic<uint64_t>> pauses;
    };
    // All must outlive functions posted to `loop`, which carries the answers.
    SessionDesk(io::EventLoop& loop,
                accounting::Accountant& accountant,
                links::ControlServer& server,
                Session session)
        : loop_(loop), accountant_(accountant), server_(server), session_(std::move(session)) {}

    // Data loop: the session is over.
    void on_session_over() { is_known_ = false; }

    void on_names(std::span<const control::App> apps) override;
    std::optional<std::string> on_usage_query(const control::UsageQuery& query) override;
    bool is_session_known() const override { return is_known_; }
    void on_paused() override { ++*session_.pauses; }

  private:
    io::EventLoop& loop_;
    accounting::Accountant& accountant_;
    links::ControlServer& server_;
    const Session session_;
    std::atomic<bool> is_known_ = true;
    std::atomic<bool> is_asking_ = false;  // one look-up of usage at a time
};

}  // namespace continuo::snapt::users
