// SessionTable: the sessions of nodes, found by their number, by lease and by node, and which of
// them must give way when there are too many.
#pragma once

#include "common/io/event_loop.hpp"
#include "snapt/relay/node_session.hpp"
#include "snapt/relay/relay_settings.hpp"

#include <functional>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace continuo::snapt::relay {

// A node not heard for this many keepalives may be gone, though its control link is open, for
// instance after a power failure. Or it has no flow, and nothing to send.
inline constexpr int kSilentKeepalives = 3;

class SessionTable {
  public:
    using Sessions = std::vector<std::unique_ptr<NodeSession>>;

    // Both must outlive it.
    SessionTable(io::EventLoop& loop, const RelaySettings& settings)
        : loop_(loop), settings_(settings), by_wire_id_(size_t{UINT16_MAX} + 1) {}

    const Sessions& all() const { return sessions_; }
    NodeSession* find(uint16_t wire_id) const { return by_wire_id_[wire_id]; }
    NodeSession* find(const base::IpAddress& lease) const;
    NodeSession& owner_of(const tunnel::Session& session) const;
    size_t count_of(std::string_view user) const;
    // The session of that node; null: none.
    const NodeSession* session_of(const SessionGrant& grant) const;
    // Whether the association named by the node is its own and continues.
    bool may_continue(const SessionGrant& grant) const;
    // Its control link is open, and every request for a sign of life was answered; or the link was
    // lost recently, or the node was heard since, within kSilentKeepalives.
    bool is_here(const NodeSession& node) const;
    // True when the node was silent for kSilentKeepalives and must be asked for a sign of life now;
    // once, until it is heard.
    bool wants_sign_of_life(uint16_t wire_id);

    // Whether there is no place for another session of that user.
    bool is_full(std::string_view user) const;
    // The session that ends so that there is: the one whose node was silent longest, among those
    // that are not here: one of the user's own or, at the limit of all, one that was silent for
    // kSilentKeepalives. Null: no place can be made, or none is needed.
    const NodeSession* to_give_way(std::string_view user) const;
    NodeSession& add(std::unique_ptr<NodeSession> node);
    std::unique_ptr<NodeSession> remove(const NodeSession& node);

  private:
    using Condition = std::function<bool(const NodeSession&)>;

    bool is_silent(const NodeSession& node) const;
    bool is_at_limit(std::string_view user) const {
        return settings_.max_user_sessions != 0 && count_of(user) >= settings_.max_user_sessions;
    }
    size_t count(const Condition& counts) const;
    const NodeSession* most_silent(const Condition& may_give_way) const;

    io::EventLoop& loop_;
    const RelaySettings& settings_;
    Sessions sessions_;
    std::vector<NodeSession*> by_wire_id_;
    uint64_t begun_ = 0;
    std::unordered_map<base::IpAddress, NodeSession*> by_lease_;
};

}  // namespace continuo::snapt::relay
