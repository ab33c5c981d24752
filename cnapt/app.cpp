#include "cnapt/app.hpp"

#include "classifier/policy_changes.hpp"
#include "cnapt/answers.hpp"
#include "cnapt/bypass/capture_links.hpp"
#include "cnapt/bypass/plain_control.hpp"
#include "cnapt/bypass/portal_control.hpp"
#include "cnapt/capture/bypassed_cgroups.hpp"
#include "cnapt/capture/gateway_check.hpp"
#include "cnapt/names/dns_switch.hpp"
#include "cnapt/node/ping_desk.hpp"
#include "cnapt/settings/node_key.hpp"
#include "cnapt/snapts/snapt_set.hpp"
#include "common/base/version.hpp"
#include "common/crypto/library.hpp"
#include "common/daemon/controls.hpp"
#include "common/daemon/forward_rules.hpp"
#include "common/dataplane/class_settings.hpp"
#include "common/dataplane/figures.hpp"
#include "common/dataplane/recording.hpp"
#include "common/io/file.hpp"
#include "common/io/sysctl.hpp"
#include "common/io/system_random.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace continuo::cnapt {

using base::log;
using base::LogLevel;
using daemon::describe;
using node::NodeSettings;
using node::SnaptLink;
using settings::CaptureConfig;
using settings::NodeConfig;
using settings::parse_node_config;
using snapts::SnaptClient;

namespace {

NodeSettings node_settings(const NodeConfig& config,
                           const capture::CaptureSwitch& capture,
                           const std::string& state) {
    const auto table = dataplane::class_table(config.classes, config.limits.queue_bytes);
    NodeSettings settings;
    settings.device = config.capture.device;
    settings.ipv4 = capture.ipv4();
    settings.ipv6 = capture.ipv6();
    settings.max_flows = config.limits.flows;
    settings.journal = state + "/bindings";
    settings.classes = table.settings;
    settings.uplinks.own_device = config.capture.device;
    settings.uplinks.allow = config.uplinks.allow;
    settings.uplinks.deny = config.uplinks.deny;
    settings.uplinks.lan = config.capture.gateway_interfaces;
    settings.uplinks.fwmark = config.capture.fwmark;
    settings.uplinks.tos = table.tos;
    settings.on_link = {config.capture.on_link, config.capture.kill_switch};
    return settings;
}

// Clients of the LAN would not get through, and nothing else would report it.
void say_gateway_faults(const CaptureConfig& config) {
    report::Findings findings;
    capture::check_gateway(config, findings);
    daemon::log_failures(findings);
}

class App final : public node::NodeEvents {
  public:
    App(RunOptions options,
        NodeConfig config,
        dataplane::RecordingFiles files,
        names::DnsConnection dns_helper)
        : options_(std::move(options))
        , config_(std::move(config))
        , node_name_(config_.node.empty() ? daemon::host_name("node") : config_.node)
        , recorders_(loop_, config_.debug, std::move(files), config_.capture.device)
        , capture_(
              loop_, config_.capture, [this] { on_captured(); }, options_.state + "/sysctl.json")
        , dns_(loop_, config_.dns.servers, std::move(dns_helper), [this] { follow_links(); })
        , controls_(loop_,
                    {[this](const report::JsonValue& request,
                            const io::UnixRequest& raw,
                            const io::UnixReply& reply) { on_request(request, raw, reply); },
                     [this] { return reload(); }, [this] { on_tick(); }}) {}

    // `configured`: what the configuration says; an option of the command line wins.
    bool load_policy(const std::string& configured);
    bool load_policy() { return load_policy(config_.policy); }
    base::Result<void> start(std::string& failure);
    void run() {
        daemon::confine();
        loop_.set_spin(base::microseconds(config_.spin_us));
        loop_.run();
    }
    void stop();

    // --- NodeEvents
    void on_path_moved(SnaptLink& link) override;
    void on_link_usable(SnaptLink& link) override;
    void on_link_lost(SnaptLink& link) override;
    void on_new_app(SnaptLink& link,
                    uint16_t tag,
                    const std::string& name,
                    base::PathMode mode) override;
    void on_session_doubted(SnaptLink& link) override;
    void on_stream_wanted(SnaptLink& link, uint8_t slot) override;
    void on_streams_unwanted(SnaptLink& link) override;
    void on_network_changed() override {
        follow_links();
        dns_.on_network_changed();
        if (plain_) {
            plain_->on_network_changed();
        }
        if (portals_) {
            portals_->on_network_changed();
        }
        if (snapts_) {
            snapts_->on_network_changed();
        }
    }

