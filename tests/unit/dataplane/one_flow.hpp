// A flow table with one TCP flow.
#pragma once

#include "common/flow/flow_table.hpp"

#include <gtest/gtest.h>

namespace continuo::dataplane {

class OneFlow : public testing::Test {
  protected:
    OneFlow() {
        packet::FiveTuple tuple;
        tuple.local = *base::IpAddress::parse("192.0.2.2");
        tuple.remote = *base::IpAddress::parse("198.51.100.2");
        tuple.local_port = 40000;
        tuple.remote_port = 443;
        tuple.protocol = packet::Protocol::Tcp;
        flow_ = table_.create(tuple, base::TrafficClass::LtHd, now_);
    }

    base::TimePoint now_{base::seconds(100)};
    flow::HeapSlots slots_{4};
    flow::FlowTable table_{4, slots_};
    flow::Flow* flow_ = nullptr;
};

}  // namespace continuo::dataplane
