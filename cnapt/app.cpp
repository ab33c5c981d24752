#include "cnapt/app.hpp"

#include "cnapt/capture_control.hpp"
#include "cnapt/commands.hpp"
#include "cnapt/control_client.hpp"
#include "cnapt/node.hpp"
#include "common/base/log.hpp"
#include "common/base/version.hpp"
#include "common/crypto/datagram_cipher.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/io/file.hpp"
#include "common/io/system_random.hpp"
#include "common/io/unix_server.hpp"
#include "common/report/json_value.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

namespace continuo::cnapt {

using base::Error;
using base::log;
using base::LogLevel;

namespace {

constexpr int kExitFailure = 1;
constexpr int kExitBadConfig = 78;
constexpr size_t kMaxConfigBytes = size_t{1} << 20;
constexpr base::Duration kTick = base::seconds(1);
constexpr size_t kMaxUsageQuestions = 64;

std::string describe(const Error& error) {
    std::string text(error.where.empty() ? base::to_string(error.code) : error.where);
    if (error.sys_errno != 0) {
        text += std::string(": ") + std::strerror(error.sys_errno);
    }
    return text;
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data())
                                                            : std::string("node");
}

int64_t utc_us() {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

// Addresses of a SNAPT; names are looked up (blocking, at start).
std::vector<base::Endpoint> resolve(const SnaptEntry& entry) {
    std::vector<base::Endpoint> endpoints;
    for (const config::HostPort& address : entry.addresses) {
        if (const auto endpoint = address.endpoint()) {
            endpoints.push_back(*endpoint);
            continue;
        }
        addrinfo hints{};
        hints.ai_socktype = SOCK_DGRAM;
        addrinfo* found = nullptr;
        if (::getaddrinfo(address.host.c_str(), nullptr, &hints, &found) != 0) {
            log(LogLevel::Warning, "cannot resolve %s", address.host.c_str());
            continue;
        }
        for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
            std::array<char, NI_MAXHOST> text{};
            if (::getnameinfo(at->ai_addr, at->ai_addrlen, text.data(), text.size(), nullptr, 0,
                              NI_NUMERICHOST) == 0) {
                if (const auto parsed = base::IpAddress::parse(text.data())) {
                    endpoints.push_back({*parsed, address.port});
                }
            }
        }
        ::freeaddrinfo(found);
    }
    return endpoints;
}

std::vector<control::ProtectionOffer> offers_of(const NodeConfig& config) {
    using control::ProtectionKind;
    if (config.protection == Protection::Authenticate) {
        return {{ProtectionKind::HmacSha256, config.tag_bytes}};
    }
    if (crypto::has_fast_aes()) {
        return {{ProtectionKind::Aes256Gcm, 16}, {ProtectionKind::ChaCha20Poly1305, 16}};
    }
    return {{ProtectionKind::ChaCha20Poly1305, 16}, {ProtectionKind::Aes256Gcm, 16}};
}

class App;

// One SNAPT: its control link and its place in the data path.
class SnaptClient final : public ControlClientHandler {
  public:
    SnaptClient(App& app, ControlThread& thread, io::EventLoop& loop, SnaptLink& link)
        : app_(app), link_(link), client_(thread, loop, *this) {}

    SnaptLink& link() { return link_; }
    ControlClient& client() { return client_; }
    base::TimePoint keyed_at() const { return keyed_at_; }
    bool is_rekeying = false;

    void on_established(const base::Endpoint& remote,
                        const control::Established& established) override;
    void on_rejected(const control::Reject& reject) override;
    void on_rekeyed(const control::EpochKeys& keys) override;
    void on_rekey_wanted() override { client_.request_rekey(); }
    void on_directory(const control::Directory& /*directory*/) override {}
    void on_keepalive_request() override;
    void on_usage(const control::UsageReply& reply) override;
    void on_session_state(bool known) override;
    void on_datagram(base::ByteView /*datagram*/) override {}
    void on_closed(const control::LinkClosed& closed) override;

