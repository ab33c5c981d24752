// ControlClient: the socket side of control at a node, for one SNAPT. It keeps a control link up
// for as long as it is started: connects, runs the handshake, and after a loss connects again,
// continuing the association. Links run on a ControlThread, which several clients share; calls come
// from the data loop's thread and take effect later; events go to a ControlClientHandler on the
// data loop. docs/PROTOCOL.md section 4.
#pragma once

#include "cnapt/tcp_connect.hpp"
#include "common/base/ip_address.hpp"
#include "common/control/client_control.hpp"
#include "common/dataplane/datagram_queue.hpp"
#include "common/io/event_loop.hpp"

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace continuo::cnapt {

// From the first failure on, doubling; at once after network_changed().
inline constexpr base::Duration kMinReconnectDelay = base::milliseconds(200);
inline constexpr base::Duration kMaxReconnectDelay = base::seconds(10);
// Interval for a SNAPT that is known from a directory only and never let this node in: it may not
// know the user.
inline constexpr base::Duration kMaxFirstConnectDelay = base::seconds(600);
// Whatever the network and directories do in between: others must not aim nodes at a host.
inline constexpr base::Duration kHearsayInterval = base::seconds(60);
inline constexpr base::Duration kConnectTimeout = base::seconds(5);
// A link that lived so long makes the delay small again.
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
    bool is_connected = false;  // TCP was; else sys_errno says why not
    int sys_errno = 0;
    std::optional<base::Endpoint> remote;  // none: no address to call
    std::optional<ControlUplink> uplink;   // where it began; none: as the kernel routes
    // All over which the attempt failed: those of a race that nobody won, else the one above. What
    // was not tried, or closed because another way had won, is not among them.
    std::vector<ControlUplink> failed_by = {};
};

// Runs on the data loop.
class ControlClientHandler {
  public:
    ControlClientHandler() = default;
    ControlClientHandler(const ControlClientHandler&) = delete;
    ControlClientHandler& operator=(const ControlClientHandler&) = delete;
    virtual ~ControlClientHandler() = default;

    // A handshake succeeded with the SNAPT at `remote`: first, or again (accept.continued says
    // which). `from`: where the connection began; none: as the kernel routes.
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
    // Outer datagrams came over TCP: to be pulled.
    virtual void on_datagrams(dataplane::DatagramQueue& queue) = 0;
    // stream() takes datagrams again, after it was rather full.
    virtual void on_stream_room() = 0;
    // Datagrams that stream() took lately may be lost; the stream goes on.
    virtual void on_stream_lost() = 0;
    // An attempt failed or an established link is gone; the next attempt follows by itself. A link
    // that was dropped for network_changed() or restart() is not reported: on_established()
    // follows, or this for the failed attempt.
    virtual void on_closed(const LinkEnd& end) = 0;
    // One of several ways had connected, and led to no SNAPT; the attempt goes on by the others, or
    // on_closed() follows.
    virtual void on_way_failed(const LinkEnd& end) = 0;
};

struct ControlClientOptions {
    control::ClientParameters parameters;
    std::vector<base::Endpoint> addresses;  // tried in turn
    ControlUplinks uplinks;
    uint32_t fwmark = 0;  // SO_MARK; 0: none
    // Until it lets this node in, attempts get as far apart as kMaxFirstConnectDelay. An address
    // where it did not let this node in is called every kHearsayInterval at most.
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

    // Begins to connect. Errors: InvalidState (started before), System.
    base::Result<void> start(ControlClientOptions options);
    // Says CLOSE (shutdown), as far as the socket takes it at once. The handler is not called any
    // more.
    void stop();

    // The uplinks may have changed. That of the link the same: it is probed, or goes on to connect;
    // a waiting attempt starts now. Another: a new connection starts there now, the old one is
    // dropped.
    void network_changed(ControlUplinks uplinks);
    // For the next attempt, when none is under way and no link is up.
    void set_uplinks(ControlUplinks uplinks);
    void set_addresses(std::vector<base::Endpoint> addresses);
    // The network works: does not wait for the next attempt.
    void try_now();
    // The SNAPT lost the association: connects anew without continuing it.
    void restart();
    // Connects anew and continues the association.
    void renew();
    // The same by these uplinks, which later attempts take, too.
    void renew_by(ControlUplinks uplinks);

    // No effect while no link is up, which on_closed() has reported.
    void request_rekey();
    void send_apps(control::Apps apps);
    void query_usage(uint32_t request, std::string json);
    void query_session();
    // Where outer datagrams go into the link. Datagrams pushed while no link is up are lost, sooner
    // or later. Not to be used after this object's end.
    dataplane::StreamPort stream();

  private:
    class Inner;
    std::shared_ptr<Inner> inner_;
};

}  // namespace continuo::cnapt
