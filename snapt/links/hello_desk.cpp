#include "snapt/links/hello_desk.hpp"

namespace continuo::snapt::links {

void HelloDesk::add(LinkId link,
                    uint16_t wire_session,
                    uint8_t tag_bytes,
                    const control::EpochKeys& keys) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entries_[{wire_session, link}];
    entry.tag_bytes = tag_bytes;
    entry.check.add(keys);
}

void HelloDesk::remove(LinkId link, uint16_t wire_session) {
    const std::scoped_lock lock(mutex_);
    entries_.erase({wire_session, link});
}

std::optional<LinkId> HelloDesk::judge(const wire::Hello& hello) {
    const std::scoped_lock lock(mutex_);
    for (auto at = entries_.lower_bound({hello.session_id, 0});
         at != entries_.end() && at->first.first == hello.session_id; ++at) {
        if (at->second.check.accepts(hello, at->second.tag_bytes)) {
            return at->first.second;
        }
    }
    return std::nullopt;
}

}  // namespace continuo::snapt::links