  private:
    App& app_;
    SnaptLink& link_;
    ControlClient client_;
    base::TimePoint keyed_at_{};
};

class App final : public NodeEvents {
  public:
    App(RunOptions options, NodeConfig config)
        : options_(std::move(options))
        , config_(std::move(config))
        , capture_(config_.capture)
        , tick_(loop_, [this] { on_tick(); }) {}

    base::Result<void> start(std::string& failure);
    void run() { loop_.run(); }
    void stop();
    bool load_policy();

    Node& node() { return *node_; }
    io::EventLoop& loop() { return loop_; }
    void on_usage(const control::UsageReply& reply);

    // --- NodeEvents
    void on_path_moved(SnaptLink& link) override;
    void on_link_usable(SnaptLink& link) override;
    void on_link_lost(SnaptLink& link) override;
    void on_new_app(SnaptLink& link, uint16_t tag, const std::string& name) override;
    void on_session_doubted(SnaptLink& link) override;

  private:
    void add_snapt(const SnaptEntry& entry, const control::SessionId& session_id);
    ControlUplink uplink_for(const SnaptLink& link);
    SnaptClient* client_of(const SnaptLink& link);
    void on_tick();
    // The answer to the command: what was applied and what needs a restart, or the first error.
    std::string reload();
    void on_request(const io::UnixRequest& request, const io::UnixReply& reply);

    RunOptions options_;
    NodeConfig config_;
    io::SystemRandom random_;
    io::EventLoop loop_;
    CaptureControl capture_;
    std::shared_ptr<const classifier::Ruleset> ruleset_;
    std::unique_ptr<Node> node_;
    std::unique_ptr<ControlThread> control_thread_;
    std::vector<std::unique_ptr<SnaptClient>> clients_;
    std::unique_ptr<io::UnixServer> commands_;
    std::unique_ptr<io::SignalWatcher> signals_;
    std::optional<io::LockFile> lock_;
    io::DeadlineTimer tick_;
    std::map<uint32_t, io::UnixReply> usage_questions_;
    uint32_t next_question_ = 1;
    base::TimePoint started_at_{};
};

void SnaptClient::on_established(const base::Endpoint& remote,
                                 const control::Established& established) {
    keyed_at_ = app_.loop().now();
    is_rekeying = false;
    base::Endpoint data = remote;
    if (!established.accept.udp_ports.empty()) {
        data.port = established.accept.udp_ports.front();
    }
    app_.node().set_address(link_, data);
    if (const auto done = app_.node().establish(link_, established.accept, established.keys);
        !done) {
        log(LogLevel::Error, "%s: keys refused: %s", link_.name.c_str(),
            describe(done.error()).c_str());
        return;
    }
    log(LogLevel::Info, "%s: session %s, epoch %u", link_.name.c_str(),
        established.accept.continued ? "continued" : "established", established.keys.epoch);
}

void SnaptClient::on_rejected(const control::Reject& reject) {
    link_.is_control_open = false;
    log(LogLevel::Warning, "%s refused: %s", link_.name.c_str(), reject.text.c_str());
}

void SnaptClient::on_rekeyed(const control::EpochKeys& keys) {
    keyed_at_ = app_.loop().now();
    is_rekeying = false;
    if (const auto done = app_.node().rekey(link_, keys); !done) {
        log(LogLevel::Error, "%s: re-key failed: %s", link_.name.c_str(),
            describe(done.error()).c_str());
    }
}

void SnaptClient::on_keepalive_request() {
    app_.node().request_keepalive(link_);
}

void SnaptClient::on_usage(const control::UsageReply& reply) {
    app_.on_usage(reply);
}

void SnaptClient::on_session_state(bool known) {
    if (!known) {
        client_.restart();
    }
}

void SnaptClient::on_closed(const control::LinkClosed& closed) {
    if (link_.is_control_open) {
        log(LogLevel::Info, "%s: control link lost (%.*s); data goes on", link_.name.c_str(),
            static_cast<int>(control::to_string(closed.cause).size()),
            control::to_string(closed.cause).data());
    }
    link_.is_control_open = false;
    is_rekeying = false;
}

bool App::load_policy() {
    const std::string path = options_.policy.empty() ? config_.policy : options_.policy;
    const auto text = io::read_file(path, kMaxConfigBytes);
    if (!text) {
        if (!options_.policy.empty()) {
            log(LogLevel::Error, "cannot read %s: %s", path.c_str(),
                describe(text.error()).c_str());
            return false;
        }
        ruleset_ = classifier::built_in_ruleset();
        return true;
    }
    classifier::ParsedPolicy parsed = classifier::parse_policy(*text, path);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        std::fprintf(stderr, "%s\n", config::to_text(diagnostic).c_str());
    }
    if (parsed.ruleset == nullptr) {
        return false;
    }
    ruleset_ = std::move(parsed.ruleset);
    return true;
}

