#include "common/daemon/controls.hpp"

#include "common/report/status_report.hpp"

#include <array>
#include <csignal>

namespace continuo::daemon {

Controls::Controls(io::EventLoop& loop, ControlHandlers handlers, base::Duration tick)
    : loop_(loop), handlers_(std::move(handlers)), interval_(tick), tick_(loop, [this] {
        tick_.set(loop_.now() + interval_);
        handlers_.on_tick();
    }) {}

Controls::~Controls() = default;

base::Result<void> Controls::open(const std::string& socket) {
    server_ = CTN_TRY(host::UnixServer::listen(
        loop_, socket,
        [this](host::UnixRequest request, host::UnixReply reply) { on_request(request, reply); }));
    static constexpr std::array<int, 4> kSignals = {SIGINT, SIGTERM, SIGHUP, SIGUSR2};
    signals_ = std::make_unique<io::SignalWatcher>(loop_, kSignals,
                                                   [this](int signal) { on_signal(signal); });
    tick_.set(loop_.now() + interval_);
    return {};
}

void Controls::close() {
    server_.reset();
}

void Controls::on_request(const host::UnixRequest& request, const host::UnixReply& reply) const {
    const auto parsed = report::JsonValue::parse(request.line, kRequestLimits);
    if (!parsed || !parsed->is_object()) {
        reply.finish(report::error_json("bad request") + "\n");
    } else if (parsed->text("command") == "reload") {
        reply.finish(handlers_.on_reload() + "\n");
    } else {
        handlers_.on_request(*parsed, request, reply);
    }
}

void Controls::on_signal(int signal) {
    if (signal == SIGHUP) {
        static_cast<void>(handlers_.on_reload());
        return;
    }
    stops_for_restart_ = signal == SIGUSR2;
    loop_.stop();
}

}  // namespace continuo::daemon
