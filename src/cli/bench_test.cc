#include "cli/bench.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/bench_runner.h"

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

TEST(Bench, ReadsWhatFabtestsPrint) {
  auto row = parse_fabtests(
      "bytes   iters   total       time     MB/sec    usec/xfer   Mxfers/sec\n"
      "64k     2k      125m        0.81s    161.28     406.34       0.00\n",
      65536);
  ASSERT_TRUE(row);
  EXPECT_DOUBLE_EQ(*row->p50_us, 406.34);
  EXPECT_DOUBLE_EQ(row->bytes_per_s, 161.28e6);
  EXPECT_FALSE(row->p99_us);
  EXPECT_FALSE(parse_fabtests("fi_getinfo: -61 (No data available)\n", 1));
  EXPECT_FALSE(parse_fabtests("", 1));
}

TEST(Bench, ReadsWhatPerftestPrints) {
  auto bandwidth = parse_perftest(
      " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n"
      " 65536      256            26.50              25.00                0.000400\n",
      65536, false);
  ASSERT_TRUE(bandwidth);
  EXPECT_DOUBLE_EQ(bandwidth->bytes_per_s, 25.0 * (1 << 20));
  EXPECT_DOUBLE_EQ(bandwidth->ops_per_s, 400);
  auto latency =
      parse_perftest(" 4096    100          70.1           250.0        80.5     \t 85.0   \t 9.1\n", 4096, true);
  ASSERT_TRUE(latency);
  EXPECT_DOUBLE_EQ(*latency->p50_us, 80.5);
  EXPECT_FALSE(parse_perftest("Couldn't connect to 10.77.0.1:18515\n", 4096, false));
  EXPECT_FALSE(parse_perftest(" 8192 100 1 1 1\n", 4096, false));
}

TEST(Bench, RatiosCompareRowsOfOneSizeAndProvider) {
  BenchRow get{"native", "verbs", "get", 65536, 1, 100.0, {}, {}, 10000, 655360000, {}};
  BenchRow rma{"fabtests", "verbs", "rma_write", 65536, 1, 50.0, {}, {}, 20000, 1310720000, {}};
  BenchRow one_way{"fabtests", "verbs", "one_way", 65536, 1, 25.0, {}, {}, 40000, 2621440000, {}};
  BenchRow other = rma;
  other.provider = "tcp";
  EXPECT_EQ(bench_ratios({get, other, rma, one_way}),
            "native (verbs) get 64 KiB: 0.50x the throughput of fabtests rma_write\n"
            "native (verbs) get 64 KiB: 4.00x the time of fabtests one_way\n");
  EXPECT_EQ(bench_ratios({get, other}), "");
}

TEST(Bench, MemcpyCountsEveryCopy) {
  BenchPlan plan;
  plan.count = 3;
  const BenchRow row = measure_memcpy(4096, 1, plan);
  EXPECT_EQ(row.door, "memcpy");
  EXPECT_GT(row.ops_per_s, 0);
  EXPECT_NEAR(row.bytes_per_s, row.ops_per_s * 4096, row.bytes_per_s * 1e-9);
}

}  // namespace
}  // namespace verbena::cli
