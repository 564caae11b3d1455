#include "fabric/ofi/port_counters.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "base/metrics.h"

namespace verbena::fabric::ofi {
namespace {

namespace fs = std::filesystem;

class PortCounters : public ::testing::Test {
 protected:
  PortCounters() {
    std::string name = (fs::temp_directory_path() / "verbena-counters-XXXXXX").string();
    root = ::mkdtemp(name.data());
  }
  ~PortCounters() override { fs::remove_all(root); }
  void write(const fs::path& path, const std::string& text) const {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << text << '\n';
  }
  static bool shown(const std::string& line) { return metrics::exposition().find(line + "\n") != std::string::npos; }
  fs::path root;
};

TEST_F(PortCounters, AreExportedByTheKernelsNames) {
  write("mlx5_0/ports/1/state", "4: ACTIVE");
  write("mlx5_0/ports/1/counters/port_rcv_data", "18446744073709551615");
  write("mlx5_0/ports/1/hw_counters/out_of_sequence", "7");
  write("mlx5_0/ports/1/hw_counters/lifespan", "10");
  write("mlx5_0/ports/1/counters/excessive_buffer_overrun_errors", "N/A (no PMA)");
  write("mlx5_0/ports/2/state", "1: DOWN");
  read_port_counters(root);
  const std::string port = R"({device="mlx5_0",port="1"})";
  EXPECT_TRUE(shown("verbena_rdma_port_active" + port + " 1"));
  EXPECT_TRUE(shown(R"(verbena_rdma_port_active{device="mlx5_0",port="2"} 0)"));
  EXPECT_TRUE(shown(R"(verbena_rdma_port_counter_total{counter="out_of_sequence",device="mlx5_0",port="1"} 7)"));
  EXPECT_NE(metrics::exposition().find(R"(counter="port_rcv_data",device="mlx5_0")"), std::string::npos);
  EXPECT_EQ(metrics::exposition().find("lifespan"), std::string::npos);
  EXPECT_EQ(metrics::exposition().find("excessive_buffer"), std::string::npos);
  write("mlx5_0/ports/1/hw_counters/out_of_sequence", "9");
  read_port_counters(root);
  EXPECT_TRUE(shown(R"(verbena_rdma_port_counter_total{counter="out_of_sequence",device="mlx5_0",port="1"} 9)"));
}

TEST_F(PortCounters, OfAMachineWithoutDevicesAreNone) {
  const std::string before = metrics::exposition();
  read_port_counters(root / "absent");
  EXPECT_EQ(metrics::exposition(), before);
}

}  // namespace
}  // namespace verbena::fabric::ofi
