// HelloDesk: tells whose a plain connection is by its HELLO (docs/PROTOCOL.md section 3.7). Keys
// come from the thread of links, HELLOs are judged on that of strangers: what fails to convince
// never reaches a thread that carries data. Any thread; holds its lock for a few tags at most.
#pragma once

#include "common/dataplane/plain_stream.hpp"
#include "snapt/control_server.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace continuo::snapt {

class HelloDesk {
  public:
    // Keys of a new epoch; those of the one before it stay good.
    void add(LinkId link, uint16_t wire_session, uint8_t tag_bytes, const control::EpochKeys& keys);
    // Unknown links are ignored.
    void remove(LinkId link, uint16_t wire_session);

    // The link that `hello` belongs to; nothing when it is not believed. It is believed once.
    std::optional<LinkId> judge(const wire::Hello& hello);

  private:
    struct Entry {
        uint8_t tag_bytes = 0;
        dataplane::HelloCheck check;
    };

    std::mutex mutex_;
    // A session has two for a moment, when its node connects anew.
    std::map<std::pair<uint16_t, LinkId>, Entry> entries_;
};

}  // namespace continuo::snapt
