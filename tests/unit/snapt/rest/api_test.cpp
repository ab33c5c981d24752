#include "common/io/file.hpp"
#include "common/report/json_value.hpp"
#include "snapt/rest/api.hpp"
#include "snapt/rest/page.hpp"
#include "tests/unit/snapt/rest/http_fixture.hpp"

#include <map>
#include <set>

namespace continuo::rest {
namespace {

using report::JsonValue;

class RecordingBackend final : public Backend {
  public:
    void run(Call call, Done done) override {
        calls.push_back(std::move(call));
        done({200, "{}"});
    }
    std::vector<Call> calls;
};

class RestApi : public HttpTest {
  protected:
    void SetUp() override {
        HttpTest::SetUp();
        base::SeededRandom random(1);
        for (const Scope scope : {Scope::Read, Scope::Bill, Scope::Admin, Scope::Self}) {
            Token token;
            token.name = to_string(scope);
            token.scope = scope;
            token.user = scope == Scope::Self ? "alice" : "";
            secrets_[scope] = add_token(folder_ + "/tokens", token, random).value();
        }
        store_ = std::make_unique<TokenStore>(folder_ + "/tokens");
        api_ = std::make_unique<Api>(*store_, backend_);
        serve([this](HttpRequest request, const HttpReply& reply) {
            api_->handle(std::move(request), reply);
        });
    }
    std::string as(Scope scope,
                   const std::string& method,
                   const std::string& target,
                   const std::string& headers = "") {
        return ask(method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n" +
                   "Authorization: Bearer " + secrets_[scope] + "\r\n" + headers + "\r\n");
    }
    int status(const std::string& answer) const {
        return answer.size() < 12 ? 0 : std::stoi(answer.substr(9, 3));
    }

