#include "cli/watch_rates.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

Json look(uint64_t time_us, uint64_t requests, uint64_t bytes, uint64_t fast, uint64_t slow) {
  Json counts = Json::array();
  for (int i = 0; i < 28; ++i) counts.push_back(i == 5 ? fast : i == 12 ? slow : 0);
  return {
      {"time_us", time_us},
      {"doors",
       {{{"door", "native"}, {"provider", "local"}, {"requests", requests}, {"bytes_in", 0}, {"bytes_out", bytes}}}},
      {"latencies", {{{"door", "native"}, {"verb", "get"}, {"counts", counts}}}},
      {"buckets", {{{"name", "b\x1b[2J"}, {"requests", 20u}, {"bytes_out", 1000u}}}},
      {"accounts", {{{"name", "000000000000"}, {"account", "root"}, {"requests", 20u}, {"errors", 4u}}}},
      {"lost", 3u}};
}

TEST(TopRates, AreWhatHappenedBetweenTwoLooks) {
  const Json rates = top_rates(look(1'000'000, 100, 1 << 20, 100, 0), look(3'000'000, 300, 5 << 20, 290, 10));
  EXPECT_DOUBLE_EQ(rates["interval_s"], 2);
  EXPECT_DOUBLE_EQ(rates["doors"][0]["requests_per_s"], 100);
  EXPECT_DOUBLE_EQ(rates["doors"][0]["bytes_out_per_s"], 2 << 20);
  EXPECT_DOUBLE_EQ(rates["latencies"][0]["requests_per_s"], 100);
  EXPECT_GT(rates["latencies"][0]["p50_us"], 4);
  EXPECT_LE(rates["latencies"][0]["p50_us"], 8);
  EXPECT_GT(rates["latencies"][0]["p99_us"], 512);
  EXPECT_LE(rates["latencies"][0]["p99_us"], 1024);
  EXPECT_DOUBLE_EQ(rates["buckets"][0]["requests_per_s"], 10);
  EXPECT_DOUBLE_EQ(rates["accounts"][0]["errors_per_s"], 2);
}

TEST(TopRates, OfAServerThatWasStartedAnewBeginAtNothing) {
  const Json rates = top_rates(look(1'000'000, 5000, 0, 5000, 0), look(2'000'000, 40, 0, 40, 0));
  EXPECT_DOUBLE_EQ(rates["doors"][0]["requests_per_s"], 40);
  EXPECT_DOUBLE_EQ(rates["latencies"][0]["requests_per_s"], 40);
  EXPECT_EQ(top_rates(Json::object(), Json::object())["doors"], Json::array()) << "an answer that says nothing";
}

TEST(TopRates, APageHasNoStrangersEscapes) {
  const std::string page = top_page(top_rates(look(1, 0, 0, 0, 0), look(1'000'001, 1, 1, 1, 1)));
  EXPECT_NE(page.find("b\\x1b[2J"), std::string::npos) << page;
  EXPECT_EQ(page.find('\x1b'), std::string::npos);
  EXPECT_NE(page.find("root"), std::string::npos);
  EXPECT_NE(page.find("3 requests are missing from these two"), std::string::npos);
}

TEST(TopRates, PercentilesOfNothingAndOfTheLongest) {
  EXPECT_FALSE(percentile_us(Json::array({0, 0, 0}), 0.5));
  EXPECT_DOUBLE_EQ(*percentile_us(Json::array({0, 0, 7}), 0.99), 0.5) << "longer than the last bound";
  EXPECT_DOUBLE_EQ(*percentile_us(Json::array({4, 0, 0}), 0.5), 0.125);
}

}  // namespace
}  // namespace verbena::cli
