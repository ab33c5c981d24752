// `snapt user …` as a pure operation on the user store: the daemon runs it for requests on its
// socket, the command runs it itself when there is no daemon.
#pragma once

#include "common/base/random.hpp"
#include "common/report/json_value.hpp"
#include "snapt/accounting/user_store.hpp"
#include "snapt/snapt_config.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace continuo::snapt {

enum class UserAction : uint8_t { Add, List, Disable, Enable, Rotate, Remove };

std::optional<UserAction> parse_user_action(std::string_view text);
std::string_view to_string(UserAction action);

struct UserRequest {
    UserAction action = UserAction::List;
    std::string name;            // of all but List
    std::optional<Quota> quota;  // of Add
    std::optional<UserKey> key;  // of Add: the user's key at another SNAPT; else a fresh one
};

// "50GiB/month" or "1GiB/day".
std::optional<Quota> parse_user_quota(std::string_view text);

// {"command":"user","action":"add","name":"alice","quota":"50GiB/month"|null}
std::string user_request_json(const UserRequest& request, const std::optional<std::string>& quota);
// Nothing, with the reason in `failure`, when the request is wrong.
std::optional<UserRequest> parse_user_request(const report::JsonValue& request,
                                              std::string& failure);

// What was done, or why not.
struct UserResult {
    std::string json;   // the answer; {"error":…} when it failed
    std::string error;  // empty when it was done
    // Sessions of the user are to be closed: its keys before are not valid any more.
    bool ends_sessions = false;
};

// Add and Rotate answer {"user","key_id","config"}, where `config` is the text of a cnapt.toml.
// List answers [{user, disabled, keys[], created, quota_bytes, quota_period}]. The others
// {"user","done":true}.
UserResult run_user_request(UserStore& users,
                            const SnaptConfig& config,
                            const UserRequest& request,
                            int64_t now_us,
                            base::Random& random);

// A complete cnapt.toml of that user for this SNAPT; what has its default is commented out.
std::string render_enrolment(const SnaptConfig& config, const Credential& credential);

}  // namespace continuo::snapt