    std::map<Scope, std::string> secrets_;
    RecordingBackend backend_;
    std::unique_ptr<TokenStore> store_;
    std::unique_ptr<Api> api_;
};

// All but the time.
std::string without_date(std::string answer) {
    const size_t at = answer.find("Date:");
    return at == std::string::npos ? answer : answer.erase(at, answer.find("\r\n", at) + 2 - at);
}

TEST_F(RestApi, StrangersAreToldNothing) {
    const std::string refusal = without_date(get("/v1/status"));
    EXPECT_TRUE(has_status(refusal, 401)) << refusal;
    EXPECT_NE(refusal.find("WWW-Authenticate: Bearer\r\n"), std::string::npos);
    EXPECT_EQ(body_of(refusal), R"({"type":"about:blank","title":"Unauthorized","status":401})");
    for (const char* target : {"/v1/users/alice/balance", "/v1/nothing", "/metrics", "/%zz",
                               "/v1/status?x=1", "/page.jsx"}) {
        EXPECT_EQ(without_date(get(target)), refusal) << target;
    }
    const std::string& secret = secrets_[Scope::Admin];
    for (const char* wrong : {"Bearer snapt_wrong", "Basic YTpi", "Bearer", "bearer"}) {
        EXPECT_EQ(without_date(get("/v1/status", std::string("Authorization: ") + wrong + "\r\n")),
                  refusal);
    }
    EXPECT_EQ(without_date(get("/v1/status?token=" + secret)), refusal);
    EXPECT_TRUE(backend_.calls.empty());
}

TEST_F(RestApi, ScopesAllowWhatTheySay) {
    const std::string key = "Idempotency-Key: k\r\n";
    for (const Route& route : routes()) {
        std::string target(route.path);
        if (const size_t brace = target.find('{'); brace != std::string::npos) {
            target.replace(brace, target.find('}') - brace + 1, "alice");
        }
        for (const auto& [scope, secret] : secrets_) {
            const bool may = scope == Scope::Self ? route.is_of_self : scope >= route.least;
            EXPECT_EQ(status(as(scope, std::string(route.method), target, key)), may ? 200 : 403)
                << route.method << " " << target << " " << to_string(scope);
        }
    }
}

TEST_F(RestApi, ReadIsNotForMoney) {
    std::set<std::string_view> least_bill;
    for (const Route& route : routes()) {
        if (route.least >= Scope::Bill) {
            least_bill.insert(route.path);
        }
    }
    for (const char* path : {"/v1/users", "/v1/users/{user}/balance", "/v1/users/{user}/statement",
                             "/v1/users/{user}/topups", "/v1/users/{user}/adjustments"}) {
        EXPECT_TRUE(least_bill.contains(path)) << path;
    }
}

TEST_F(RestApi, SelfIsForOneUser) {
    for (const char* target : {"/v1/users/bob/balance", "/v1/users/bob/statement?month=2026-11",
                               "/v1/users/nobody/quota", "/v1/usage?user=bob",
                               "/v1/usage?user=", "/v1/records?user=bob"}) {
        const std::string answer = as(Scope::Self, "GET", target);
        EXPECT_TRUE(has_status(answer, 403)) << target;
        EXPECT_EQ(answer.find("bob"), std::string::npos) << answer;
    }
    EXPECT_TRUE(backend_.calls.empty());
    EXPECT_TRUE(has_status(as(Scope::Self, "GET", "/v1/usage?user=alice&by=day"), 200));
    EXPECT_TRUE(has_status(as(Scope::Self, "GET", "/v1/users/alice/balance"), 200));
    ASSERT_EQ(backend_.calls.size(), 2U);
    EXPECT_EQ(backend_.calls[0].caller.user, "alice");
    EXPECT_EQ(backend_.calls[1].name, "alice");
}

TEST_F(RestApi, CallHasWhatWasAsked) {
    const std::string answer =
        as(Scope::Bill, "POST", "/v1/users/al%69ce/topups",
           "Idempotency-Key: INV-17\r\nContent-Length: 15\r\n\r\n{\"amount\":\"50\"}");
    EXPECT_TRUE(has_status(answer, 200)) << answer;
    ASSERT_EQ(backend_.calls.size(), 1U);
    const Call& call = backend_.calls.front();
    EXPECT_EQ(call.operation, Operation::Topup);
    EXPECT_EQ(call.name, "alice");
    EXPECT_EQ(call.key, "INV-17");
    EXPECT_EQ(call.body, "{\"amount\":\"50\"}");
    EXPECT_EQ(call.caller.name, "bill");
}

TEST_F(RestApi, WrongRequestsAreRefused) {
    EXPECT_EQ(status(as(Scope::Admin, "GET", "/v1/nothing")), 404);
    EXPECT_EQ(status(as(Scope::Admin, "GET", "/v1/status/")), 404);
    EXPECT_EQ(status(as(Scope::Admin, "PUT", "/v1/status")), 405);
    EXPECT_EQ(status(as(Scope::Admin, "GET", "/v1/status?x=1")), 400);
    EXPECT_EQ(status(as(Scope::Admin, "GET", "/v1/status%00")), 400);
    EXPECT_EQ(status(as(Scope::Admin, "POST", "/v1/users/alice/topups")), 400);
    EXPECT_EQ(status(as(Scope::Admin, "POST", "/v1/users/alice/topups",
                        "Idempotency-Key: " + std::string(65, 'k') + "\r\n")),
              400);
    EXPECT_TRUE(backend_.calls.empty());
    EXPECT_EQ(status(as(Scope::Admin, "HEAD", "/v1/status")), 200);
}

TEST_F(RestApi, PageIsForEverybodyAndNamesNothingElsewhere) {
    size_t bytes = 0;
    for (const char* target : {"/", "/page.css", "/page.js", "/charts.js"}) {
        const std::string answer = get(target);
        EXPECT_TRUE(has_status(answer, 200)) << target;
        EXPECT_NE(answer.find("Content-Security-Policy: default-src 'none'"), std::string::npos);
        EXPECT_EQ(body_of(answer).find("//cdn"), std::string::npos);
        bytes += body_of(answer).size();
    }
    constexpr size_t kMostPageBytes = 100'000;
    EXPECT_LT(bytes, kMostPageBytes);
    EXPECT_TRUE(has_status(get("/?x=1"), 401));
    EXPECT_TRUE(backend_.calls.empty());
}

// docs/openapi.json names each route with its parameters, and no other.
TEST(RestOpenApi, NamesTheRoutes) {
    const auto text = io::read_file(CONTINUO_SOURCE_DIR "/docs/openapi.json", 1 << 20);
    ASSERT_TRUE(text);
    const auto document = JsonValue::parse(*text);
    ASSERT_TRUE(document);
    std::map<std::string, std::set<std::string>> described;
    for (const auto& [path, item] : (*document)["paths"].members()) {
        for (const auto& [method, operation] : item.members()) {
            auto& names = described[method + " " + path];
            for (const JsonValue& parameter : operation["parameters"].items()) {
                if (parameter.text("in") == "query") {
                    names.insert(parameter.text("name"));
                }
            }
        }
    }
    std::map<std::string, std::set<std::string>> known;
    for (const Route& route : routes()) {
        std::string method(route.method);
        for (char& c : method) {
            c = static_cast<char>(c | 0x20);
        }
        auto& names = known[method + " " + std::string(route.path)];
        std::string_view rest = route.parameters;
        while (!rest.empty()) {
            const size_t end = std::min(rest.find(' '), rest.size());
            names.emplace(rest.substr(0, end));
            rest.remove_prefix(std::min(end + 1, rest.size()));
        }
    }
    EXPECT_EQ(described, known);
}

}  // namespace
}  // namespace continuo::rest
