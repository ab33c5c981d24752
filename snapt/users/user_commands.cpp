#include "snapt/users/user_commands.hpp"

#include "common/config/base64.hpp"
#include "common/config/keys.hpp"
#include "common/config/units.hpp"
#include "common/report/json.hpp"
#include "common/report/status_report.hpp"

#include <algorithm>
#include <array>
#include <system_error>

namespace continuo::snapt::users {

using config::kMicroseconds;
using settings::SnaptConfig;
using store::Credential;
using store::KeyInfo;
using store::UserStore;

namespace {

constexpr std::array<std::string_view, 7> kActions = {"add",    "list",   "disable", "enable",
                                                      "rotate", "revoke", "remove"};

std::string line(std::string text, std::string_view comment = {}) {
    constexpr size_t kCommentColumn = 35;
    return config::commented_line(std::move(text), comment, kCommentColumn);
}

// Uses the text of UserStore.
constexpr std::string_view kNoSuchKey = "no such key";

std::optional<std::string> if_any(const std::string& text) {
    return text.empty() ? std::nullopt : std::optional(text);
}

std::string describe(const base::Error& error, const UserRequest& request) {
    if (error.code == base::Errc::NotFound && error.where == kNoSuchKey) {
        return "the user \"" + request.name + "\" has no valid key " +
               (request.device.empty() ? "\"" + request.key_id + "\""
                                       : "for a device \"" + request.device + "\"");
    }
    if (error.code == base::Errc::NotFound) {
        return "there is no user \"" + request.name + "\"";
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

// The key is shown all the same: it is never shown again.
std::optional<std::string> warning_of(const Credential& credential, const UserRequest& request) {
    return credential.unread ? std::optional("the key is stored, but lets nobody in until `snapt "
                                             "reload` can read it: " +
                                             describe(*credential.unread, request))
                             : std::nullopt;
}

UserResult enrolled(const SnaptConfig& config,
                    const Credential& credential,
                    const std::optional<std::string>& warning) {
    report::JsonWriter json;
    json.begin_object();
    json.field("user", credential.user_id);
    json.field("key_id", credential.key_id);
    json.field("device", if_any(credential.device));
    json.field("config", render_enrolment(config, credential));
    json.field("block", render_snapt_block(config));
    json.field("warning", warning);
    json.end_object();
    UserResult result;
    result.json = json.take();
    return result;
}

void write_key(report::JsonWriter& json, const KeyInfo& key) {
    const auto in_seconds = [](const std::optional<int64_t>& time_us) {
        return time_us ? std::optional(*time_us / kMicroseconds) : std::nullopt;
    };
    json.begin_object();
    json.field("key_id", key.key_id);
    json.field("device", if_any(key.device));
    json.field("disabled", key.is_disabled);
    json.field("created", key.created_us / kMicroseconds);
    json.field("last_seen", in_seconds(key.seen_us));
    json.field("expires", in_seconds(key.expires_us));
    json.end_object();
}

UserResult list_users(UserStore& users, int64_t now_us) {
    const auto list = users.list(now_us);
    if (!list) {
        return refused(describe(list.error(), {}));
    }
    report::JsonWriter json;
    json.begin_array();
    for (const store::UserInfo& user : *list) {
        json.begin_object();
        json.field("user", user.user_id);
        json.field("account", user.account_id);
        json.field("disabled", user.is_disabled);
        json.key("keys").begin_array();
        for (const KeyInfo& key : user.keys) {
            if (!key.is_disabled) {
                json.string(key.key_id);
            }
        }
        json.end_array();
        json.key("devices").begin_array();
        for (const KeyInfo& key : user.keys) {
            write_key(json, key);
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

// The disk may have stored the change before the failure: sessions with invalid keys end.
UserResult failed(const base::Error& error, const UserRequest& request, UserResult::Ends ends) {
    UserResult result = refused(describe(error, request));
    const bool ends_nothing =
        ends == UserResult::Ends::Nothing || error.code == base::Errc::NotFound;
    result.ends = ends_nothing ? UserResult::Ends::Nothing : UserResult::Ends::Revoked;
    return result;
}

UserResult
done(const base::Result<void>& outcome, const UserRequest& request, UserResult::Ends ends) {
    if (!outcome) {
        return failed(outcome.error(), request, ends);
    }
    report::JsonWriter json;
    json.begin_object().field("user", request.name).field("done", true).end_object();
    UserResult result;
    result.json = json.take();
    result.ends = ends;
    return result;
}

// Creates a key, for the actions Add and Rotate.
UserResult make_key(UserStore& users,
                    const SnaptConfig& config,
                    const UserRequest& request,
                    int64_t now_us,
                    base::Random& random) {
    if (config.public_addresses.empty()) {
        return refused("snapt.toml names no `public` address that the node could use");
    }
    if (!request.realm.empty() && request.realm != config.realm) {
        return refused("the key is of realm \"" + request.realm + "\", this SNAPT of \"" +
                       config.realm + "\"");
    }
    const bool is_new = request.action == UserAction::Add;
    const store::NewKey wanted{request.device, request.key_id, request.key};
    const auto credential =
        is_new ? users.add(request.name, request.quota, now_us, random, wanted)
               : users.rotate(request.name, now_us, random, wanted, base::to_us(request.overlap));
    const auto ends = is_new ? UserResult::Ends::Nothing : UserResult::Ends::Revoked;
    if (!credential) {
        return failed(credential.error(), request, ends);
    }
    UserResult result = enrolled(config, *credential, warning_of(*credential, request));
    result.ends = ends;
    return result;
}

// Nothing, with the reason in `failure`, when a part of the request is wrong.
bool parse_key_parts(const report::JsonValue& request, UserRequest& parsed, std::string& failure) {
    parsed.device = request.text("device");
    parsed.key_id = request.text("key_id");
    parsed.realm = request.text("realm");
    if (!parsed.device.empty() && !store::is_valid_name(parsed.device)) {
        failure = "bad name of a device";
    } else if (!parsed.key_id.empty() && !store::is_valid_key_id(parsed.key_id)) {
        failure = "bad key id";
    } else if (!request["key"].is_null()) {
        parsed.key = config::parse_key(request.text("key"));
        failure = parsed.key ? "" : "bad key; expected 32 bytes in base64";
    }
    if (failure.empty() && !request["overlap_s"].is_null()) {
        const auto overlap_s = request["overlap_s"].unsigned_integer();
        const auto most = static_cast<uint64_t>(kMaxOverlap / base::seconds(1));
        if (!overlap_s || *overlap_s > most) {
            failure = "bad overlap; expected at most " + std::to_string(most) + " s";
        } else {
            parsed.overlap = base::seconds(static_cast<int64_t>(*overlap_s));
        }
    }
    return failure.empty();
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

std::optional<store::Quota> parse_user_quota(std::string_view text) {
    const auto parsed = config::parse_quota(text);
    const bool is_known_period = parsed && (parsed->period == config::QuotaPeriod::Day ||
                                            parsed->period == config::QuotaPeriod::Month);
    if (!is_known_period || parsed->bytes == 0 || parsed->bytes > INT64_MAX) {
        return std::nullopt;
    }
    return store::Quota{static_cast<int64_t>(parsed->bytes),
                        std::string(config::to_string(parsed->period))};
}

std::string user_request_json(const UserRequest& request, const std::optional<std::string>& quota) {
    report::JsonWriter json;
    json.begin_object();
    json.field("command", "user");
    json.field("action", to_string(request.action));
    json.field("name", request.name);
    json.field("quota", quota);
    if (!request.device.empty()) {
        json.field("device", request.device);
    }
    if (!request.key_id.empty()) {
        json.field("key_id", request.key_id);
    }
    if (request.key) {
        json.field("key", config::to_base64(*request.key));
    }
    if (!request.realm.empty()) {
        json.field("realm", request.realm);
    }
    if (request.overlap > base::Duration{}) {
        json.field("overlap_s", request.overlap / base::seconds(1));
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
    if (!parse_key_parts(request, parsed, failure)) {
        return std::nullopt;
    }
    return parsed;
}

UserResult run_user_request(UserStore& users,
                            const SnaptConfig& config,
                            const UserRequest& request,
                            int64_t now_us,
                            base::Random& random) {
    using Ends = UserResult::Ends;
    const std::string& name = request.name;
    const store::KeyChoice keys{request.device, request.key_id};
    switch (request.action) {
    case UserAction::List:
        return list_users(users, now_us);
    case UserAction::Add:
    case UserAction::Rotate:
        return make_key(users, config, request, now_us, random);
    case UserAction::Disable:
        return done(users.set_disabled(name, true, keys), request,
                    keys.is_all() ? Ends::User : Ends::Revoked);
    case UserAction::Enable:
        return done(users.set_disabled(name, false, keys), request, Ends::Nothing);
    case UserAction::Revoke:
        return done(users.revoke(name, keys, now_us), request, Ends::Revoked);
    case UserAction::Remove:
        return done(users.remove(name, now_us), request, Ends::User);
    }
    return refused("unknown user action");
}

std::string render_snapt_block(const SnaptConfig& config) {
    using config::quote;
    std::string text = "\n" + line("[[snapt]]", "one or more");
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
    return text;
}

std::string render_enrolment(const SnaptConfig& config, const Credential& credential) {
    using config::quote;
    const bool is_encrypted = config.protection.encrypt;
    const bool is_default_realm = config.realm == SnaptConfig{}.realm;
    const std::string device = credential.device.empty() ? "" : " --device " + credential.device;
    std::string text = "# cnapt.toml, as printed by `snapt user add " + credential.user_id +
                       device + "`. Secret: it holds the key.\n";
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
    text += render_snapt_block(config);
    text += "\n" + line("[capture]");
    text += line("# exclude = [\"192.0.2.0/24\"]", "destinations never captured");
    text += line("# on_link = \"near\"", "public addresses in the LAN: tunnel, refuse, near");
    text += line("# gateway_interfaces = [\"br-lan\"]", "LAN sides");
    text += line("# kill_switch = false", "true: nothing goes out beside the tunnel");
    return text;
}

}  // namespace continuo::snapt::users
