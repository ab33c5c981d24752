#include "snapt/accounting/charged_once.hpp"

#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

namespace continuo::snapt::accounting {
namespace {

using base::Result;
using store::Database;
using store::Statement;

// Numbers of records charged together.
struct ChargedRange {
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t first = 0;
    int64_t last = 0;
    int64_t charged = 0;

    auto key(int64_t seq) const { return std::tuple(snapt_id, epoch, seq); }
    std::string text() const {
        return "record " + snapt_id + "/" + std::to_string(epoch) + "/" + std::to_string(first);
    }
};

// A row of `booked`, with the range that is being booked.
struct BookedPlace {
    std::string snapt_id;
    int64_t epoch = 0;
    int64_t seq = 0;
    int64_t until = 0;

    bool is_before(const ChargedRange& range) const {
        return std::pair(range.epoch, range.last) > std::pair(epoch, until);
    }
    bool has_begun(const ChargedRange& range) const {
        return range.epoch == epoch && range.first > seq && range.last == until;
    }
};

Result<std::vector<ChargedRange>> charged_ranges(Database& database) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT snapt_id,epoch,first_seq,last_seq,sum(records) FROM charge WHERE replaces IS NULL "
        "GROUP BY 1,2,3,4 ORDER BY 1,2,3,4"));
    std::vector<ChargedRange> ranges;
    while (CTN_TRY(select.step())) {
        ranges.push_back({select.text(0), select.integer(1), select.integer(2), select.integer(3),
                          select.integer(4)});
    }
    return ranges;
}

Result<std::vector<BookedPlace>> booked_places(Database& database) {
    Statement select =
        CTN_TRY(database.prepare("SELECT snapt_id,epoch,seq,coalesce(until_seq,seq) FROM booked"));
    std::vector<BookedPlace> places;
    while (CTN_TRY(select.step())) {
        places.push_back({select.text(0), select.integer(1), select.integer(2), select.integer(3)});
    }
    return places;
}

const BookedPlace* booked_place(const std::vector<BookedPlace>& places,
                                const std::string& snapt_id) {
    for (const BookedPlace& place : places) {
        if (place.snapt_id == snapt_id) {
            return &place;
        }
    }
    return nullptr;
}

// Walks through the records and the ranges in parallel, both in the order of their keys.
class ChargeWalk {
  public:
    ChargeWalk(const std::vector<ChargedRange>& ranges,
               const std::vector<BookedPlace>& places,
               Faults& faults)
        : ranges_(ranges), places_(places), faults_(faults) {}
    void record(const ChargedRange& one, bool has_account) {
        while (next_ < ranges_.size() &&
               ranges_[next_].key(ranges_[next_].last) < one.key(one.first)) {
            end_range();
        }
        const bool is_in = next_ < ranges_.size() &&
                           ranges_[next_].key(ranges_[next_].first) <= one.key(one.first);
        records_ += is_in ? 1 : 0;
        owned_ += is_in && has_account ? 1 : 0;
        const BookedPlace* const place = booked_place(places_, one.snapt_id);
        const bool is_booked = place != nullptr && std::pair(one.epoch, one.first) <=
                                                       std::pair(place->epoch, place->seq);
        if (has_account && is_booked && !is_in) {
            faults_.add(one.text());
        }
    }
    void end() {
        while (next_ < ranges_.size()) {
            end_range();
        }
    }

  private:
    void end_range() {
        const ChargedRange& range = ranges_[next_];
        const BookedPlace* const place = booked_place(places_, range.snapt_id);
        const bool is_whole = records_ == range.last - range.first + 1;
        const bool has_begun = place != nullptr && place->has_begun(range);
        const bool is_right = has_begun  ? range.charged <= owned_
                              : is_whole ? owned_ == range.charged
                                         : owned_ <= range.charged;
        const bool overlaps = next_ > 0 && ranges_[next_ - 1].snapt_id == range.snapt_id &&
                              ranges_[next_ - 1].epoch == range.epoch &&
                              ranges_[next_ - 1].last >= range.first;
        if (!is_right || overlaps || place == nullptr || place->is_before(range)) {
            faults_.add(range.text());
        }
        ++next_;
        records_ = 0;
        owned_ = 0;
    }

    const std::vector<ChargedRange>& ranges_;
    const std::vector<BookedPlace>& places_;
    Faults& faults_;
    size_t next_ = 0;
    int64_t records_ = 0;
    int64_t owned_ = 0;  // those with an account
};

// Whether each charge is what its records give.
Result<void> verify_no_twins(Database& database, Faults& faults) {
    Statement select = CTN_TRY(database.prepare(
        "SELECT max(charge_id) FROM charge WHERE replaces IS NULL "
        "GROUP BY snapt_id,epoch,first_seq,account_id,quarter,cls HAVING count(*)>1"));
    while (CTN_TRY(select.step())) {
        faults.add("charge " + std::to_string(select.integer(0)) + ", which there is twice");
    }
    return {};
}

}  // namespace

Result<void> verify_charged_once(Database& database, Faults& faults) {
    CTN_TRY(verify_no_twins(database, faults));
    const std::vector<ChargedRange> ranges = CTN_TRY(charged_ranges(database));
    const std::vector<BookedPlace> places = CTN_TRY(booked_places(database));
    ChargeWalk walk(ranges, places, faults);
    Statement select = CTN_TRY(database.prepare(
        "SELECT snapt_id,epoch,seq,account_id<>0 FROM usage_record ORDER BY snapt_id,epoch,seq"));
    while (CTN_TRY(select.step())) {
        walk.record({select.text(0), select.integer(1), select.integer(2), select.integer(2), 0},
                    select.integer(3) != 0);
    }
    walk.end();
    return {};
}

}  // namespace continuo::snapt::accounting
