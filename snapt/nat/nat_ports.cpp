#include "snapt/nat/nat_ports.hpp"

#include <algorithm>
#include <utility>

namespace continuo::snapt::nat {

namespace {

uint32_t count_of(const PortRange& range) {
    return uint32_t{range.last} - range.first + 1;
}

bool is_in(const PortRange& range, uint16_t port) {
    return range.first <= port && port <= range.last;
}

template <typename T>
void sort_out(std::vector<T>& list) {
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
}

}  // namespace

std::vector<PortRange> ports_left(PortRange range, std::span<const uint16_t> taken) {
    std::vector<PortRange> parts;
    uint32_t next = range.first;  // the first port that is in no part yet
    const auto close_part = [&](uint32_t end) {
        if (next < end) {
            parts.push_back({static_cast<uint16_t>(next), static_cast<uint16_t>(end - 1)});
        }
    };
    for (const uint16_t port : taken) {
        if (is_in(range, port)) {
            close_part(port);
            next = uint32_t{port} + 1;
        }
    }
    close_part(uint32_t{range.last} + 1);
    std::stable_sort(parts.begin(), parts.end(), [](const PortRange& a, const PortRange& b) {
        return count_of(a) > count_of(b);
    });
    if (parts.size() > kMaxPortParts) {
        parts.resize(kMaxPortParts);
    }
    while (parts.size() > 1 && count_of(parts.back()) < kMinPartPorts) {
        parts.pop_back();
    }
    return parts;
}

TakenPorts::Taken TakenPorts::look(std::span<const process::ListeningPort> listeners,
                                   PortRange ephemeral,
                                   bool wants_all) {
    Taken taken;
    for (const uint16_t port : own_) {
        taken.ports.push_back(port);
        taken.lasting.push_back({false, port});
        taken.lasting.push_back({true, port});
    }
    std::vector<uint16_t> short_lived;
    for (const process::ListeningPort& listener : listeners) {
        const bool may_be_short_lived = !listener.is_tcp && is_in(ephemeral, listener.port);
        if (may_be_short_lived) {
            short_lived.push_back(listener.port);
        }
        const bool is_lasting =
            !may_be_short_lived ||
            std::binary_search(short_lived_.begin(), short_lived_.end(), listener.port);
        if (is_lasting) {
            taken.lasting.push_back(listener);
        }
        if (is_lasting || wants_all) {
            taken.ports.push_back(listener.port);
        }
    }
    std::sort(short_lived.begin(), short_lived.end());
    short_lived_ = std::move(short_lived);
    sort_out(taken.ports);
    sort_out(taken.lasting);
    return taken;
}

}  // namespace continuo::snapt::nat
