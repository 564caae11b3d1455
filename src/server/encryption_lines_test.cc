#include "server/encryption_lines.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

namespace verbena::server {
namespace {

class EncryptionLines : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "verbena-lines-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root = name;
    roots = {.sys = root / "sys", .proc = root / "proc", .run = root / "run", .dev = root / "dev"};
  }
  void TearDown() override { std::filesystem::remove_all(root); }
  // All lines, one behind the other.
  std::string told(const Config& config, std::string_view provider) {
    std::string out;
    for (const admin::Finding& finding : encryption_findings(config, provider, roots)) out += line_of(finding) + "\n";
    return out;
  }
  static bool says(const std::string& lines, std::string_view text) { return lines.find(text) != std::string::npos; }

  std::filesystem::path root;
  admin::MachineRoots roots;
};

TEST_F(EncryptionLines, SayWhatPreferredMeansAndWhatEncryptsHere) {
  std::filesystem::create_directories(root / "sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs");
  std::ofstream(root / "sys/class/infiniband/rxe0/ports/1/gid_attrs/ndevs/0") << "eth7\n";
  const std::string lines = told({}, "verbs;ofi_rxm");
  EXPECT_TRUE(lines.starts_with("rdma.encryption: preferred: ")) << lines;
  EXPECT_TRUE(says(lines, "payload in the clear: ")) << lines;
  EXPECT_TRUE(says(lines, "\nencryption by the processor: ")) << lines;
  EXPECT_TRUE(says(lines, "\nciphers of sealed RDMA: ")) << lines;
  EXPECT_TRUE(says(lines, "\nencryption PSP: ")) << lines;
  EXPECT_TRUE(says(lines, "\nencryption below rxe0: inline AES-XTS: absent; eth7: IPsec packet offload ")) << lines;
  EXPECT_TRUE(says(lines, "MACsec or IPsec of the kernel protects them\n")) << "what it means: " << lines;
  EXPECT_FALSE(says(lines, "no RDMA device")) << lines;
}

TEST_F(EncryptionLines, SayThatThereIsNothingToSealWithoutADevice) {
  const std::string lines = told({}, "");
  EXPECT_TRUE(says(lines, "no RDMA device is open, so there is nothing to seal\n")) << lines;
  EXPECT_TRUE(says(lines, "\nencryption below RDMA devices: no RDMA device")) << lines;
}

TEST_F(EncryptionLines, SayNothingOfOffloadWhereNothingIsEverSealed) {
  Config config;
  config.rdma.encryption = RdmaEncryption::off;
  const std::string lines = told(config, "verbs;ofi_rxm");
  EXPECT_TRUE(lines.starts_with("rdma.encryption: off: RDMA is never encrypted\n")) << lines;
  EXPECT_FALSE(says(lines, "encryption by the processor")) << lines;
  config.rdma.enabled = false;
  EXPECT_EQ(told(config, ""), "");
}

TEST_F(EncryptionLines, SayThatNetworksDiffer) {
  Config config;
  config.rdma.encryption = RdmaEncryption::off;
  config.listeners.emplace_back().networks = {"10.1.0.0/16"};
  EXPECT_FALSE(says(told(config, "verbs;ofi_rxm"), "listeners")) << "the entry does not say";
  config.listeners.back().encryption = RdmaEncryption::required;
  const std::string lines = told(config, "verbs;ofi_rxm");
  EXPECT_TRUE(lines.starts_with("rdma.encryption: off: RDMA is never encrypted (where no entry of listeners says"))
      << lines;
  EXPECT_TRUE(says(lines, "\nlisteners[0].encryption: for 10.1.0.0/16: required: ")) << lines;
  EXPECT_TRUE(says(lines, "ciphers of sealed RDMA: ")) << "some are sealed: " << lines;
}

TEST_F(EncryptionLines, ShowWhatIsStrangeAsTextAndCutWhatIsLong) {
  const std::string line = line_of({admin::Health::ok, "encryption below \x1b[31m", std::string(100'000, 'x'), "m"});
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_LT(line.size(), 5000u);
}

}  // namespace
}  // namespace verbena::server
