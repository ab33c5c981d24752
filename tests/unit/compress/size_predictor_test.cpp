#include "common/compress/size_predictor.hpp"
#include "common/compress/zstd_codec.hpp"
#include "tests/unit/compress/sample_text.hpp"

#include <gtest/gtest.h>

namespace continuo::compress {
namespace {

TEST(SizePredictor, ExpectsNoSavingBeforeTheFirstSection) {
    const SizePredictor predictor;
    EXPECT_EQ(predictor.predict(1000), 1000U);
    EXPECT_EQ(predictor.plain_for(1400), 1400U);
}

TEST(SizePredictor, SettlesOnASteadyRatio) {
    SizePredictor predictor;
    for (int i = 0; i < 60; ++i) {
        predictor.update(2000, 800);
    }
    EXPECT_NEAR(static_cast<double>(predictor.predict(2000)), 800.0, 8.0);
    EXPECT_NEAR(static_cast<double>(predictor.plain_for(1400)), 3500.0, 40.0);
}

TEST(SizePredictor, PredictsHigherTheLessSteadyTheRatio) {
    SizePredictor steady;
    SizePredictor unsteady;
    for (int i = 0; i < 60; ++i) {
        steady.update(1000, 500);
        unsteady.update(1000, i % 2 == 0 ? 300 : 700);
    }
    EXPECT_GT(unsteady.predict(1000), steady.predict(1000) + 100);
}

TEST(SizePredictor, StaysWithinItsBoundsWhateverItIsTold) {
    SizePredictor predictor;
    predictor.update(0, 5);
    EXPECT_EQ(predictor.predict(1000), 1000U);
    for (int i = 0; i < 200; ++i) {
        predictor.update(60000, 1);
    }
    EXPECT_GE(predictor.predict(64000), 1000U);
    EXPECT_LE(predictor.plain_for(1000), 64000U);
    for (int i = 0; i < 200; ++i) {
        predictor.update(10, 5000);
    }
    EXPECT_EQ(predictor.predict(1000), 1000U);
}

TEST(SizePredictor, FillsDatagramsWithTextAndSeldomOverfills) {
    ZstdCodec codec;
    SizePredictor predictor;
    std::vector<uint8_t> to(kMaxPlainBytes);
    constexpr size_t kTarget = 1400;
    constexpr int kSections = 300;
    int overfilled = 0;
    size_t wire = 0;
    for (int i = 0; i < kSections; ++i) {
        const std::string text =
            test::words(predictor.plain_for(kTarget), static_cast<uint64_t>(i));
        const size_t bytes = codec.compress(test::view_of(text), to).value_or(text.size());
        predictor.update(text.size(), bytes);
        overfilled += bytes > kTarget ? 1 : 0;
        wire += bytes;
    }
    EXPECT_LE(overfilled, kSections / 20);
    EXPECT_GE(wire / kSections, kTarget * 85 / 100);
}

}  // namespace
}  // namespace continuo::compress
