// Api: the REST interface: which token may do what, which paths and parameters there are, and
// answers of one form. What is asked for comes from a Backend. Pure but for the file of tokens;
// docs/openapi.json describes what it answers.
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
    Metrics,
};

// What a token that may do it asks for.
struct Call {
    Operation operation = Operation::Me;
    Token caller;
    std::string name;  // of the path: a user, or a session
    Target target;     // parameters of the operation, no others
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
    // `done` runs on the loop's thread, at once or later, once at most.
    virtual void run(Call call, Done done) = 0;
};

struct Route {
    std::string_view method;
    std::string_view path;  // "/v1/users/{user}/balance"
    Operation operation;
    Scope least;                  // Read, Bill or Admin
    bool is_of_self;              // tokens of scope Self, too, for their own user
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

// The same JSON with integers that doubles do not hold as text.
std::string with_large_as_text(std::string_view json);

}  // namespace continuo::rest
