#include "base/histogram.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/exposition.h"

namespace verbena::metrics {
namespace {

TEST(Histogram, ABucketHasWhatIsAtMostItsBound) {
  EXPECT_EQ(Histogram::bucket_of(0), 0u);
  EXPECT_EQ(Histogram::bucket_of(250), 0u);
  EXPECT_EQ(Histogram::bucket_of(251), 1u);
  EXPECT_EQ(Histogram::bucket_of(500), 1u);
  EXPECT_EQ(Histogram::bucket_of(501), 2u);
  for (size_t i = 0; i < Histogram::bounds; ++i) {
    EXPECT_EQ(Histogram::bucket_of(Histogram::first_bound_ns << i), i);
    EXPECT_EQ(Histogram::bucket_of((Histogram::first_bound_ns << i) + 1), i + 1);
  }
  EXPECT_EQ(Histogram::bucket_of(UINT64_MAX), Histogram::bounds);
}

TEST(Histogram, AddsUpWhatThreadsCountedAlsoThoseThatEnded) {
  Histogram& histogram = metrics::histogram("verbena_test_threads_seconds", "Of a test");
  EXPECT_EQ(&histogram, &metrics::histogram("verbena_test_threads_seconds", ""));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) histogram.observe_ns(300);
    });
  }
  for (auto& thread : threads) thread.join();
  histogram.observe_ns(2'000'000'000);
  const auto sum = histogram.sum();
  EXPECT_EQ(sum.counts[1], 4000u);
  EXPECT_EQ(sum.counts[Histogram::bucket_of(2'000'000'000)], 1u);
  EXPECT_EQ(sum.total_ns, 4000u * 300 + 2'000'000'000);
}

TEST(Histogram, KeepsARequestOfEachBucketAsAnExemplar) {
  Histogram& histogram = metrics::histogram("verbena_test_exemplar_seconds", "Of a test", {{"door", "test"}});
  histogram.observe_ns(700, "00112233445566AA");
  histogram.observe_ns(5'000'000, "00112233445566BB");
  histogram.observe_ns(5'000'001, "00112233445566CC");  // each slow one is kept
  const std::string text = exposition(Format::open_metrics);
  const auto has = [&](std::string_view line) { return text.find(line) != std::string::npos; };
  EXPECT_TRUE(has("# TYPE verbena_test_exemplar_seconds histogram\n# UNIT verbena_test_exemplar_seconds seconds\n"));
  EXPECT_TRUE(has(R"(_seconds_bucket{door="test",le="1e-06"} 1 # {request_id="00112233445566AA"} 7e-07 )"));
  EXPECT_TRUE(has(R"(,le="0.008192"} 3 # {request_id="00112233445566CC"} 0.005000001 )"));
  EXPECT_TRUE(has(R"(verbena_test_exemplar_seconds_bucket{door="test",le="+Inf"} 3)"));
  EXPECT_TRUE(has(R"(verbena_test_exemplar_seconds_count{door="test"} 3)"));
  EXPECT_TRUE(text.ends_with("# EOF\n"));
  EXPECT_EQ(exposition().find("request_id"), std::string::npos);
}

TEST(Histogram, TextSaysTheSameAsOpenMetrics) {
  histogram("verbena_test_text_seconds", "Of a test").observe_ns(1'000'000);
  histogram("verbena_test_never_seconds", "Of a test");
  const std::string text = exposition();
  EXPECT_NE(text.find("verbena_test_text_seconds_bucket{le=\"0.001024\"} 1"), std::string::npos);
  EXPECT_NE(text.find("verbena_test_text_seconds_bucket{le=\"0.000512\"} 0"), std::string::npos);
  EXPECT_NE(text.find("verbena_test_text_seconds_sum 0.001"), std::string::npos);
  EXPECT_NE(text.find("# TYPE verbena_test_never_seconds histogram"), std::string::npos);
  EXPECT_EQ(text.find("verbena_test_never_seconds_count"), std::string::npos);  // no series while it is empty
}

TEST(Exposition, ACounterThatIsNamedAsAGaugeIsNotASecondFamilyOfThatName) {
  counter("verbena_test_twins_total", "Of a test").add(2);
  gauge("verbena_test_twins", "Of a test").set(1);
  counter("verbena_test_alone_total", "A \"quoted\" \\ help").add(3);
  const std::string text = exposition(Format::open_metrics);
  EXPECT_NE(text.find("# TYPE verbena_test_twins gauge"), std::string::npos);
  EXPECT_NE(text.find("# TYPE verbena_test_twins_total unknown"), std::string::npos);
  EXPECT_NE(text.find("\nverbena_test_twins_total 2\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE verbena_test_alone counter\n# HELP verbena_test_alone A \\\"quoted\\\" \\\\ help\n"),
            std::string::npos);
  EXPECT_NE(text.find("\nverbena_test_alone_total 3\n"), std::string::npos);
}

TEST(Exposition, OpenMetricsAreForThoseWhoAskForThem) {
  EXPECT_EQ(format_of(""), Format::text);
  EXPECT_EQ(format_of("*/*"), Format::text);
  EXPECT_EQ(format_of("text/plain;version=0.0.4"), Format::text);
  EXPECT_EQ(format_of("application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
                      "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"),
            Format::open_metrics);
  EXPECT_EQ(format_of("text/plain, Application/OpenMetrics-Text"), Format::open_metrics);
  EXPECT_EQ(format_of("application/openmetrics-text;q=0, */*"), Format::text);
  EXPECT_EQ(format_of("application/openmetrics-textual"), Format::text);
}

TEST(Exposition, CollectedCountersComeAndGo) {
  static int round = 0;
  collect_counters([](std::vector<Collected>& out) {
    Collected one{"verbena_test_collected_total", "Of a test", {}};
    if (++round == 1) one.samples.push_back({{{"bucket", "a"}}, 7});
    out.push_back(std::move(one));
  });
  EXPECT_NE(exposition().find("verbena_test_collected_total{bucket=\"a\"} 7"), std::string::npos);
  EXPECT_EQ(exposition().find("verbena_test_collected_total{"), std::string::npos);
}

TEST(Ticks, AreWorthNanoseconds) {
  tick_source();
  const uint64_t from = ticks();
  const auto began = SteadyClock::now();
  while (SteadyClock::now() - began < std::chrono::milliseconds(5)) {
  }
  const auto least = static_cast<uint64_t>(std::chrono::nanoseconds(SteadyClock::now() - began).count());
  const uint64_t counted = ns_between(from, ticks());
  EXPECT_GT(counted, least / 100 * 98);  // the clocks may differ by the error of their calibration
  EXPECT_EQ(ns_between(from + 1000, from), 0u);
}

}  // namespace
}  // namespace verbena::metrics
