// HandlerGate: calls to a handler on another loop. The handler's side can shut the gate; pending
// calls are then dropped, so the handler may be destroyed.
#pragma once

#include "common/io/event_loop.hpp"

#include <memory>

namespace continuo::daemon {

template <typename Handler>
class HandlerGate {
  public:
    // `handler` is called on `loop`, which must outlive this.
    HandlerGate(io::EventLoop& loop, Handler& handler)
        : loop_(loop), handler_(std::make_shared<Handler*>(&handler)) {}

    // Runs `call(Handler&)` on the handler's loop, in order, unless shut by then. Any thread.
    // False: the loop is too far behind; the call is dropped.
    template <typename Call>
    bool tell(Call call) const {
        return loop_.post([handler = handler_, call = std::move(call)] {
            if (*handler != nullptr) {
                call(**handler);
            }
        });
    }
    // The handler's loop only.
    void shut() { *handler_ = nullptr; }

  private:
    io::EventLoop& loop_;
    std::shared_ptr<Handler*> handler_;  // read and written on the handler's loop
};

}  // namespace continuo::daemon