  private:
    SnaptClient* client_of(const SnaptLink& link) {
        return snapts_ ? snapts_->client_of(link) : nullptr;
    }
    void on_captured();
    void follow_links();
    void let_in();
    bool is_any_up() const;
    size_t tell_status() const;
    const char* without_snapt() const;
    void on_tick();
    std::string reload();
    bool leaves_capture();
    void on_request(const report::JsonValue& request,
                    const io::UnixRequest& raw,
                    const io::UnixReply& reply);

    RunOptions options_;
    NodeConfig config_;
    std::string node_name_;
    io::SystemRandom random_;
    io::EventLoop loop_;
    dataplane::Recorders recorders_;
    capture::CaptureSwitch capture_;
    names::DnsSwitch dns_;
    std::shared_ptr<const classifier::Ruleset> ruleset_;
    capture::BypassedCgroups cgroups_;
    std::unique_ptr<node::Node> node_;
    std::unique_ptr<node::PingDesk> pings_;
    std::unique_ptr<bypass::PortalControl> portals_;
    std::unique_ptr<bypass::PlainControl> plain_;
    std::unique_ptr<snapts::SnaptSet> snapts_;
    daemon::Controls controls_;
    std::optional<io::LockFile> lock_;
    base::TimePoint started_at_{};
};

bool App::load_policy(const std::string& configured) {
    const std::string path = options_.policy.empty() ? configured : options_.policy;
    const auto text = io::read_file(path, daemon::kMaxFileBytes);
    if (!text) {
        // Only a file that is not there means the built-in policy.
        if (!options_.policy.empty() || text.error().sys_errno != ENOENT) {
            log(LogLevel::Error, "cannot read %s: %s", path.c_str(),
                describe(text.error()).c_str());
            return false;
        }
        ruleset_ = classifier::built_in_ruleset();
        return true;
    }
    classifier::ParsedPolicy parsed = classifier::parse_policy(*text, path);
    daemon::say(parsed.diagnostics, daemon::DiagnosticsTo::Stderr);
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
    auto lock = io::LockFile::acquire(options_.state + "/lock");
    if (!lock && lock.error().code == base::Errc::InvalidState) {
        failure = "another cnapt uses " + options_.state;
    }
    lock_.emplace(CTN_TRY(std::move(lock)));
    failure = "cannot remove what an earlier run left (is this root?)";
    CTN_TRY(capture_.clean_up());
    NodeSettings settings = node_settings(config_, capture_, options_.state);
    settings.recording = recorders_.recording();
    node_ = std::make_unique<node::Node>(loop_, settings, random_, *this);
    CTN_TRY(node_->start(failure));
    pings_ = std::make_unique<node::PingDesk>(loop_, *node_);
    portals_ = std::make_unique<bypass::PortalControl>(
        loop_, *node_, capture_, config_.capture,
        control::derive_portal_key(*config_.identity.key, config_.realm));
    plain_ = std::make_unique<bypass::PlainControl>(loop_, *node_, capture_, config_,
                                                    [this] { let_in(); });
    follow_links();
    if (capture_.has_taken_over()) {
        (void)node_->keep_device(false);  // first: what fails from here on leaves no device
    }
    CTN_TRY(capture_.set_up_device(failure));
    say_gateway_faults(config_.capture);
    cgroups_.mark(ruleset_->bypassed_cgroups(), capture::bypass_mark(config_.capture.fwmark));
    node_->set_ruleset(ruleset_);
    if (config_.capture.kill_switch) {
        CTN_TRY(capture_.begin_at_once(ruleset_, failure));
    }
    capture_.set_ruleset(ruleset_);
    failure = "cannot open command socket " + options_.socket;
    CTN_TRY(controls_.open(options_.socket));
    snapts_ = std::make_unique<snapts::SnaptSet>(
        snapts::SnaptSetParts{loop_, *node_, config_, dns_, random_}, node_name_, options_.state);
    snapts_->start();
    failure.clear();
    log(LogLevel::Info, "cnapt %s runs as node %s; until a SNAPT answers, %s",
        std::string(base::kVersion).c_str(), node_name_.c_str(), without_snapt());
    io::notify_service_manager("READY=1\nSTATUS=running; no SNAPT has answered yet");
    return {};
}

// Removes cnapt0 before the rules that keep its address off the uplinks.
void App::stop() {
    io::notify_service_manager("STOPPING=1");
    controls_.close();
    dns_.end();
    if (portals_) {
        portals_->stop();
    }
    snapts_.reset();
    plain_.reset();
    portals_.reset();
    const bool is_left = leaves_capture() && capture_.leave() && node_->keep_device(true);
    pings_.reset();
    node_.reset();
    if (!is_left && lock_) {
        capture_.end();  // without the lock, what is there is another daemon's
    }
    recorders_.stop();  // waits for the disk
}

// For the run that follows at once with the same configuration: it would not find the device and
// versions of another one. The kill switch stays closed even if that run cannot begin or is
// configured differently: that run opens it or closes it anew.
bool App::leaves_capture() {
    if (!controls_.stops_for_restart() || !node_) {
        return false;
    }
    const CaptureConfig& now = config_.capture;
    auto loaded = daemon::load_config<NodeConfig>(options_.config, parse_node_config,
                                                  daemon::DiagnosticsTo::Log);
    if (!loaded.config || !settings::has_key(*loaded.config) ||
        !load_policy(loaded.config->policy)) {
        return now.kill_switch;
    }
    const CaptureConfig& next = loaded.config->capture;
    const bool finds_it = next.device == now.device && next.routing_table == now.routing_table;
    return (now.kill_switch && next.kill_switch && finds_it) ||
           settings::changes_between(config_, *loaded.config).needs_restart.empty();
}

void App::on_path_moved(SnaptLink& link) {
    if (SnaptClient* client = client_of(link)) {
        client->path_moved();
    }
}

void App::on_link_usable(SnaptLink& link) {
    const bool is_first = tell_status() == 1;
    log(LogLevel::Info, "%s answers%s", link.name.c_str(),
        is_first ? "; new flows go through the tunnel" : "");
    if (plain_) {
        plain_->set_usable(true);
    }
    let_in();
}

bool App::is_any_up() const {
    const auto& links = node_->links();
    return std::any_of(links.begin(), links.end(), [](const auto& link) { return link->is_up; });
}

// Names would not resolve if capture began before their servers were asked.
void App::let_in() {
    if (is_any_up() && plain_ && plain_->is_settled()) {
        capture_.set_open(true);
    }
}

void App::on_link_lost(SnaptLink& link) {
    const size_t up = tell_status();
    const char* what = "does not answer";
    if (link.failure.is_now(node::FailureKind::Ended)) {
        what = "has ended the session";
    } else if (link.failure.is_now(node::FailureKind::LoginRefused)) {
        what = "refuses the login";
    }
    log(LogLevel::Warning, "%s %s; %s", link.name.c_str(), what,
        up != 0 ? "new flows go to other SNAPTs" : without_snapt());
    if (up == 0) {
        if (plain_) {
            plain_->set_usable(false);
        }
        capture_.set_open(false);
    }
}

const char* App::without_snapt() const {
    return config_.capture.kill_switch ? "new flows are blocked (kill switch)"
                                       : "new flows go outside the tunnel";
}

// Reports to the service manager. Returns the number of SNAPTs that answer.
size_t App::tell_status() const {
    const auto& links = node_->links();
    const auto up = static_cast<size_t>(
        std::count_if(links.begin(), links.end(), [](const auto& link) { return link->is_up; }));
    std::string status = "STATUS=running; " + std::to_string(up) + " of " +
                         std::to_string(links.size()) + " SNAPTs answer";
    if (up == 0) {
        status += std::string("; ") + without_snapt();
    }
    io::notify_service_manager(status);
    return up;
}

void App::follow_links() {
    if (node_) {
        const bool has_names = dns_.is_resolved_told() && capture_.is_open();
        bypass::tell_links(*node_, config_.capture, has_names, capture_);
    }
}

void App::on_captured() {
    dns_.set_in_tunnel(true, true);
    log(LogLevel::Info, "traffic goes through %s", config_.capture.device.c_str());
}

void App::on_new_app(SnaptLink& link, uint16_t tag, const std::string& name, base::PathMode mode) {
    if (SnaptClient* client = client_of(link)) {
        client->name_app(tag, name, mode);
    }
}

void App::on_session_doubted(SnaptLink& link) {
    if (SnaptClient* client = client_of(link)) {
        client->query_session();
    }
}

void App::on_stream_wanted(SnaptLink& link, uint8_t slot) {
    if (SnaptClient* client = client_of(link)) {
        client->connect_by(slot);
    }
}

void App::on_streams_unwanted(SnaptLink& link) {
    if (SnaptClient* client = client_of(link)) {
        client->stay();
    }
}

void App::on_tick() {
    const base::TimePoint now = loop_.refresh_now();
    node_->flows().set_utc_offset_us(daemon::utc_us() - base::to_us(now.time_since_epoch()));
    follow_links();
    plain_->on_tick();
    capture_.on_tick();
    dns_.set_in_tunnel(capture_.is_open(), is_any_up());
    portals_->on_tick();
    snapts_->on_tick(now);
    node_->look_at_rates(now);
}

void App::on_request(const report::JsonValue& request,
                     const io::UnixRequest& raw,
                     const io::UnixReply& reply) {
    const std::string command = request.text("command");
    if (command == "usage") {
        snapts_->ask_usage(raw.line,
                           [reply](const std::string& json) { reply.finish(json + "\n"); });
        return;
    }
    if (command == "ping") {
        pings_->ask(request.text("snapt"),
                    [reply](const std::string& json) { reply.finish(json + "\n"); });
        return;
    }
    if (command == "portal") {
        reply.finish(portals_->log_in(request, raw.user_id) + "\n");
        return;
    }
    DaemonInfo info;
    info.node = node_name_;
    info.started_at = started_at_;
    info.now = loop_.now();
    info.state_directory = options_.state;
    info.slow_iterations = loop_.counters().slow_iterations;
    info.sources_left_out = capture_.sources_left_out();
    info.is_capturing = capture_.is_open();
    info.is_kill_switch = config_.capture.kill_switch;
    info.captures_ipv4 = config_.capture.ipv4;
    info.captures_ipv6 = config_.capture.ipv6;
    info.recorder = recorders_.recording().packets;
    info.dns = &dns_;
    info.plain = plain_.get();
    info.version = std::string(base::kVersion);
    reply.finish(answer(*node_, info, command, dataplane::page_of(request)) + "\n");
}

std::string App::reload() {
    auto loaded = daemon::load_config<NodeConfig>(options_.config, parse_node_config,
                                                  daemon::DiagnosticsTo::Log);
    // A bad file changes nothing.
    if (!loaded.config) {
        return report::error_json(loaded.complaint);
    }
    const auto former = ruleset_;
    if (!load_policy(loaded.config->policy)) {
        return report::error_json("bad policy file");
    }
    settings::ConfigChanges changes = settings::changes_between(config_, *loaded.config);
    const auto of_policy = classifier::policy_changes(*former, *ruleset_);
    changes.applied.insert(changes.applied.end(), of_policy.begin(), of_policy.end());
    if (cgroups_.keep_only(ruleset_->bypassed_cgroups())) {
        changes.needs_restart.emplace_back("cgroup in policy");
    }
    config_.policy = loaded.config->policy;
    config_.classes = loaded.config->classes;
    config_.limits.queue_bytes = loaded.config->limits.queue_bytes;
    node_->set_classes(dataplane::class_table(config_.classes, config_.limits.queue_bytes));
    node_->set_ruleset(ruleset_);
    capture_.set_ruleset(ruleset_);
    return daemon::reloaded(options_.config, changes.applied, changes.needs_restart);
}

}  // namespace

