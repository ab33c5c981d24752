// Admission of nodes and its end: an Admission with its stores, a relay without devices, a server
// and a node over loopback.
#pragma once

#include "common/daemon/startup.hpp"
#include "common/host/system_random.hpp"
#include "snapt/users/admission.hpp"
#include "tests/unit/snapt/ledger/accounting_fixture.hpp"
#include "tests/unit/snapt/links/control_link_fixture.hpp"

#include <future>
#include <mutex>
#include <set>

namespace continuo::snapt::users {

class StoredCredentials final : public control::CredentialSource {
  public:
    explicit StoredCredentials(store::UserStore& users) : users_(users) {}
    std::optional<control::UserKey> find(const control::Identity& identity) override {
        return users_.lookup(identity.user, identity.key_id);
    }

  private:
    store::UserStore& users_;
};

class AdmissionTest : public ledger::StateFolder {
  protected:
    void SetUp() override {
        config.name = "zrh-1";
        ledger::LedgerOptions ledger;
        ledger.state_directory = folder_;
        ledger.snapt_id = config.name;
        ledger.live_slots = 256;
        accountant = accounting::Accountant::start(ledger, ledger::kNoon).value();
        users = store::UserStore::open(folder_).value();
        store::LeasePool pool;
        pool.ipv4 = config.inner.ipv4;
        leases = store::LeaseStore::open(folder_, pool).value();
        for (const char* user : {"alice", "bob"}) {
            keys[user] = users->add(user, std::nullopt, ledger::kNoon, random)->key;
        }
        admission = std::make_unique<Admission>(
            AdmissionParts{loop, worker, config, *accountant, *leases, *users, &events});
        relay::RelaySettings settings;
        settings.sign_of_life_wait = {};
        relay = std::make_unique<relay::Relay>(loop, settings, slots, random, *admission);
        credentials = std::make_unique<StoredCredentials>(*users);
        server = std::make_unique<links::ControlServer>(loop, *admission, *credentials);
        admission->connect(*relay, *server);
        links::ControlServerOptions options;
        options.listen = {{base::IpAddress::v4(0x7F000001), 0}};
        options.parameters.realm = config.realm;
        options.events = &events;
        ASSERT_TRUE(server->start(options));
    }
    void TearDown() override {
        client.reset();
        server->stop();
        admission->finish_leases();
        relay.reset();
    }

    void log_in(const std::string& user) {
        cnapt::control_link::ControlClientOptions options;
        options.parameters.identity = {user, "k1"};
        options.parameters.key = keys[user];
        options.parameters.realm = config.realm;
        options.parameters.hello = hello_of("laptop");
        options.addresses = server->endpoints();
        client = std::make_unique<cnapt::control_link::ControlClient>(thread, loop, node);
        ASSERT_TRUE(client->start(options));
        ASSERT_TRUE(wait([this] { return node.established.size() == 1; }));
    }
    static control::Hello hello_of(const std::string& name) {
        control::Hello hello;
        hello.versions = {control::kProtocolVersion};
        hello.node = name;
        hello.offers = {{control::ProtectionKind::ChaCha20Poly1305, 16}};
        return hello;
    }
    // A HELLO of a link that the server has lost meanwhile: nobody hears the answer.
    void hello(links::LinkId link, const std::string& user) {
        admission->on_hello(link, {}, {{user, "k1"}, hello_of(user)});
    }
    void hello_of_alice(links::LinkId link,
                        const std::string& name,
                        uint8_t session,
                        std::optional<control::NodeId> node_id = std::nullopt) {
        control::Hello hello = hello_of(name);
        hello.session_id[0] = session;
        hello.node_id = node_id;
        admission->on_hello(link, {}, {{"alice", "k1"}, hello});
    }
    // The sessions, each as NAME.SESSION.
    std::set<std::string> sessions() const {
        std::set<std::string> found;
        for (const auto& session : relay->sessions()) {
            const relay::SessionGrant& grant = session->grant;
            found.insert(grant.node + "." + std::to_string(grant.session_id[0]));
        }
        return found;
    }
    std::vector<std::string> let_in() const {
        std::vector<std::string> names;
        for (const auto& session : relay->sessions()) {
            names.push_back(session->grant.user);
        }
        return names;
    }
    bool wait(const std::function<bool()>& done) { return loop.run_until(done, tests::kPatience); }
    int64_t number(const char* sql) const {
        auto database =
            store::Database::open(path(store::kLedgerFileName), store::OpenMode::ReadOnly);
        auto statement = database->prepare(sql);
        EXPECT_TRUE(*statement->step());
        return statement->integer(0);
    }

    // Lines of the log, of any thread.
    std::vector<std::string> logged() {
        const std::scoped_lock lock(lines_mutex);
        return lines;
    }
    bool was_logged(const std::string& line) {
        const auto all = logged();
        return std::find(all.begin(), all.end(), line) != all.end();
    }
    // True when an event of that name with that field was logged.
    bool was_logged(const std::string& event, const std::string& field) {
        const auto all = logged();
        return std::any_of(all.begin(), all.end(), [&](const std::string& line) {
            return line.starts_with(event + " ") &&
                   (line + " ").find(" " + field + " ") != std::string::npos;
        });
    }

    std::mutex lines_mutex;
    std::vector<std::string> lines;
    links::EventLog events{[this](base::LogLevel, const std::string& line) {
        const std::scoped_lock lock(lines_mutex);
        lines.push_back(line);
    }};
    io::EventLoop loop;
    host::SystemRandom random;
    cnapt::control_link::ControlThread thread;
    flow::HeapSlots slots{16};
    settings::SnaptConfig config = settings::default_snapt_config();
    std::map<std::string, store::UserKey> keys;
    std::unique_ptr<accounting::Accountant> accountant;
    std::unique_ptr<store::UserStore> users;
    std::unique_ptr<store::LeaseStore> leases;
    std::unique_ptr<Admission> admission;
    std::unique_ptr<relay::Relay> relay;
    std::unique_ptr<StoredCredentials> credentials;
    std::unique_ptr<links::ControlServer> server;
    tests::NodeSide node;
    std::unique_ptr<cnapt::control_link::ControlClient> client;
    io::WorkerThread worker{loop, "test", 64};  // works for the stores
};

using Names = std::vector<std::string>;

}  // namespace continuo::snapt::users
