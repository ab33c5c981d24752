#include "snapt/user_commands.hpp"

#include "common/config/base64.hpp"
#include "common/config/keys.hpp"
#include "common/config/units.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace continuo::snapt {
namespace {

constexpr std::array<std::string_view, 6> kActions = {"add",    "list",   "disable",
                                                      "enable", "rotate", "remove"};
constexpr int64_t kMicroseconds = 1'000'000;

std::string line(std::string text, std::string_view comment = {}) {
    constexpr size_t kCommentColumn = 35;
    return config::commented_line(std::move(text), comment, kCommentColumn);
}

std::string describe(const base::Error& error, const std::string& name) {
    if (error.code == base::Errc::NotFound) {
        return "there is no user \"" + name + "\"";
    }
    std::string text(error.where.empty() ? base::to_string(error.code) : error.where);
    if (error.sys_errno != 0) {
        text += ": " + std::generic_category().message(error.sys_errno);
    }
    return text;
}

UserResult refused(std::string reason) {
    UserResult result;
    result.json = report::error_json(reason);
    result.error = std::move(reason);
    return result;
}

UserResult enrolled(const SnaptConfig& config, const Credential& credential) {
    report::JsonWriter json;
    json.begin_object();
    json.field("user", credential.user_id);
    json.field("key_id", credential.key_id);
    json.field("config", render_enrolment(config, credential));
    json.end_object();
    UserResult result;
    result.json = json.take();
    return result;
}

UserResult list_users(UserStore& users) {
    const auto list = users.list();
    if (!list) {
        return refused(describe(list.error(), ""));
    }
    report::JsonWriter json;
    json.begin_array();
    for (const UserInfo& user : *list) {
        json.begin_object();
        json.field("user", user.user_id);
        json.field("disabled", user.is_disabled);
        json.key("keys").begin_array();
        for (const std::string& key_id : user.key_ids) {
            json.string(key_id);
        }
        json.end_array();
        json.field("created", user.created_us / kMicroseconds);
        json.field("quota_bytes", user.quota ? std::optional(user.quota->bytes) : std::nullopt);
        json.field("quota_period", user.quota ? std::optional(user.quota->period) : std::nullopt);
        json.end_object();
    }
    json.end_array();
    UserResult result;
    result.json = json.take();
    return result;
}

UserResult done(const base::Result<void>& outcome, const std::string& name, bool ends_sessions) {
    if (!outcome) {
        return refused(describe(outcome.error(), name));
    }
    report::JsonWriter json;
    json.begin_object().field("user", name).field("done", true).end_object();
    UserResult result;
    result.json = json.take();
    result.ends_sessions = ends_sessions;
    return result;
}

}  // namespace

std::optional<UserAction> parse_user_action(std::string_view text) {
    for (size_t i = 0; i < kActions.size(); ++i) {
        if (kActions[i] == text) {
            return static_cast<UserAction>(i);
        }
    }
    return std::nullopt;
}

std::string_view to_string(UserAction action) {
    return kActions[static_cast<size_t>(action)];
}

std::optional<Quota> parse_user_quota(std::string_view text) {
    const auto parsed = config::parse_quota(text);
    const bool is_known_period = parsed && (parsed->period == config::QuotaPeriod::Day ||
                                            parsed->period == config::QuotaPeriod::Month);
    if (!is_known_period || parsed->bytes == 0 || parsed->bytes > INT64_MAX) {
        return std::nullopt;
    }
    return Quota{static_cast<int64_t>(parsed->bytes),
                 std::string(config::to_string(parsed->period))};
}

std::string user_request_json(const UserRequest& request, const std::optional<std::string>& quota) {
    report::JsonWriter json;
    json.begin_object();
    json.field("command", "user");
    json.field("action", to_string(request.action));
    json.field("name", request.name);
    json.field("quota", quota);
    if (request.key) {
        json.field("key", config::to_base64(*request.key));
    }
    json.end_object();
    return json.take();
}