int run_daemon(const RunOptions& options) {
    daemon::begin_process(options.verbose);
    crypto::begin_library();
    auto loaded = daemon::load_config<NodeConfig>(options.config, parse_node_config,
                                                  daemon::DiagnosticsTo::Stderr);
    if (!loaded.config || !settings::load_key(*loaded.config)) {
        return report::kExitConfig;
    }
    const CaptureConfig& capture = loaded.config->capture;
    const std::string why = capture.ipv6 ? io::ipv6_switched_off(capture.device) : "";
    if (!why.empty()) {
        if (!capture.ipv4) {
            log(LogLevel::Error, "IPv6 is switched off on this host (%s): set capture.ipv4 = true",
                why.c_str());
            return report::kExitError;
        }
        log(LogLevel::Warning, "IPv6 is switched off on this host (%s): captures IPv4 only",
            why.c_str());
    }
    config::Diagnostic complaint;
    auto files = dataplane::open_recording(loaded.config->debug, options.config, complaint);
    if (!files) {
        daemon::say(std::span(&complaint, 1), daemon::DiagnosticsTo::Stderr);
        return report::kExitConfig;
    }
    names::DnsConnection dns_helper =
        names::start_dns_helper(*loaded.config, options.state, options.socket);
    constexpr std::array kForStart = {io::Capability::NetAdmin, io::Capability::Bpf,
                                      io::Capability::SysAdmin};
    if (!daemon::reduce_rights(options, io::kNodeUser,
                               options.policy.empty() ? loaded.config->policy : options.policy,
                               kForStart)) {
        return report::kExitError;
    }
    App app(options, std::move(*loaded.config), std::move(*files), std::move(dns_helper));
    if (!app.load_policy()) {
        return report::kExitConfig;
    }
    return daemon::run_app(app);
}

}  // namespace continuo::cnapt
