#include "common/dataplane/datagram_queue.hpp"

#include "common/wire/tunnel_header.hpp"

#include <algorithm>

namespace continuo::dataplane {

DatagramQueue::Pushed DatagramQueue::push(base::ByteView run, size_t segment_bytes) {
    const size_t step = segment_bytes == 0 ? run.size() : segment_bytes;
    const bool is_urgent = base::is_low_delay(wire::class_of(run));
    Band& band = is_urgent ? urgent_ : patient_;
    const std::scoped_lock lock(mutex_);
    const size_t left = room();
    if (left <= (is_urgent ? 0 : kReservedBytes)) {
        wants_room_ = true;
        ++refused_;
        return {false, false, left};
    }
    for (size_t offset = 0; offset < run.size(); offset += step) {
        const base::ByteView datagram = run.subspan(offset, std::min(step, run.size() - offset));
        std::array<uint8_t, kLengthBytes> length{};
        base::store_big_endian(length.data(), static_cast<uint16_t>(datagram.size()));
        band.back.insert(band.back.end(), length.begin(), length.end());
        band.back.insert(band.back.end(), datagram.begin(), datagram.end());
        waiting_bytes_ += kLengthBytes + datagram.size();
    }
    wants_room_ = wants_room_ || (!on_room_ && waiting_bytes_ > kLimitBytes / 2);
    return {true, !std::exchange(is_told_, true), room()};
}

void DatagramQueue::on_wake_failed() {
    const std::scoped_lock lock(mutex_);
    is_told_ = false;
}

size_t DatagramQueue::room_bytes() {
    const std::scoped_lock lock(mutex_);
    return room();
}

bool DatagramQueue::has_less_than(size_t bytes) {
    const std::scoped_lock lock(mutex_);
    const bool has_less = waiting_bytes_ < bytes;
    wants_room_ = wants_room_ || !has_less;
    return has_less;
}

void DatagramQueue::tell_room() {
    if (on_room_ && !on_room_()) {
        on_room_untold();
    }
}

void DatagramQueue::discard() {
    if (clear()) {
        tell_room();
    }
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
    return waiting_bytes_ <= kLimitBytes / 2 && std::exchange(wants_room_, false);
}

bool DatagramQueue::clear() {
    const std::scoped_lock lock(mutex_);
    urgent_ = {};
    patient_ = {};
    waiting_bytes_ = 0;
    is_told_ = false;
    return take_room_wish();
}

void DatagramQueue::on_room_untold() {
    const std::scoped_lock lock(mutex_);
    wants_room_ = true;
}

}  // namespace continuo::dataplane
