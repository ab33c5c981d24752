#include "common/dataplane/datagram_queue.hpp"

#include "common/wire/tunnel_header.hpp"

#include <algorithm>

namespace continuo::dataplane {

namespace {

constexpr size_t room_of(size_t waiting_bytes) {
    return DatagramQueue::kLimitBytes - std::min(DatagramQueue::kLimitBytes, waiting_bytes);
}

}  // namespace

DatagramQueue::Pushed DatagramQueue::push(base::ByteView run, size_t segment_bytes) {
    const size_t step = segment_bytes == 0 ? run.size() : segment_bytes;
    const bool is_urgent = base::is_low_delay(wire::class_of(run));
    Band& band = is_urgent ? urgent_ : patient_;
    const std::scoped_lock lock(mutex_);
    const size_t room = room_of(waiting_bytes_);
    if (room <= (is_urgent ? 0 : kReservedBytes)) {
        wants_room_ = true;
        ++refused_;
        return {false, false, room};
    }
    for (size_t offset = 0; offset < run.size(); offset += step) {
        const base::ByteView datagram = run.subspan(offset, std::min(step, run.size() - offset));
        std::array<uint8_t, kLengthBytes> length{};
        base::store_big_endian(length.data(), static_cast<uint16_t>(datagram.size()));
        band.back.insert(band.back.end(), length.begin(), length.end());
        band.back.insert(band.back.end(), datagram.begin(), datagram.end());
        waiting_bytes_ += kLengthBytes + datagram.size();
    }
    wants_room_ = wants_room_ || waiting_bytes_ > kLimitBytes / 2;
    return {true, !std::exchange(is_told_, true), room_of(waiting_bytes_)};
}

void DatagramQueue::on_wake_failed() {
    const std::scoped_lock lock(mutex_);
    is_told_ = false;
}

size_t DatagramQueue::room_bytes() {
    const std::scoped_lock lock(mutex_);
    return room_of(waiting_bytes_);
}

bool DatagramQueue::has_room(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    if (room_of(waiting_bytes_) >= bytes) {
        return true;
    }
    wants_room_ = true;
    wanted_bytes_ = std::max(wanted_bytes_, bytes);
    return false;
}

// Takes over what was pushed to bands that have given all.
void DatagramQueue::fetch() {
    const std::scoped_lock lock(mutex_);
    is_told_ = false;
    for (Band* band : {&urgent_, &patient_}) {
        if (band->next == band->front.size()) {
            band->front.clear();
            band->next = 0;
            std::swap(band->front, band->back);
        }
        is_told_ = is_told_ || !band->front.empty();
    }
}

DatagramQueue::Band* DatagramQueue::next_band() {
    for (int i = 0; i < 2; ++i) {
        for (Band* band : {&urgent_, &patient_}) {
            if (band->next < band->front.size()) {
                return band;
            }
        }
        fetch();
    }
    return nullptr;
}

void DatagramQueue::release(size_t bytes, Pulled& pulled) {
    const std::scoped_lock lock(mutex_);
    waiting_bytes_ -= bytes;
    pulled.tells_room = take_room_wish();
    pulled.refused = std::exchange(refused_, 0);
}

bool DatagramQueue::take_room_wish() {
    if (room_of(waiting_bytes_) < std::max(kLimitBytes / 2, wanted_bytes_) || !wants_room_) {
        return false;
    }
    wants_room_ = false;
    wanted_bytes_ = 0;
    return true;
}

void DatagramQueue::tell_room() {
    if (on_room_ && !on_room_()) {
        on_room_untold();
    }
}

bool DatagramQueue::clear() {
    bool tells_room = false;
    {
        const std::scoped_lock lock(mutex_);
        urgent_ = {};
        patient_ = {};
        waiting_bytes_ = 0;
        is_told_ = false;
        tells_room = take_room_wish();
    }
    if (tells_room) {
        tell_room();
    }
    return tells_room;
}

void DatagramQueue::on_room_untold() {
    const std::scoped_lock lock(mutex_);
    wants_room_ = true;
}

}  // namespace continuo::dataplane
