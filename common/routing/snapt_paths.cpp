#include "common/routing/snapt_paths.hpp"

namespace continuo::routing {

using base::TimePoint;

bool SnaptPaths::on_announce(uint8_t path, const wire::Announce& announce, TimePoint now) {
    const bool is_old = has_announcement_ && table_.announcement_number != announce.number &&
                        !wire::is_newer_announcement(announce.number, table_.announcement_number);
    if (is_old || announce.path >= table_.paths.size()) {
        return false;
    }
    if (table_.announcement_number != announce.number) {
        end_copies();
    }
    table_.announcement_number = announce.number;
    has_announcement_ = true;
    if (announce.copy_wanted && !announce.active) {
        const bool is_other = announce.path != wire::kTcpPath && table_.active != announce.path;
        if (is_other && table_.paths[announce.path].validation().lt_ld().is_known()) {
            table_.paths[announce.path].snapt().copy_request().on_announced(now);
        }
        return false;
    }
    if (announce.withdrawn) {
        // Announced on another path: the withdrawn one has ended.
        if (announce.path != table_.active) {
            table_.retire(announce.path);
            table_.paths[announce.path].snapt().on_withdrawn();
        }
        return false;
    }
    if (announce.path != path) {
        return false;
    }
    const bool is_new = announce.active && activation_number_ != announce.number;
    if (is_new) {
        activation_number_ = announce.number;
        table_.paths[path].snapt().on_moved_here();
    }
    if (announce.mtu >= recovery::MtuSearch::kSmallest) {
        table_.paths[path].set_limit(announce.mtu);
    }
    // Data in an older connection is lost, as with a move.
    const bool is_new_connection = is_new && path == wire::kTcpPath;
    if (!announce.active || (table_.active == path && !is_new_connection)) {
        return false;
    }
    if (table_.active && table_.active != path) {
        table_.paths[*table_.active].snapt().on_left(now);
    }
    table_.paths[path].snapt().on_chosen(now);
    table_.active = path;
    return true;
}

void SnaptPaths::forget_remapping() {
    remapped_ = 0;
    if (table_.active) {
        table_.paths[*table_.active].snapt().forget_remapping();
    }
}

bool SnaptPaths::on_answered(uint8_t index, const Path::Answered& answered) {
    if (table_.active == index && answered.is_by_lt_ld) {
        remapped_ |= answered.remapped;
        end_copies();
    }
    return answered.is_news;
}

void SnaptPaths::end_copies() {
    for (Path& path : table_.paths) {
        path.snapt().copy_request().end();
    }
}

}  // namespace continuo::routing
