#include "cli/bench/bench.h"

#include <gtest/gtest.h>

namespace verbena::cli {
namespace {

TEST(Bench, PercentilesComeFromTheSamples) {
  std::vector<uint32_t> samples;
  for (uint32_t i = 1; i <= 1000; ++i) samples.push_back(i * 1000);
  BenchRow row;
  row.size = 10;
  summarize(row, samples, 2.0);
  EXPECT_DOUBLE_EQ(*row.p50_us, 501);
  EXPECT_DOUBLE_EQ(*row.p99_us, 991);
  EXPECT_DOUBLE_EQ(*row.p999_us, 1000);
  EXPECT_DOUBLE_EQ(row.ops_per_s, 500);
  EXPECT_DOUBLE_EQ(row.bytes_per_s, 5000);
  std::vector<uint32_t> none;
  summarize(row, none, 0);
  EXPECT_FALSE(row.p50_us);
  EXPECT_EQ(row.ops_per_s, 0);
}

TEST(Bench, AJsonRowHasExactlyTheseFields) {
  BenchRow row{"native", "local", "get", 4096, 2, 1.5, 2.5, 3.5, 10, 40960, std::nullopt};
  EXPECT_EQ(bench_json(row),
            R"({"door":"native","provider":"local","op":"get","size":4096,"concurrency":2,"p50_us":1.5,"p99_us":2.5,)"
            R"("p999_us":3.5,"ops_per_s":10.0,"bytes_per_s":40960.0,"server_cpu_s_per_gb":null})");
}

TEST(Bench, TheTablesColumnsLineUp) {
  BenchRow row{"native", "verbs;ofi_rxm", "get", 16u << 20, 256, 123456.789, {}, 3.5, 1e7, 4e10, 0.5};
  EXPECT_EQ(bench_table_head().size(), bench_table_line(row).size());
  row = {"http", "http", "put", 1, 1, 0.1, 0.1, 0.1, 1, 1, {}};
  EXPECT_EQ(bench_table_head().size(), bench_table_line(row).size());
}

TEST(Bench, ListsOfSizesAndCountsAreChecked) {
  EXPECT_EQ(*parse_sizes({"4KiB", "1", "16MiB"}), (std::vector<uint64_t>{4096, 1, 16u << 20}));
  EXPECT_FALSE(parse_sizes({"0"}));
  EXPECT_FALSE(parse_sizes({"much"}));
  EXPECT_FALSE(parse_sizes({"1TiB"}));
  EXPECT_EQ(*parse_counts({"1", "8"}), (std::vector<unsigned>{1, 8}));
  EXPECT_FALSE(parse_counts({"0"}));
  EXPECT_FALSE(parse_counts({"-1"}));
  EXPECT_FALSE(parse_counts({"1000"}));
}

}  // namespace
TEST(Bench, MemoryIsThatOfTheHostOrOfADevice) {
  EXPECT_EQ(*parse_memory("host"), std::nullopt);
  for (const char* right : {"cuda:0", "cuda:12", "rocm:0", "rocm:3"})
    EXPECT_EQ(to_string(**parse_memory(right)), right);
  EXPECT_EQ(to_string(**parse_memory("cuda")), "cuda:0");
  EXPECT_EQ(to_string(**parse_memory("rocm")), "rocm:0");
  for (const char* wrong : {"", ":", ":1", "cuda:", "cuda:-1", "cuda:1x", "cuda:99999999999", "rocm:", "rocm1", "gpu:0",
                            "gpu", "hostage"}) {
    EXPECT_FALSE(parse_memory(wrong)) << wrong;
  }
}

}  // namespace verbena::cli
