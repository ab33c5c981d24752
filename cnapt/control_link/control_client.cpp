#include "cnapt/control_link/control_client.hpp"

#include "cnapt/control_link/control_connection.hpp"
#include "common/io/privileges.hpp"

#include <utility>

namespace continuo::cnapt::control_link {

ControlThread::ControlThread()
    : thread_([this] {
        static_cast<void>(io::keep_capabilities(io::kNetworkRights));
        loop_.run();
    }) {}

ControlThread::~ControlThread() {
    loop_.stop();
    thread_.join();
}

ControlClient::ControlClient(ControlThread& thread,
                             io::EventLoop& data_loop,
                             ControlClientHandler& handler)
    : inner_(std::make_shared<Inner>(thread, data_loop, handler)) {}

ControlClient::~ControlClient() {
    stop();
}

base::Result<void> ControlClient::start(ControlClientOptions options) {
    return inner_->start(std::move(options));
}

void ControlClient::stop() {
    inner_->stop();
}

void ControlClient::network_changed(ControlUplinks uplinks) {
    inner_->later([uplinks = std::move(uplinks)](Inner& inner) mutable {
        inner.network_changed(std::move(uplinks));
    });
}

void ControlClient::set_uplinks(ControlUplinks uplinks) {
    inner_->later([uplinks = std::move(uplinks)](Inner& inner) mutable {
        inner.set_uplinks(std::move(uplinks));
    });
}

void ControlClient::set_addresses(std::vector<base::Endpoint> addresses) {
    inner_->later([addresses = std::move(addresses)](Inner& inner) mutable {
        inner.set_addresses(std::move(addresses));
    });
}

void ControlClient::try_now() {
    inner_->later([](Inner& self) { self.try_now(); });
}

void ControlClient::restart() {
    inner_->later([](Inner& inner) { inner.restart(); });
}

void ControlClient::renew() {
    inner_->later([](Inner& inner) { inner.attempt_now(); });
}

void ControlClient::connect_by(ControlUplink uplink) {
    inner_->later([uplink = std::move(uplink)](Inner& inner) { inner.connect_by(uplink); });
}

void ControlClient::stay() {
    inner_->later([](Inner& inner) { inner.stay(); });
}

void ControlClient::request_rekey() {
    Inner* inner = inner_.get();
    inner_->with_link([inner](control::ClientControl& client) {
        static_cast<void>(client.request_rekey(inner->now()).has_value());
    });
}

void ControlClient::send_apps(control::Apps apps) {
    inner_->with_link([apps = std::move(apps)](control::ClientControl& client) {
        static_cast<void>(client.send_apps(apps).has_value());
    });
}

void ControlClient::query_usage(uint32_t request, std::string json) {
    inner_->with_link([request, json = std::move(json)](control::ClientControl& client) {
        static_cast<void>(client.query_usage(request, json).has_value());
    });
}

void ControlClient::query_session() {
    inner_->query_session();
}

dataplane::StreamPort ControlClient::stream() {
    return inner_->stream();
}

}  // namespace continuo::cnapt::control_link
