#include "snapt/links/control_server.hpp"

#include "snapt/links/control_door.hpp"
#include "snapt/links/control_links.hpp"

#include <utility>

namespace continuo::snapt::links {

struct ControlServer::Inner {
    Inner(io::EventLoop& data_loop, ControlHandler& handler, control::CredentialSource& credentials)
        : shared(credentials), links(data_loop, handler, shared), door(shared, links) {}

    base::Result<void> start(ControlServerOptions options);
    void stop();
    ControlServerCounters counters() const;

    ControlShared shared;
    ControlLinks links;
    ControlDoor door;
    std::vector<base::Endpoint> endpoints;
};

base::Result<void> ControlServer::Inner::start(ControlServerOptions options) {
    if (door.is_running()) {
        return base::Error{base::Errc::InvalidState, "control server runs"};
    }
    shared.context.emplace(CTN_TRY(control::TlsContext::server()));
    shared.parameters = std::move(options.parameters);
    shared.user_links.set_user_sessions(options.user_sessions);
    shared.events = options.events;
    endpoints = CTN_TRY(door.open(options.listen, options.max_links));
    links.start();
    door.start();
    return {};
}

// The door first: connections it has accepted by then are on their way, and the links send them
// CLOSE.
void ControlServer::Inner::stop() {
    links.shut_gate();
    door.stop();
    links.stop();
}

ControlServerCounters ControlServer::Inner::counters() const {
    const ControlCounts& counts = shared.counts;
    return {counts.accepted,          counts.refused,        counts.displaced,
            counts.failed_handshakes, counts.portal_checks,  counts.links,
            counts.refused_links,     counts.refused_hellos, counts.pauses};
}

ControlServer::ControlServer(io::EventLoop& data_loop,
                             ControlHandler& handler,
                             control::CredentialSource& credentials)
    : inner_(std::make_unique<Inner>(data_loop, handler, credentials)) {}

ControlServer::~ControlServer() {
    stop();
}

base::Result<void> ControlServer::start(ControlServerOptions options) {
    return inner_->start(std::move(options));
}

void ControlServer::stop() {
    inner_->stop();
}

const std::vector<base::Endpoint>& ControlServer::endpoints() const {
    return inner_->endpoints;
}

void ControlServer::set_user_sessions(size_t user_sessions) {
    inner_->shared.user_links.set_user_sessions(user_sessions);
}

void ControlServer::accept(LinkId link, control::Accept accept, std::shared_ptr<LinkDesk> desk) {
    inner_->links.accept(link, std::move(accept), std::move(desk));
}

void ControlServer::reject(LinkId link, control::RejectReason reason, std::string text) {
    inner_->links.with_link(
        link, [reason, text = std::move(text)](control::ServerControl& server, base::TimePoint) {
            server.reject(reason, text);
        });
}

void ControlServer::confirm(LinkId link, uint32_t epoch) {
    inner_->links.with_link(link, [epoch](control::ServerControl& server, base::TimePoint now) {
        static_cast<void>(server.confirm(epoch, now).has_value());
    });
}

void ControlServer::ask_for_rekey(LinkId link) {
    inner_->links.with_link(link, [](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.ask_for_rekey().has_value());
    });
}

void ControlServer::send_directory(LinkId link, control::Directory directory) {
    inner_->links.with_link(
        link, [directory = std::move(directory)](control::ServerControl& server, base::TimePoint) {
            static_cast<void>(server.send_directory(directory).has_value());
        });
}

void ControlServer::ask_for_keepalive(LinkId link) {
    inner_->links.with_link(link, [](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.ask_for_keepalive().has_value());
    });
}

void ControlServer::reply_usage(LinkId link, control::UsageReply reply) {
    inner_->links.with_link(
        link, [reply = std::move(reply)](control::ServerControl& server, base::TimePoint) {
            static_cast<void>(server.reply_usage(reply).has_value());
        });
}

void ControlServer::tell_session_state(LinkId link, bool known) {
    inner_->links.with_link(link, [known](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.tell_session_state(known).has_value());
    });
}

void ControlServer::tell_allowance(LinkId link, const control::Allowance& allowance) {
    inner_->links.with_link(link, [allowance](control::ServerControl& server, base::TimePoint) {
        static_cast<void>(server.tell_allowance(allowance).has_value());
    });
}

dataplane::StreamPort ControlServer::open_stream(LinkId link) {
    return inner_->links.open_stream(link);
}

void ControlServer::close(LinkId link, control::CloseReason reason, std::string text) {
    inner_->links.with_link(
        link, [reason, text = std::move(text)](control::ServerControl& server, base::TimePoint) {
            server.close(reason, text);
        });
}

ControlServerCounters ControlServer::counters() const {
    return inner_->counters();
}

}  // namespace continuo::snapt::links
