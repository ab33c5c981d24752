// TcpTrial: whether TCP carries more than UDP did under heavy loss. It is tried once; TCP starts
// slowly, so what it delivers counts in the second half. Another path or connection is tried from
// the start. Pure.
#pragma once

#include "policy/path_views.hpp"

namespace continuo::policy {

class TcpTrial {
  public:
    static constexpr base::Duration kTrial = base::seconds(4);
    static constexpr double kWorthIt = 1.5;  // times UDP's rate
    enum class Verdict : uint8_t { None, Keep, Leave };

    // `network`: where UDP lost so much.
    void begin(uint32_t network, double udp_bytes_per_s, base::TimePoint now) {
        *this = {};
        is_on_ = true;
        network_ = network;
        udp_bytes_per_s_ = udp_bytes_per_s;
        began_ = now;
    }
    void end() { is_on_ = false; }
    bool is_on() const { return is_on_; }
    uint32_t network() const { return network_; }
    base::TimePoint next_at() const { return began_ + kTrial / 2; }  // the half's end
    // Ends the trial with its verdict. `tcp` null, or not working: TCP fell silent.
    Verdict on_time(const PathView* tcp, bool works, base::TimePoint now) {
        if (tcp == nullptr || !works) {
            end();
            return Verdict::Leave;
        }
        const bool is_other =
            (has_path_ && tcp->uplink != uplink_) || tcp->delivered_bytes() < seen_;
        has_path_ = true;
        uplink_ = tcp->uplink;
        seen_ = tcp->delivered_bytes();
        if (is_other) {
            is_half_ = false;
            began_ = now;
        }
        if (now < next_at()) {
            return Verdict::None;
        }
        if (!is_half_) {
            is_half_ = true;
            began_ = now;
            delivered_at_half_ = tcp->delivered_bytes();
            return Verdict::None;
        }
        end();
        const auto bytes = static_cast<double>(tcp->delivered_bytes() - delivered_at_half_);
        const double wanted =
            kWorthIt * udp_bytes_per_s_ * std::chrono::duration<double>(now - began_).count();
        return bytes > 0 && bytes >= wanted ? Verdict::Keep : Verdict::Leave;
    }

  private:
    bool is_on_ = false;
    bool is_half_ = false;  // the second
    bool has_path_ = false;
    uint8_t uplink_ = 0;  // TCP's
    uint32_t network_ = 0;
    double udp_bytes_per_s_ = 0;
    base::TimePoint began_{};  // the half
    uint64_t seen_ = 0;        // delivered, when looked at last
    uint64_t delivered_at_half_ = 0;
};

}  // namespace continuo::policy
