// Api: the REST interface: rights of tokens, paths and parameters, and the form of answers. A
// Backend provides the content. Pure except for the file of tokens; docs/openapi.json describes the
// answers.
#pragma once

#include "snapt/rest/http_server.hpp"
#include "snapt/rest/target.hpp"
#include "snapt/rest/tokens.hpp"

#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace continuo::rest {

enum class Operation : uint8_t {
    Me,
    Status,
    Sessions,
    Flows,
    Usage,
    Records,
    Sinks,
    Accounts,
    Balance,
    Statement,
    Quota,
    SetQuota,
    Topup,
    Adjust,
    EndSession,
    Nat,
    Metrics,
};

// A request that its token permits.
struct Call {
    Operation operation = Operation::Me;
    Token caller;
    std::string name;  // from the path: a user or a session
    Target target;     // only parameters of the operation
    std::string body;
    std::string key;  // Idempotency-Key

    bool is_self() const { return caller.scope == Scope::Self; }
};

struct Outcome {
    unsigned status = 200;
    std::string body;  // JSON, unless another type is named
    std::string content_type = "application/json";
};
// RFC 9457.
Outcome problem(unsigned status, std::string_view detail = {});

class Backend {
  public:
    using Done = std::function<void(Outcome)>;
    Backend() = default;
    Backend(const Backend&) = delete;
    Backend& operator=(const Backend&) = delete;
    virtual ~Backend() = default;
    // `done` runs on the loop's thread, at once or later, at most once.
    virtual void run(Call call, Done done) = 0;
};

struct Route {
    std::string_view method;
    std::string_view path;  // "/v1/users/{user}/balance"
    Operation operation;
    Scope least;                  // Read, Bill or Admin
    bool is_of_self;              // also tokens of scope Self, for their own user
    std::string_view parameters;  // "from to zone"
};
std::span<const Route> routes();

class Api {
  public:
    // Both must outlive this.
    Api(TokenStore& tokens, Backend& backend) : tokens_(tokens), backend_(backend) {}
    void handle(HttpRequest request, const HttpReply& reply);

  private:
    void serve(const Token& token, Target target, HttpRequest request, const HttpReply& reply);

    TokenStore& tokens_;
    Backend& backend_;
};

// The same JSON with integers that doubles cannot represent as text.
std::string with_large_as_text(std::string_view json);

}  // namespace continuo::rest
