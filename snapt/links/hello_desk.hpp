// HelloDesk: identifies a plain connection by its HELLO (docs/PROTOCOL.md section 3.7). Keys come
// from the thread of links; HELLOs are checked on that of strangers, so that an invalid one never
// reaches a thread that carries data. Any thread; holds its lock for a few tags at most.
#pragma once

#include "common/dataplane/plain_stream.hpp"
#include "snapt/links/control_server.hpp"

#include <map>
#include <mutex>
#include <optional>
#include <utility>

namespace continuo::snapt::links {

class HelloDesk {
  public:
    // Keys of a new epoch; those of the previous one stay valid.
    void add(LinkId link, uint16_t wire_session, uint8_t tag_bytes, const control::EpochKeys& keys);
    // Unknown links are ignored.
    void remove(LinkId link, uint16_t wire_session);

    // The link of a valid `hello`; nothing when it is not valid. Each is accepted once.
    std::optional<LinkId> judge(const wire::Hello& hello);

  private:
    struct Entry {
        uint8_t tag_bytes = 0;
        dataplane::HelloCheck check;
    };

    std::mutex mutex_;
    // A session has two for a moment, when its node reconnects.
    std::map<std::pair<uint16_t, LinkId>, Entry> entries_;
};

}  // namespace continuo::snapt::links