std::optional<UserRequest> parse_user_request(const report::JsonValue& request,
                                              std::string& failure) {
    const auto action = parse_user_action(request.text("action"));
    if (!action) {
        failure = "unknown user action \"" + request.text("action") + "\"";
        return std::nullopt;
    }
    UserRequest parsed;
    parsed.action = *action;
    parsed.name = request.text("name");
    if (parsed.name.empty() && *action != UserAction::List) {
        failure = "the name of the user is missing";
        return std::nullopt;
    }
    if (!request["quota"].is_null()) {
        parsed.quota = parse_user_quota(request.text("quota"));
        if (!parsed.quota) {
            failure = "quota \"" + request.text("quota") +
                      "\"; expected a size per day or month, such as 50GiB/month";
            return std::nullopt;
        }
    }
    if (!request["key"].is_null()) {
        parsed.key = config::parse_key(request.text("key"));
        if (!parsed.key) {
            failure = "bad key; expected 32 bytes in base64";
            return std::nullopt;
        }
    }
    return parsed;
}

UserResult run_user_request(UserStore& users,
                            const SnaptConfig& config,
                            const UserRequest& request,
                            int64_t now_us,
                            base::Random& random) {
    const std::string& name = request.name;
    switch (request.action) {
    case UserAction::List:
        return list_users(users);
    case UserAction::Add:
    case UserAction::Rotate: {
        if (config.public_addresses.empty()) {
            return refused("snapt.toml names no `public` address that the node could use");
        }
        const bool is_new = request.action == UserAction::Add;
        const auto credential = is_new ? users.add(name, request.quota, now_us, random, request.key)
                                       : users.rotate(name, now_us, random);
        if (!credential) {
            return refused(describe(credential.error(), name));
        }
        UserResult result = enrolled(config, *credential);
        result.ends_sessions = !is_new;
        return result;
    }
    case UserAction::Disable:
        return done(users.set_disabled(name, true), name, true);
    case UserAction::Enable:
        return done(users.set_disabled(name, false), name, false);
    case UserAction::Remove:
        return done(users.remove(name), name, true);
    }
    return refused("unknown user action");
}

std::string render_enrolment(const SnaptConfig& config, const Credential& credential) {
    using config::quote;
    const bool is_encrypted = config.protection.encrypt;
    const bool is_default_realm = config.realm == SnaptConfig{}.realm;
    std::string text = "# cnapt.toml, as printed by `snapt user add " + credential.user_id +
                       "`. Mode 0600: it holds the key.\n";
    text += line("# node = \"laptop\"", "default: host name");
    text += line((is_default_realm ? "# realm = " : "realm = ") + quote(config.realm),
                 "of the operator");
    text += is_encrypted ? line("# protection = \"encrypt\"", "encrypt | authenticate")
                         : line("protection = \"authenticate\"", "this SNAPT does not encrypt");
    text += line("# policy = \"/etc/continuo/policy.toml\"", "absent file: built-in policy");
    text += "\n" + line("[identity]",
                        (config.identity_key ? "PSK identity: " : "PSK identity on the wire: ") +
                            quote(credential.user_id + "/" + credential.key_id));
    text += line("user = " + quote(credential.user_id));
    text += line("key_id = " + quote(credential.key_id));
    text +=
        line("key = " + quote(config::to_base64(credential.key)), "base64, 32 bytes; or key_file");
    text += "\n" + line("[[snapt]]", "one or more");
    text += line("name = " + quote(config.name));
    std::string addresses;
    for (const config::HostPort& address : config.public_addresses) {
        addresses += (addresses.empty() ? "" : ", ") + quote(address.to_string());
    }
    text += line("addresses = [" + addresses + "]", "UDP and TCP; names are resolved anew");
    if (config.identity_key) {
        text += line("identity_key = " + quote(config::to_base64(*config.identity_key)),
                     "hides the user's name on the wire");
    }
    text += "\n" + line("[capture]");
    text += line("# exclude = [\"192.0.2.0/24\"]", "destinations never captured");
    text += line("# gateway_interfaces = [\"br-lan\"]", "LAN sides");
    text += line("# kill_switch = false", "true: nothing goes out beside the tunnel");
    return text;
}

}  // namespace continuo::snapt
