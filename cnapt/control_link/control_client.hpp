// ControlClient: the socket side of a node's control link to one SNAPT. While started it keeps the
// link up: connects, runs the handshake, and reconnects after a loss, continuing the association.
// Links run on a ControlThread, which several clients share. Calls come from the data loop's thread
// and take effect later; events go to a ControlClientHandler on the data loop. docs/PROTOCOL.md
// section 4.
#pragma once

#include "cnapt/control_link/tcp_connect.hpp"
#include "common/base/ip_address.hpp"
#include "common/control/client_control.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/io/event_loop.hpp"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace continuo::cnapt::control_link {

// Doubles from the first failure on; starts at once after network_changed().
inline constexpr base::Duration kMinReconnectDelay = base::milliseconds(200);
inline constexpr base::Duration kMaxReconnectDelay = base::seconds(10);
// Interval for a SNAPT that is known only from a directory and has never let this node in: it may
// not know the user.
inline constexpr base::Duration kMaxFirstConnectDelay = base::seconds(600);
// Applies whatever the network and directories do meanwhile: others must not aim nodes at a host.
inline constexpr base::Duration kHearsayInterval = base::seconds(60);
inline constexpr base::Duration kConnectTimeout = base::seconds(5);
// A link that lived this long resets the delay.
inline constexpr base::Duration kStableLink = base::seconds(10);

// The loop and thread of control links. Must outlive its clients.
class ControlThread {
  public:
    ControlThread();
    ControlThread(const ControlThread&) = delete;
    ControlThread& operator=(const ControlThread&) = delete;
    ~ControlThread();

    io::EventLoop& loop() { return loop_; }

  private:
    io::EventLoop loop_;
    std::thread thread_;
};

// How an attempt to connect, or a link, ended.
struct LinkEnd : control::LinkClosed {
    bool is_connected = false;  // TCP connected; otherwise sys_errno is the reason
    int sys_errno = 0;
    std::optional<base::Endpoint> remote;  // none: no address to connect to
    std::optional<ControlUplink> uplink;   // where it started; none: as the kernel routes
    // The uplinks on which the attempt failed: all that took part in a race that nobody won,
    // otherwise the one above. Uplinks that were not tried, or closed because another won, are left
    // out.
    std::vector<ControlUplink> failed_by = {};
};

// Runs on the data loop.
class ControlClientHandler {
  public:
    ControlClientHandler() = default;
    ControlClientHandler(const ControlClientHandler&) = delete;
    ControlClientHandler& operator=(const ControlClientHandler&) = delete;
    virtual ~ControlClientHandler() = default;

    // A handshake with the SNAPT at `remote` succeeded; accept.continued tells the first from later
    // ones. `from`: where the connection started; none: as the kernel routes.
    virtual void on_established(const base::Endpoint& remote,
                                const std::optional<ControlUplink>& from,
                                const control::Established& established) = 0;
    virtual void on_rejected(const control::Reject& reject) = 0;
    virtual void on_rekeyed(const control::EpochKeys& keys) = 0;
    // The SNAPT wants request_rekey().
    virtual void on_rekey_wanted() = 0;
    virtual void on_directory(const control::Directory& directory) = 0;
    // The SNAPT wants a datagram on the active path at once.
    virtual void on_keepalive_request() = 0;
    virtual void on_usage(const control::UsageReply& reply) = 0;
    virtual void on_session_state(bool known) = 0;
    virtual void on_allowance(const control::Allowance& allowance) = 0;
    // Outer datagrams came over TCP: pull them.
    virtual void on_datagrams(dataplane::DatagramQueue& queue) = 0;
    // stream() accepts datagrams again after it was nearly full.
    virtual void on_stream_room() = 0;
    // Datagrams that stream() accepted recently may be lost; the stream goes on.
    virtual void on_stream_lost() = 0;
    // TCP gets nothing through, or does so again (io::TcpStall).
    virtual void on_stream_stuck(bool is_stuck) = 0;
    // An attempt failed or an established link was lost; the next attempt starts by itself. A link
    // dropped for network_changed() or restart() is not reported: on_established() follows, or this
    // call if that attempt fails.
    virtual void on_closed(const LinkEnd& end) = 0;
    // One of several ways connected but led to no SNAPT. The attempt continues on the others, or
    // on_closed() follows.
    virtual void on_way_failed(const LinkEnd& end) = 0;
};

struct ControlClientOptions {
    control::ClientParameters parameters;
    std::vector<base::Endpoint> addresses;  // tried in turn
    ControlUplinks uplinks;
    uint32_t fwmark = 0;  // SO_MARK; 0: none
    // Until the SNAPT lets this node in, intervals grow up to kMaxFirstConnectDelay. An address at
    // which it did not is tried every kHearsayInterval at most.
    bool is_hearsay = false;
};

class ControlClient {
  public:
    // All must outlive this object.
    ControlClient(ControlThread& thread, io::EventLoop& data_loop, ControlClientHandler& handler);
    ControlClient(const ControlClient&) = delete;
    ControlClient& operator=(const ControlClient&) = delete;
    // As stop().
    ~ControlClient();

    // Starts connecting. Errors: InvalidState (already started), System.
    base::Result<void> start(ControlClientOptions options);
    // Sends CLOSE (shutdown), as far as the socket accepts it at once. The handler is not called
    // any more.
    void stop();

    // The uplinks may have changed. If the link's own is the same, the link is probed or continues
    // to connect, and a waiting attempt starts now. If it is another, the old connection is dropped
    // and a new one starts there now.
    void network_changed(ControlUplinks uplinks);
    // For the next attempt; only when none is running and no link is up.
    void set_uplinks(ControlUplinks uplinks);
    void set_addresses(std::vector<base::Endpoint> addresses);
    // The network works: starts a waiting attempt now.
    void try_now();
    // The SNAPT has lost the association: connects again without continuing it.
    void restart();
    // Connects again and continues the association.
    void renew();
    // Connects by that uplink to each address of its IP version, beside what is open or under way:
    // the first that proves the SNAPT becomes the link. Not while a SNAPT refuses this node, or a
    // rival takes its sessions.
    void connect_by(ControlUplink uplink);
    // Ends attempts beside a link that is open.
    void stay();

    // Has no effect while no link is up, which on_closed() has reported.
    void request_rekey();
    void send_apps(control::Apps apps);
    void query_usage(uint32_t request, std::string json);
    void query_session();
    // The queue of outer datagrams into the link. Datagrams pushed while no link is up are lost in
    // the end. Must not be used after this object is destroyed.
    dataplane::StreamPort stream();

  private:
    class Inner;
    std::shared_ptr<Inner> inner_;
};

}  // namespace continuo::cnapt::control_link
