#include "snapt/rest/api.hpp"

#include "common/report/json.hpp"
#include "snapt/rest/page.hpp"

#include <algorithm>
#include <array>

namespace continuo::rest {
namespace {

constexpr unsigned kBadRequest = 400;
constexpr unsigned kUnauthorized = 401;
constexpr unsigned kForbidden = 403;
constexpr unsigned kNotFound = 404;
constexpr unsigned kMethodNotAllowed = 405;
constexpr std::string_view kBearer = "Bearer ";
constexpr size_t kMaxKeyBytes = 64;  // snapt::kMaxRefBytes

constexpr std::array<Route, 17> kRoutes = {{
    {"GET", "/v1/me", Operation::Me, Scope::Read, true, ""},
    {"GET", "/v1/status", Operation::Status, Scope::Read, false, ""},
    {"GET", "/v1/sessions", Operation::Sessions, Scope::Read, true, ""},
    {"DELETE", "/v1/sessions/{session}", Operation::EndSession, Scope::Admin, false, ""},
    {"GET", "/v1/flows", Operation::Flows, Scope::Read, false, "after"},
    {"GET", "/v1/usage", Operation::Usage, Scope::Read, true, "by from to zone user"},
    {"GET", "/v1/records", Operation::Records, Scope::Read, true,
     "after from to zone user limit format"},
    {"GET", "/v1/sinks", Operation::Sinks, Scope::Read, false, ""},
    {"GET", "/v1/users", Operation::Accounts, Scope::Bill, false, ""},
    {"GET", "/v1/users/{user}/balance", Operation::Balance, Scope::Bill, true, ""},
    {"GET", "/v1/users/{user}/statement", Operation::Statement, Scope::Bill, true,
     "month zone format"},
    {"GET", "/v1/users/{user}/quota", Operation::Quota, Scope::Read, true, ""},
    {"PUT", "/v1/users/{user}/quota", Operation::SetQuota, Scope::Bill, false, ""},
    {"POST", "/v1/users/{user}/topups", Operation::Topup, Scope::Bill, false, ""},
    {"POST", "/v1/users/{user}/adjustments", Operation::Adjust, Scope::Bill, false, ""},
    {"GET", "/v1/nat", Operation::Nat, Scope::Admin, false, "ext at within proto zone"},
    {"GET", "/metrics", Operation::Metrics, Scope::Read, false, ""},
}};

std::string_view title_of(unsigned status) {
    switch (status) {
    case kBadRequest:
        return "Bad Request";
    case kUnauthorized:
        return "Unauthorized";
    case kForbidden:
        return "Forbidden";
    case kNotFound:
        return "Not Found";
    case kMethodNotAllowed:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 422:
        return "Unprocessable Content";
    case 503:
        return "Service Unavailable";
    default:
        return "Internal Server Error";
    }
}

std::vector<std::string_view> parts(std::string_view text, char separator) {
    std::vector<std::string_view> found;
    while (!text.empty()) {
        const size_t end = std::min(text.find(separator), text.size());
        found.push_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return found;
}

// Stores the path element that stands for the name in braces in `name`.
bool matches(std::string_view pattern, const std::vector<std::string>& path, std::string& name) {
    const auto wanted = parts(pattern.substr(1), '/');
    if (wanted.size() != path.size()) {
        return false;
    }
    for (size_t i = 0; i < path.size(); ++i) {
        if (wanted[i].starts_with('{')) {
            name = path[i];
        } else if (wanted[i] != path[i]) {
            return false;
        }
    }
    return true;
}

bool has_scope(const Route& route, const Call& call) {
    if (call.caller.scope != Scope::Self) {
        return call.caller.scope >= route.least;
    }
    return route.is_of_self && (call.name.empty() || call.name == call.caller.user) &&
           call.target.value("user").value_or(call.caller.user) == call.caller.user;
}

bool knows_parameters(const Route& route, const Target& target) {
    const auto known = parts(route.parameters, ' ');
    return std::all_of(target.query.begin(), target.query.end(), [&known](const auto& parameter) {
        return std::find(known.begin(), known.end(), parameter.first) != known.end();
    });
}

bool is_key(std::string_view key) {
    constexpr char kLast = '~';
    return !key.empty() && key.size() <= kMaxKeyBytes &&
           std::all_of(key.begin(), key.end(), [](char c) { return c >= ' ' && c <= kLast; });
}

HttpAnswer answer_of(Outcome outcome) {
    HttpAnswer answer;
    answer.status = outcome.status;
    answer.content_type = std::move(outcome.content_type);
    answer.body = std::move(outcome.body);
    answer.headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}};
    if (outcome.status == kUnauthorized) {
        answer.headers.emplace_back("WWW-Authenticate", "Bearer");
    }
    return answer;
}

// Needs no token: it reveals nothing.
std::optional<HttpAnswer> page_answer(const HttpRequest& request, const Target& target) {
    const PageFile* file = target.path.size() <= 1 && target.query.empty()
                               ? page_file(target.path.empty() ? "" : target.path.front())
                               : nullptr;
    if (file == nullptr || (request.method != "GET" && request.method != "HEAD")) {
        return std::nullopt;
    }
    HttpAnswer answer;
    answer.content_type = file->content_type;
    answer.body = file->text;
    answer.headers = {{"Cache-Control", "no-cache"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Content-Security-Policy", std::string(kPagePolicy)}};
    return answer;
}

}  // namespace

std::span<const Route> routes() {
    return kRoutes;
}

Outcome problem(unsigned status, std::string_view detail) {
    report::JsonWriter json;
    json.begin_object().field("type", "about:blank").field("title", title_of(status));
    json.field("status", int64_t{status});
    if (!detail.empty()) {
        json.field("detail", detail);
    }
    json.end_object();
    return {status, json.take(), "application/problem+json"};
}

// Without a token a caller learns nothing, not even which paths exist.
void Api::handle(HttpRequest request, const HttpReply& reply) {
    auto target = parse_target(request.target);
    if (target) {
        if (auto page = page_answer(request, *target)) {
            reply.send(std::move(*page));
            return;
        }
    }
    const std::string_view authorization = request.authorization;
    const auto token = authorization.starts_with(kBearer)
                           ? tokens_.find(authorization.substr(kBearer.size()))
                           : std::nullopt;
    if (!token) {
        reply.send(answer_of(problem(kUnauthorized)));
        return;
    }
    if (!target) {
        reply.send(answer_of(problem(kBadRequest, "the target cannot be read")));
        return;
    }
    serve(*token, std::move(*target), std::move(request), reply);
}

void Api::serve(const Token& token, Target target, HttpRequest request, const HttpReply& reply) {
    Call call;
    call.caller = token;
    call.target = std::move(target);
    const std::string method = request.method == "HEAD" ? "GET" : request.method;
    bool is_known_path = false;
    const Route* route = nullptr;
    for (const Route& one : routes()) {
        std::string name;
        if (matches(one.path, call.target.path, name)) {
            is_known_path = true;
            if (one.method == method) {
                route = &one;
                call.name = std::move(name);
            }
        }
    }
    std::optional<Outcome> refusal;
    if (route == nullptr) {
        refusal = problem(is_known_path ? kMethodNotAllowed : kNotFound);
    } else if (!has_scope(*route, call)) {
        refusal = problem(kForbidden, "the token's scope does not allow that");
    } else if (!knows_parameters(*route, call.target)) {
        refusal = problem(kBadRequest, "unknown parameter");
    } else if (route->method == "POST" && !is_key(request.idempotency_key)) {
        refusal =
            problem(kBadRequest, "Idempotency-Key is missing, or not 1 to 64 printable characters");
    }
    if (refusal) {
        reply.send(answer_of(std::move(*refusal)));
        return;
    }
    call.operation = route->operation;
    call.body = std::move(request.body);
    call.key = std::move(request.idempotency_key);
    backend_.run(std::move(call),
                 [reply](Outcome outcome) { reply.send(answer_of(std::move(outcome))); });
}

std::string with_large_as_text(std::string_view json) {
    constexpr size_t kSafeDigits = 15;
    constexpr std::string_view kLargest = "9007199254740992";  // 2^53
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::string text;
    text.reserve(json.size());
    for (size_t i = 0; i < json.size();) {
        size_t end = i + 1;
        if (json[i] == '"') {
            while (end < json.size() && json[end] != '"') {
                end += json[end] == '\\' ? size_t{2} : size_t{1};
            }
            ++end;
        } else if (json[i] == '-' || is_digit(json[i])) {
            while (end < json.size() &&
                   (is_digit(json[end]) ||
                    std::string_view(".eE+-").find(json[end]) != std::string_view::npos)) {
                ++end;
            }
        }
        const std::string_view token = json.substr(i, end - i);
        const std::string_view digits = token.substr(token.starts_with('-') ? 1 : 0);
        const bool is_large = json[i] != '"' && digits.size() > kSafeDigits &&
                              std::all_of(digits.begin(), digits.end(), is_digit) &&
                              (digits.size() > kLargest.size() ||
                               (digits.size() == kLargest.size() && digits > kLargest));
        text += is_large ? "\"" : "";
        text += token;
        text += is_large ? "\"" : "";
        i = end;
    }
    return text;
}

}  // namespace continuo::rest
