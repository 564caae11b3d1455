#include "base/metrics.h"

#include <gtest/gtest.h>

#include "base/renamed_metrics.h"

namespace verbena::metrics {
namespace {

TEST(RenamedMetrics, AreExposedUnderBothNames) {
  for (const auto& renamed : renamed_metrics) {
    counter(renamed.name, "what it counts", {{"a", "b"}}).add(7);
    const std::string text = exposition();
    for (const auto name : {renamed.old_name, renamed.name}) {
      EXPECT_NE(text.find("\n" + std::string(name) + "{a=\"b\"} 7\n"), std::string::npos) << name;
    }
    EXPECT_NE(
        text.find("# HELP " + std::string(renamed.old_name) + " Old name of " + std::string(renamed.name) + ".\n"),
        std::string::npos);
  }
}

}  // namespace
}  // namespace verbena::metrics
