#include "call/bucket_traffic.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "base/metrics.h"

namespace verbena::call {
namespace {

size_t occurrences(const std::string& text, std::string_view what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(BucketTraffic, AddsUpWhatThreadsCountedAlsoThoseThatEnded) {
  show_buckets(20);
  const auto count = [] {
    for (int i = 0; i < 1000; ++i) count_traffic("threads", Traffic::get, 0, 10);
    count_traffic("threads", Traffic::put, 7, 0);
    count_traffic("threads", Traffic::other, 0, 0);
  };
  std::thread one(count), other(count);
  one.join();
  other.join();
  count();
  const std::string text = metrics::exposition();
  EXPECT_NE(text.find(R"(verbena_bucket_requests_total{bucket="threads",op="get"} 3000)"), std::string::npos);
  EXPECT_NE(text.find(R"(verbena_bucket_requests_total{bucket="threads",op="put"} 3)"), std::string::npos);
  EXPECT_NE(text.find(R"(verbena_bucket_requests_total{bucket="threads",op="other"} 3)"), std::string::npos);
  EXPECT_NE(text.find(R"(verbena_bucket_bytes_total{bucket="threads",direction="in"} 21)"), std::string::npos);
  EXPECT_NE(text.find(R"(verbena_bucket_bytes_total{bucket="threads",direction="out"} 30000)"), std::string::npos);
}

TEST(BucketTraffic, AHundredThousandBucketsAreFiveSeriesEachOfTheBiggest) {
  show_buckets(3);
  for (int i = 0; i < 100'000; ++i) {
    count_traffic("tenant-" + std::to_string(i), Traffic::put, 1, 0);
    count_traffic("big", Traffic::get, 0, 1'000'000);
  }
  const std::string text = metrics::exposition();
  EXPECT_EQ(occurrences(text, "verbena_bucket_requests_total{"), 9u);
  EXPECT_EQ(occurrences(text, "verbena_bucket_bytes_total{"), 6u);
  // None of it is lost although others came by all the time.
  EXPECT_NE(text.find(R"(verbena_bucket_requests_total{bucket="big",op="get"} 100000)"), std::string::npos);
  EXPECT_NE(text.find(R"(verbena_bucket_bytes_total{bucket="big",direction="out"} 100000000000)"), std::string::npos);
  show_buckets(20);
}

TEST(BucketTraffic, IsNotCountedWhereNoneIsShown) {
  show_buckets(0);
  count_traffic("unseen", Traffic::get, 0, 1'000'000'000);
  EXPECT_EQ(occurrences(metrics::exposition(), "verbena_bucket_requests_total{"), 0u);
  show_buckets(20);
  EXPECT_EQ(occurrences(metrics::exposition(), "\"unseen\""), 0u);
}

}  // namespace
}  // namespace verbena::call
