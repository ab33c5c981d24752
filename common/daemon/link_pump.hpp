// Moves bytes between a TCP stream and one end of a control link (control::ClientControl,
// control::ServerControl).
#pragma once

#include "common/io/event_loop.hpp"
#include "common/io/tcp_stream.hpp"

namespace continuo::daemon {

// Sends what the link has to say. True: all; false: the rest when the stream is writable. Errors:
// System.
template <typename Control>
base::Result<bool> send_pending(io::TcpStream& stream, Control& control) {
    return stream.flush([&](base::MutableByteView to) { return control.poll_bytes(to); });
}

// Gives the link what came, while `may_read() -> bool`. False: the stream has ended or failed.
template <typename Control, typename MayRead>
bool receive_pending(io::TcpStream& stream,
                     Control& control,
                     io::EventLoop& loop,
                     const MayRead& may_read) {
    const base::Result<bool> more = stream.drain([&](base::ByteView bytes) {
        control.on_bytes(bytes, loop.now());
        return may_read();
    });
    return more && *more;
}

}  // namespace continuo::daemon
