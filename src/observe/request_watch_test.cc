#include "observe/request_watch.h"

#include <gtest/gtest.h>

#include <thread>

namespace verbena::observe {
namespace {

Line line_of(std::string_view bucket, int status = 200, int64_t duration_us = 10) {
  Line line;
  line.action = "GET object";
  line.door = "http";
  line.bucket = bucket;
  line.key = "a key";
  line.principal = "arn:aws:iam::123456789012:user/x";
  line.status = status;
  line.bytes_out = 100;
  line.duration_us = duration_us;
  line.wait_us = 1;
  line.disk_us = 2;
  line.wire_us = 3;
  line.request_id = "0123456789ABCDEF";
  return line;
}

std::vector<std::string> buckets_of(const RequestWatch::Lines& lines) {
  std::vector<std::string> out;
  RequestWatch::each_line(lines, [&](const Line& line) { out.emplace_back(line.bucket); });
  return out;
}

Result<std::string> begin_lines(RequestWatch& watch, const RequestWatch::Filter& filter) {
  return watch.begin(filter, RequestWatch::Wanted::lines);
}

TEST(RequestWatch, IsFreeWhereNobodyWatches) {
  RequestWatch watch;
  EXPECT_FALSE(requests_are_observed());
  const auto name = watch.begin({}, RequestWatch::Wanted::lines);
  ASSERT_TRUE(name);
  EXPECT_TRUE(requests_are_observed());
  watch.end(*name);
  EXPECT_FALSE(requests_are_observed());
  EXPECT_EQ(watch.take_lines(*name).error(), Errc::no_such_entity);
}

TEST(RequestWatch, TellsALineAsItWas) {
  RequestWatch watch;
  const auto name = watch.begin({}, RequestWatch::Wanted::lines);
  watch.tell(line_of("pictures"));
  const auto lines = watch.take_lines(*name);
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->count, 1u);
  RequestWatch::each_line(*lines, [](const Line& line) {
    EXPECT_EQ(line.bucket, "pictures");
    EXPECT_EQ(line.key, "a key");
    EXPECT_EQ(line.door, "http");
    EXPECT_EQ(line.request_id, "0123456789ABCDEF");
    EXPECT_EQ(line.wait_us, 1);
    EXPECT_EQ(line.disk_us, 2);
    EXPECT_EQ(line.wire_us, 3);
  });
  EXPECT_EQ(watch.take_lines(*name)->count, 0u) << "each line once";
}

TEST(RequestWatch, FiltersWhatEachWatcherAsksFor) {
  RequestWatch watch;
  RequestWatch::Filter filters[6];
  filters[0].bucket = "a";
  filters[1].errors = true;
  filters[2].slower_than_us = 1000;
  filters[3].door = "native";
  filters[4].account = "123456789012";
  filters[5].account = "000000000000";
  std::vector<std::string> watchers;
  for (const auto& filter : filters) watchers.push_back(*begin_lines(watch, filter));
  watch.tell(line_of("a"));
  watch.tell(line_of("b", 403));
  watch.tell(line_of("c", 200, 1000));
  watch.tell(line_of("d", 0));
  using Names = std::vector<std::string>;
  EXPECT_EQ(buckets_of(*watch.take_lines(watchers[0])), (Names{"a"}));
  EXPECT_EQ(buckets_of(*watch.take_lines(watchers[1])), (Names{"b", "d"}));
  EXPECT_EQ(buckets_of(*watch.take_lines(watchers[2])), (Names{"c"}));
  EXPECT_EQ(buckets_of(*watch.take_lines(watchers[3])), Names());
  EXPECT_EQ(watch.take_lines(watchers[4])->count, 4u);
  EXPECT_EQ(watch.take_lines(watchers[5])->count, 0u);
}

TEST(RequestWatch, ASlowWatcherLosesLinesAndIsToldHowMany) {
  RequestWatch watch;
  const auto name = watch.begin({}, RequestWatch::Wanted::lines);
  for (size_t i = 0; i < RequestWatch::lines_max + 50; ++i) watch.tell(line_of("a"));
  const auto lines = watch.take_lines(*name);
  EXPECT_EQ(lines->count + lines->lost, RequestWatch::lines_max + 50);
  EXPECT_EQ(lines->lost, 50u);
  EXPECT_EQ(watch.take_lines(*name)->lost, 0u) << "told once";
  // Long names fill the buffer sooner.
  const std::string key(1024, 'k');
  Line line = line_of("a");
  line.key = key;
  for (size_t i = 0; i < RequestWatch::lines_max; ++i) watch.tell(line);
  const auto long_lines = watch.take_lines(*name);
  EXPECT_LE(long_lines->records.size(), RequestWatch::line_bytes_max + 2 * KiB);
  EXPECT_EQ(long_lines->count + long_lines->lost, RequestWatch::lines_max);
}

TEST(RequestWatch, AThousandWatchersAreBounded) {
  RequestWatch watch;
  size_t in = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto name = watch.begin({}, RequestWatch::Wanted::lines);
    if (name) {
      ++in;
    } else {
      EXPECT_EQ(name.error(), Errc::limit_exceeded);
    }
  }
  EXPECT_EQ(in, RequestWatch::watchers_max);
}

TEST(RequestWatch, SumsByAccountAndBucketAreBounded) {
  RequestWatch watch;
  const auto name = watch.begin({}, RequestWatch::Wanted::sums);
  watch.tell(line_of("a"));
  watch.tell(line_of("a"));
  watch.tell(line_of("made-up", 404));
  Line anonymous = line_of("b");
  anonymous.principal = {};
  watch.tell(anonymous);
  const auto sums = watch.take_sums(*name);
  ASSERT_TRUE(sums);
  EXPECT_EQ(sums->buckets.at("a").requests, 2u);
  EXPECT_EQ(sums->buckets.at("a").bytes_out, 200u);
  EXPECT_FALSE(sums->buckets.contains("made-up"));
  EXPECT_EQ(sums->accounts.at("123456789012").requests, 3u);
  EXPECT_EQ(sums->accounts.at("123456789012").errors, 1u);
  EXPECT_EQ(sums->accounts.at("anonymous").requests, 1u);
  for (size_t i = 0; i < RequestWatch::names_max + 100; ++i) watch.tell(line_of("bucket-" + std::to_string(i)));
  const auto many = watch.take_sums(*name);
  EXPECT_EQ(many->buckets.size(), RequestWatch::names_max + 1);
  EXPECT_EQ(many->buckets.find(RequestWatch::others_name)->second.requests, 100u);
}

TEST(RequestWatch, ManyThreadsTellAndEveryLineIsThereOrLost) {
  RequestWatch watch;
  const auto name = watch.begin({}, RequestWatch::Wanted::lines);
  constexpr size_t each = 2000;
  std::vector<std::thread> doors;
  for (int i = 0; i < 3; ++i) {
    doors.emplace_back([&] {
      for (size_t k = 0; k < each; ++k) watch.tell(line_of("a"));
    });
  }
  uint64_t seen = 0, lost = 0;
  const auto take = [&] {
    const auto lines = watch.take_lines(*name);
    seen += lines->count;
    lost += lines->lost;
  };
  for (int i = 0; i < 100; ++i) take();
  for (auto& door : doors) door.join();
  take();
  EXPECT_EQ(seen + lost, 3 * each);
}

}  // namespace
}  // namespace verbena::observe