base::Result<void> App::start(std::string& failure) {
    started_at_ = loop_.now();
    failure = "cannot use state folder " + options_.state;
    CTN_TRY(io::make_directories(options_.state, 0700));
    failure = "another cnapt uses " + options_.state;
    lock_.emplace(CTN_TRY(io::LockFile::acquire(options_.state + "/lock")));
    failure = "cannot remove what an earlier run left (is this root?)";
    CTN_TRY(capture_.clean_up());
    NodeSettings settings;
    settings.device = config_.capture.device;
    settings.ipv4 = capture_.ipv4();
    settings.ipv6 = capture_.ipv6();
    settings.max_flows = config_.limits.flows;
    const auto table = dataplane::class_table(config_.classes, config_.limits.queue_bytes);
    settings.classes = table.settings;
    settings.uplinks.own_device = config_.capture.device;
    settings.uplinks.allow = config_.uplinks.allow;
    settings.uplinks.deny = config_.uplinks.deny;
    settings.uplinks.fwmark = config_.capture.fwmark;
    settings.uplinks.tos = table.tos;
    node_ = std::make_unique<Node>(loop_, settings, random_, *this);
    CTN_TRY(node_->start(failure));
    CTN_TRY(capture_.set_up_device(failure));
    node_->set_ruleset(ruleset_);
    failure = "cannot open command socket " + options_.socket;
    commands_ = CTN_TRY(io::UnixServer::listen(
        loop_, options_.socket,
        [this](io::UnixRequest request, io::UnixReply reply) { on_request(request, reply); }));
    static constexpr std::array<int, 3> kSignals = {SIGINT, SIGTERM, SIGHUP};
    signals_ = std::make_unique<io::SignalWatcher>(loop_, kSignals, [this](int signal) {
        if (signal == SIGHUP) {
            (void)reload();
        } else {
            loop_.stop();
        }
    });
    control_thread_ = std::make_unique<ControlThread>();
    control::SessionId session_id{};
    random_.fill(session_id);
    for (const SnaptEntry& entry : config_.snapts) {
        add_snapt(entry, session_id);
    }
    tick_.set(loop_.now() + kTick);
    failure.clear();
    return {};
}

void App::add_snapt(const SnaptEntry& entry, const control::SessionId& session_id) {
    std::vector<base::Endpoint> addresses = resolve(entry);
    if (addresses.empty()) {
        log(LogLevel::Error, "%s has no address", entry.name.c_str());
        return;
    }
    SnaptLink& link = node_->add_link(entry.name, addresses.front());
    ControlClientOptions options;
    options.parameters.identity = {config_.identity.user, config_.identity.key_id};
    options.parameters.key = *config_.identity.key;
    options.parameters.realm = config_.realm;
    options.parameters.expected_snapt = entry.name;
    options.parameters.hello.versions = {control::kProtocolVersion};
    options.parameters.hello.node = config_.node.empty() ? host_name() : config_.node;
    options.parameters.hello.software = "cnapt";
    options.parameters.hello.session_id = session_id;
    options.parameters.hello.wire_session_down = link.local_id;
    options.parameters.hello.offers = offers_of(config_);
    options.parameters.hello.want_ipv4 = config_.capture.ipv4;
    options.parameters.hello.want_ipv6 = config_.capture.ipv6;
    options.addresses = std::move(addresses);
    options.uplink = uplink_for(link);
    options.fwmark = config_.capture.fwmark;
    auto client = std::make_unique<SnaptClient>(*this, *control_thread_, loop_, link);
    if (const auto started = client->client().start(std::move(options)); !started) {
        log(LogLevel::Error, "%s: %s", entry.name.c_str(), describe(started.error()).c_str());
    }
    clients_.push_back(std::move(client));
}

