#include "common/dataplane/packet_engine.hpp"

#include <algorithm>
#include <utility>

namespace continuo::dataplane {

PacketEngine::PacketEngine(io::EventLoop& loop,
                           SocketDirectory& sockets,
                           base::DropCounters& drops,
                           const EngineSettings& settings,
                           turns::InputQueues* inputs)
    : loop_(loop)
    , drops_(drops)
    , recorder_(settings.recorder)
    , pool_(settings.small_packets, settings.large_packets)
    , kept_memory_(settings.max_kept_bytes)
    , receiver_(inputs == nullptr ? DatagramReceiver(drops) : DatagramReceiver(drops, *inputs))
    , driver_(loop, sockets, drops) {
    scratch_.load.measure_with(io::EventLoop::clock);
    receiver_.record_to(recorder_);
    driver_.record_to(recorder_);
}

PacketEngine::~PacketEngine() = default;

base::Result<void> PacketEngine::open_tun(const std::string& device,
                                          const host::TunOptions& options,
                                          TunPort::Written on_written,
                                          TunReadable on_readable) {
    tun_ = std::make_unique<host::TunDevice>(CTN_TRY(host::TunDevice::open(device, options)));
    tun_port_ = std::make_unique<TunPort>(*tun_, pool_, drops_, std::move(on_written));
    tun_port_->record_to(recorder_);
    tun_poller_ = std::make_unique<io::Poller>(loop_, tun_->fd(), std::move(on_readable));
    return {};
}

void PacketEngine::end(tunnel::Session& session) {
    driver_.remove(session);
    ended_.add(session);
}

void PacketEngine::deliver_whole(base::ByteView packet, size_t payload_offset, flow::Flow& flow) {
    const size_t payload = packet.size() - std::min(payload_offset, packet.size());
    tun_port_->write_packet(packet, &flow, payload);
}

void PacketEngine::on_too_big(const session::TransmitItem& item) {
    if (item.session != nullptr) {
        item.session->on_too_big(item, loop_.now());
        driver_.touch(*item.session);
    }
}

bool PacketEngine::send_stream(const StreamPort& stream,
                               const session::TransmitItem& item,
                               base::ByteView bytes,
                               uint16_t local_port) {
    if (!stream) {
        return false;
    }
    const auto pushed = stream.push(bytes, item.segment_bytes);
    item.session->paths().path(wire::kTcpPath).set_room(pushed.room_bytes);
    if (pushed.is_taken && recorder_ != nullptr) {
        const base::IpAddress local = base::IpAddress::any(item.to.address.version);
        recorder_->streamed({{local, local_port}, item.to}, bytes, item.segment_bytes,
                            record::PacketRecorder::Direction::Outbound);
    }
    return pushed.is_taken;
}

base::DropCounters PacketEngine::all_drops() const {
    base::DropCounters sum = drops_;
    sum.merge(ended_.drops);
    for (const tunnel::Session* session : driver_.sessions()) {
        sum.merge(session->drops());
    }
    return sum;
}

report::ClassFigureTable PacketEngine::sent() const {
    report::ClassFigureTable table = ended_.classes;
    for (const tunnel::Session* session : driver_.sessions()) {
        add_figures(table, *session);
    }
    return table;
}

ReceivedFigures PacketEngine::received() const {
    ReceivedFigures sum = ended_.received;
    for (const tunnel::Session* session : driver_.sessions()) {
        sum.add(*session);
    }
    return sum;
}

}  // namespace continuo::dataplane
