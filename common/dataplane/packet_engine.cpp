#include "common/dataplane/packet_engine.hpp"

#include <utility>

namespace continuo::dataplane {

using base::TimePoint;
using session::Session;

PacketEngine::PacketEngine(io::EventLoop& loop,
                           const PacketEngineSettings& settings,
                           SocketDirectory& sockets,
                           SessionOwner& owner)
    : loop_(loop)
    , recorder_(settings.recording.packets)
    , pool_(settings.small_packets, settings.large_packets)
    , kept_memory_(settings.max_kept_bytes)
    , receiver_(drops_, settings.inputs)
    , driver_(loop, sockets, owner, drops_) {
    scratch_.load.measure_with(io::EventLoop::clock);
    receiver_.record_to(recorder_);
    driver_.record_to(recorder_);
    driver_.set_clock(settings.clock);
}

PacketEngine::~PacketEngine() = default;

base::Result<void> PacketEngine::open_tun(const std::string& device,
                                          const io::TunOptions& options,
                                          TunPort::Written on_written,
                                          std::function<void()> on_readable) {
    tun_device_.emplace(CTN_TRY(io::TunDevice::open(device, options)));
    tun_port_.emplace(*tun_device_, pool_, drops_, std::move(on_written));
    tun_port_->record_to(recorder_);
    tun_poller_ =
        std::make_unique<io::Poller>(loop_, tun_device_->poll_fd(), std::move(on_readable));
    return {};
}

void PacketEngine::end(Session& session) {
    driver_.remove(session);
    ended_.add(session);
}

void PacketEngine::go_on(Session& session, TimePoint now) {
    driver_.touch(session);
    driver_.pump(now);
}

report::ClassFigureTable PacketEngine::sent() const {
    report::ClassFigureTable table = ended_.classes;
    driver_.each([&](const Session& session) { add_figures(table, session); });
    return table;
}

ReceivedFigures PacketEngine::received() const {
    ReceivedFigures sum = ended_.received;
    driver_.each([&](const Session& session) { sum.add(session); });
    return sum;
}

base::DropCounters PacketEngine::all_drops() const {
    base::DropCounters sum = drops_;
    sum.merge(ended_.drops);
    driver_.each([&](const Session& session) { sum.merge(session.drops()); });
    return sum;
}

}  // namespace continuo::dataplane
