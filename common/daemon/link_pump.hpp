// Moves bytes between a TCP stream and one end of a control link (control::ClientControl,
// control::ServerControl).
#pragma once

#include "common/io/event_loop.hpp"
#include "common/io/tcp_stream.hpp"

namespace continuo::daemon {

// Sends the link's output. True: all; false: continue when the stream is writable. Errors: System.
template <typename Control>
base::Result<bool> send_pending(io::TcpStream& stream, Control& control) {
    return stream.flush([&](base::MutableByteView to) { return control.poll_bytes(to); });
}

// Passes received bytes to the link. False: the stream has ended or failed.
template <typename Control>
bool receive_pending(io::TcpStream& stream, Control& control, io::EventLoop& loop) {
    const base::Result<bool> more = stream.drain([&](base::ByteView bytes) {
        control.on_bytes(bytes, loop.now());
        return true;
    });
    return more && *more;
}

}  // namespace continuo::daemon
