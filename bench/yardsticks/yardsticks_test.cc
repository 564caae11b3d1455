#include "yardsticks/yardsticks.h"

#include <gtest/gtest.h>

namespace verbena::yardsticks {
namespace {

TEST(Yardsticks, ReadsWhatFabtestsPrint) {
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

TEST(Yardsticks, ReadsWhatPerftestPrints) {
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

TEST(Yardsticks, RatiosCompareRowsOfOneSizeAndProvider) {
  BenchRow get{"native", "verbs", "get", 65536, 1, 100.0, {}, {}, 10000, 655360000, {}};
  BenchRow rma{"fabtests", "verbs", "rma_write", 65536, 1, 50.0, {}, {}, 20000, 1310720000, {}};
  BenchRow one_way{"fabtests", "verbs", "one_way", 65536, 1, 25.0, {}, {}, 40000, 2621440000, {}};
  BenchRow other = rma;
  other.provider = "tcp";
  EXPECT_EQ(ratios({get, other, rma, one_way}),
            "native (verbs) get 64 KiB: 0.50x the throughput of fabtests rma_write\n"
            "native (verbs) get 64 KiB: 4.00x the time of fabtests one_way\n");
  EXPECT_EQ(ratios({get, other}), "");
}

TEST(Yardsticks, MemcpyCountsEveryCopy) {
  BenchPlan plan;
  plan.count = 3;
  const BenchRow row = measure_memcpy(4096, 1, plan);
  EXPECT_EQ(row.door, "memcpy");
  EXPECT_GT(row.ops_per_s, 0);
  EXPECT_NEAR(row.bytes_per_s, row.ops_per_s * 4096, row.bytes_per_s * 1e-9);
}

TEST(Yardsticks, Md5CountsEveryBody) {
  BenchPlan plan;
  plan.count = 3;
  const BenchRow one = measure_md5_of_one(4096, plan), many = measure_md5_side_by_side(4096, 16, plan);
  EXPECT_EQ(one.op, "one_body");
  EXPECT_EQ(many.op, "side_by_side");
  EXPECT_EQ(many.concurrency, 16);
  for (const BenchRow& row : {one, many}) EXPECT_NEAR(row.bytes_per_s, row.ops_per_s * 4096, row.bytes_per_s * 1e-9);
}

TEST(Yardsticks, RowsOfABenchAreReadBack) {
  const BenchRow get{"native", "verbs", "get", 65536, 4, 1.5, {}, {}, 10, 655360, {}};
  const auto rows = parse_rows(cli::bench_json(get) + "\n" + cli::bench_json({"http", "http", "put", 1}) + "\n");
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ(cli::bench_json((*rows)[0]), cli::bench_json([&] {
              BenchRow same = get;
              same.ops_per_s = 0;  // no ratio needs it
              return same;
            }()));
  EXPECT_FALSE((*rows)[1].p50_us);
  for (const char* bad :
       {"door", "[]", "{}", R"({"door":1,"provider":"","op":"","size":1,"concurrency":1,"bytes_per_s":1})",
        R"({"door":"","provider":"","op":"","size":-1,"concurrency":1,"bytes_per_s":1})"}) {
    EXPECT_FALSE(parse_rows(bad)) << bad;
  }
}

}  // namespace
}  // namespace verbena::yardsticks
