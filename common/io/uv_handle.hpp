// UvHandle<Handle, State>: owner of one libuv handle and of the state for its callbacks. libuv
// handles must not move, and their memory may be freed only in or after the close callback. So both
// are on the heap; destroying the owner closes the handle and leaves the memory to the close
// callback. An owner may therefore be destroyed within its own callback. Loop thread only.
#pragma once

#include <memory>
#include <utility>

#include <uv.h>

namespace continuo::io {

template <typename Handle, typename State>
class UvHandle {
  public:
    struct Box {
        Handle handle{};
        State state{};
        bool closing = false;  // set once the owner is gone: callbacks do nothing more
    };

    UvHandle() : box_(new Box) { box_->handle.data = box_.get(); }

    // After a failed uv_*_init: nothing to close.
    void discard() { delete box_.release(); }

    Handle* handle() const { return &box_->handle; }
    State& state() const { return box_->state; }
    static Box& box_of(Handle* handle) { return *static_cast<Box*>(handle->data); }

  private:
    struct Closer {
        void operator()(Box* box) const {
            box->closing = true;
            uv_close(reinterpret_cast<uv_handle_t*>(&box->handle),
                     [](uv_handle_t* handle) { delete static_cast<Box*>(handle->data); });
        }
    };
    std::unique_ptr<Box, Closer> box_;
};

}  // namespace continuo::io