void App::stop() {
    io::notify_service_manager("STOPPING=1");
    capture_.end();
    commands_.reset();
    for (const auto& client : clients_) {
        client->client().stop();
    }
    clients_.clear();
    control_thread_.reset();
    node_.reset();
}

ControlUplink App::uplink_for(const SnaptLink& link) {
    const Uplink* best = node_->uplinks().best_for(link.address.address, node_->network());
    ControlUplink uplink;
    if (best != nullptr) {
        uplink.device = best->interface;
        uplink.source = best->address;
    }
    return uplink;
}

SnaptClient* App::client_of(const SnaptLink& link) {
    for (const auto& client : clients_) {
        if (&client->link() == &link) {
            return client.get();
        }
    }
    return nullptr;
}

void App::on_path_moved(SnaptLink& link) {
    if (SnaptClient* client = client_of(link)) {
        client->client().network_changed(uplink_for(link));
    }
}

void App::on_link_usable(SnaptLink& link) {
    if (capture_.is_active()) {
        return;
    }
    std::string failure;
    if (const auto begun = capture_.begin(*ruleset_, failure); !begun) {
        log(LogLevel::Error, "%s: %s", failure.c_str(), describe(begun.error()).c_str());
        capture_.end();
        return;
    }
    io::notify_service_manager("READY=1");
    log(LogLevel::Info, "%s is up; traffic goes through %s", link.name.c_str(),
        config_.capture.device.c_str());
}

void App::on_link_lost(SnaptLink& link) {
    log(LogLevel::Warning, "%s does not answer; new flows go elsewhere", link.name.c_str());
}

void App::on_new_app(SnaptLink& link, uint16_t tag, const std::string& name) {
    if (SnaptClient* client = client_of(link)) {
        client->client().send_apps({{tag, name}});
    }
}

void App::on_session_doubted(SnaptLink& link) {
    if (SnaptClient* client = client_of(link)) {
        client->client().query_session();
    }
}

void App::on_tick() {
    tick_.set(loop_.now() + kTick);
    const base::TimePoint now = loop_.refresh_now();
    node_->flows().set_utc_offset_us(utc_us() - base::to_us(now.time_since_epoch()));
    for (const auto& client : clients_) {
        SnaptLink& link = client->link();
        if (link.is_up && !capture_.is_active()) {
            on_link_usable(link);  // it failed before
        }
        if (!link.session || !link.is_control_open || client->is_rekeying) {
            continue;
        }
        if (link.session->wants_rekey() ||
            now - client->keyed_at() >= base::seconds(link.accept.rekey_s)) {
            client->is_rekeying = true;
            client->client().request_rekey();
        }
    }
}

void App::on_usage(const control::UsageReply& reply) {
    const auto question = usage_questions_.find(reply.request);
    if (question != usage_questions_.end()) {
        question->second.finish(reply.json + "\n");
        usage_questions_.erase(question);
    }
}

