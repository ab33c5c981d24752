// `snapt user …` as a pure operation on the user store: the daemon runs it for requests on its
// socket, the command runs it itself when there is no daemon.
#pragma once

#include "common/base/random.hpp"
#include "common/report/json_value.hpp"
#include "snapt/settings/snapt_config.hpp"
#include "snapt/store/user_store.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace continuo::snapt::users {

enum class UserAction : uint8_t { Add, List, Disable, Enable, Rotate, Revoke, Remove };

std::optional<UserAction> parse_user_action(std::string_view text);
std::string_view to_string(UserAction action);

struct UserRequest {
    UserAction action = UserAction::List;
    std::string name;                   // for all actions except List
    std::optional<store::Quota> quota;  // for Add
    std::string device;                 // for all except List and Remove; empty: none
    std::string key_id;                 // selects a key, or (Add, Rotate) the id of `key`
    std::optional<store::UserKey>
        key;                   // for Add, Rotate: the key at another SNAPT; else a fresh one
    std::string realm;         // the realm of `key`; empty: not known
    base::Duration overlap{};  // for Rotate: how long earlier keys stay valid
};

// Longest overlap of `rotate`: a year. A choice, not measured.
inline constexpr base::Duration kMaxOverlap = base::seconds(366 * 86'400);

// "50GiB/month" or "1GiB/day".
std::optional<store::Quota> parse_user_quota(std::string_view text);

// {"command":"user","action":"add","name":"alice","quota":"50GiB/month"|null}, and the given ones
// of "device", "key_id", "key", "realm" and "overlap_s".
std::string user_request_json(const UserRequest& request, const std::optional<std::string>& quota);
// Nothing, with the reason in `failure`, when the request is wrong.
std::optional<UserRequest> parse_user_request(const report::JsonValue& request,
                                              std::string& failure);

// The result of a command, or why it failed.
struct UserResult {
    std::string json;   // the answer; {"error":…} when it failed
    std::string error;  // empty on success
    // Sessions to close: none, those whose key is not valid any more, all of the user.
    enum class Ends : uint8_t { Nothing, Revoked, User };
    Ends ends = Ends::Nothing;
};

// Add and Rotate answer {"user","key_id","device","config","block","warning"}, where `config` is
// the text of a cnapt.toml, and `block` its part on this SNAPT; `warning`, else null, says why the
// key that is stored lets nobody in yet. List answers [{user, account, disabled, keys[],
// devices[{key_id, device, disabled, created, last_seen, expires}], created, quota_bytes,
// quota_period}]. The others
// {"user","done":true}.
UserResult run_user_request(store::UserStore& users,
                            const settings::SnaptConfig& config,
                            const UserRequest& request,
                            int64_t now_us,
                            base::Random& random);

// The [[snapt]] block of a cnapt.toml for this SNAPT.
std::string render_snapt_block(const settings::SnaptConfig& config);

// A complete cnapt.toml of that user for this SNAPT; what has its default is commented out.
std::string render_enrolment(const settings::SnaptConfig& config,
                             const store::Credential& credential);

}  // namespace continuo::snapt::users