void App::on_request(const io::UnixRequest& request, const io::UnixReply& reply) {
    const auto parsed = report::JsonValue::parse(request.line);
    if (!parsed || !parsed->is_object()) {
        reply.finish("{\"error\":\"bad request\"}\n");
        return;
    }
    const std::string command = parsed->text("command");
    if (command == "reload") {
        reply.finish(reload() + "\n");
        return;
    }
    if (command == "usage") {
        for (const auto& client : clients_) {
            if (client->link().is_control_open) {
                if (usage_questions_.size() >= kMaxUsageQuestions) {
                    usage_questions_.erase(usage_questions_.begin());
                }
                const uint32_t number = next_question_++;
                usage_questions_.emplace(number, reply);
                client->client().query_usage(number, request.line);
                return;
            }
        }
        reply.finish("{\"error\":\"no SNAPT answers\"}\n");
        return;
    }
    DaemonInfo info;
    info.node = config_.node.empty() ? host_name() : config_.node;
    info.started_at = started_at_;
    info.now = loop_.now();
    info.state_directory = options_.state;
    info.slow_iterations = loop_.counters().slow_iterations;
    info.version = std::string(base::kVersion);
    reply.finish(handle_command(*node_, info, request.line) + "\n");
}

std::string App::reload() {
    const auto text = io::read_file(options_.config, kMaxConfigBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", options_.config.c_str(),
            describe(text.error()).c_str());
        return report::error_json("cannot read " + options_.config);
    }
    const ParsedNodeConfig parsed = parse_node_config(*text, options_.config);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        log(LogLevel::Error, "%s", config::to_text(diagnostic).c_str());
    }
    const auto before = ruleset_;
    if (!parsed.config || !load_policy()) {
        ruleset_ = before;
        // A bad file changes nothing.
        return report::error_json(parsed.diagnostics.empty()
                                      ? "bad policy file"
                                      : config::to_text(parsed.diagnostics.front()));
    }
    const ConfigChanges changes = changes_between(config_, *parsed.config);
    for (const std::string& key : changes.needs_restart) {
        log(LogLevel::Warning, "%s: needs restart", key.c_str());
    }
    config_.classes = parsed.config->classes;
    config_.limits.queue_bytes = parsed.config->limits.queue_bytes;
    node_->set_classes(
        dataplane::class_table(config_.classes, config_.limits.queue_bytes).settings);
    node_->set_ruleset(ruleset_);
    std::string failure;
    if (capture_.is_active()) {
        if (const auto begun = capture_.begin(*ruleset_, failure); !begun) {
            log(LogLevel::Error, "%s: %s", failure.c_str(), describe(begun.error()).c_str());
        }
    }
    log(LogLevel::Info, "reloaded %s", options_.config.c_str());
    return report::reload_json(changes.applied, changes.needs_restart);
}

bool load_key(NodeConfig& config) {
    if (config.identity.key) {
        return true;
    }
    const auto text = io::read_file(config.identity.key_file, kMaxConfigBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", config.identity.key_file.c_str(),
            describe(text.error()).c_str());
        return false;
    }
    config.identity.key = parse_user_key(*text);
    if (!config.identity.key) {
        log(LogLevel::Error, "%s: error: bad key; expected 32 bytes in base64",
            config.identity.key_file.c_str());
    }
    return config.identity.key.has_value();
}

}  // namespace

int run_daemon(const RunOptions& options) {
    base::set_log_level(options.verbose ? LogLevel::Debug : LogLevel::Info);
    std::signal(SIGPIPE, SIG_IGN);
    const auto text = io::read_file(options.config, kMaxConfigBytes);
    if (!text) {
        log(LogLevel::Error, "cannot read %s: %s", options.config.c_str(),
            describe(text.error()).c_str());
        return kExitBadConfig;
    }
    ParsedNodeConfig parsed = parse_node_config(*text, options.config);
    for (const config::Diagnostic& diagnostic : parsed.diagnostics) {
        std::fprintf(stderr, "%s\n", config::to_text(diagnostic).c_str());
    }
    if (!parsed.config || !load_key(*parsed.config)) {
        return kExitBadConfig;
    }
    App app(options, std::move(*parsed.config));
    if (!app.load_policy()) {
        return kExitBadConfig;
    }
    std::string failure;
    if (const auto started = app.start(failure); !started) {
        log(LogLevel::Error, "%s: %s", failure.c_str(), describe(started.error()).c_str());
        app.stop();
        return kExitFailure;
    }
    app.run();
    app.stop();
    return 0;
}

}  // namespace continuo::cnapt
