// The kernel that computes CRCs on a device: its text, interpreted by the driver double, against the CPU's functions.
#include "memory/crc_kernel.h"

#include <gtest/gtest.h>

#include <random>

#include "gpu_world.h"
#include "memory/cuda_crc.h"

namespace verbena::matrix {
namespace {

using memory::cuda::DeviceCrc;
using memory::cuda::Queue;

constexpr std::chrono::seconds patience{60};

constexpr Algorithm kernels[] = {Algorithm::crc32c, Algorithm::crc32, Algorithm::crc64nvme};

uint64_t by_cpu(Algorithm algorithm, Bytes bytes) {
  if (algorithm == Algorithm::crc64nvme) return crc64_nvme(bytes);
  return algorithm == Algorithm::crc32 ? crc32(bytes) : crc32c(bytes);
}

class CrcKernel : public testing::Test {
 protected:
  static void SetUpTestSuite() { use_the_double(); }
  void SetUp() override {
    double_reset_counts();
    double_delay(0);
    for (std::byte& byte : data_) byte = std::byte(random_());
    memory_.set(data_);
    queue_ = std::move(*Queue::open(0));
  }
  void TearDown() override {
    double_kernel_fault();
    double_lose(0, false);
    double_reset_counts();
  }

  struct Range {
    size_t at, size;
  };
  // Of ranges of the memory, all in one go; none: the kernel failed.
  std::vector<uint64_t> crcs(DeviceCrc& kernel, std::span<const Range> ranges) {
    size_t blocks = 0;
    for (const auto& [at, size] : ranges) {
      if (!kernel.launch(memory_.address() + at, size, blocks)) return {};
      blocks += memory::cuda::crc_blocks(kernel.algorithm(), memory_.address() + at, size);
    }
    EXPECT_LE(blocks, memory::cuda::crc_results_max);
    std::vector<uint64_t> registers(blocks);
    const MutableBytes into(reinterpret_cast<std::byte*>(registers.data()), blocks * 8);
    if (!queue_->read(into, kernel.results()) || !queue_->mark(0) ||
        !queue_->wait(0, deadline_in(std::chrono::seconds(100))) || *double_kernel_fault() != '\0') {
      return {};
    }
    std::vector<uint64_t> out;
    std::span<const uint64_t> left(registers);
    for (const auto& [at, size] : ranges) {
      const uint64_t address = memory_.address() + at;
      const size_t own = memory::cuda::crc_blocks(kernel.algorithm(), address, size);
      out.push_back(memory::cuda::join_crc(kernel.algorithm(), address, size, left.first(own)));
      left = left.subspan(own);
    }
    return out;
  }
  std::vector<uint64_t> expected(Algorithm algorithm, std::span<const Range> ranges) const {
    std::vector<uint64_t> out;
    for (const auto& [at, size] : ranges) out.push_back(by_cpu(algorithm, Bytes(data_).subspan(at, size)));
    return out;
  }

  static constexpr size_t size_max = 400 * KiB + 5;
  std::minstd_rand random_{1};
  std::vector<std::byte> data_ = std::vector<std::byte>(size_max);
  OnDevice memory_{size_max};
  std::unique_ptr<Queue> queue_;
};

TEST_F(CrcKernel, GivesTheCrcOfEverySizeAtEveryAlignment) {
  std::vector<Range> ranges;
  for (size_t size = 1; size <= 70; ++size) {
    for (size_t at = 0; at < 9; ++at) ranges.push_back({at, size});
  }
  for (const size_t near : {1 * KiB, 2 * KiB, 4 * KiB, 64 * KiB, 128 * KiB, 200 * KiB}) {
    for (const size_t off : {-9, -8, -7, -4, -1, 0, 1, 3, 4, 8, 9}) ranges.push_back({ranges.size() % 9, near + off});
  }
  for (int i = 0; i < 20; ++i) ranges.push_back({random_() % 9, 1 + random_() % (200 * KiB)});
  for (const Algorithm algorithm : kernels) {
    auto kernel = DeviceCrc::load(*queue_, algorithm, deadline_in(patience));
    ASSERT_TRUE(kernel) << kernel.error().text << double_kernel_fault();
    const auto found = crcs(**kernel, ranges), right = expected(algorithm, ranges);
    ASSERT_EQ(found.size(), ranges.size());
    for (size_t i = 0; i < ranges.size(); ++i) {
      ASSERT_EQ(found[i], right[i]) << to_string(algorithm) << " of " << ranges[i].size << " bytes at " << ranges[i].at;
    }
  }
}

// Not more is read than the last word of an allocation.
TEST_F(CrcKernel, ReadsUpToTheEndOfAnAllocation) {
  std::vector<Range> ranges;
  for (const size_t size : {1, 7, 9, 4096, 70'000}) ranges.push_back({size_max - size, size});
  for (const Algorithm algorithm : kernels) {
    auto kernel = DeviceCrc::load(*queue_, algorithm, deadline_in(patience));
    ASSERT_TRUE(kernel);
    EXPECT_EQ(crcs(**kernel, ranges), expected(algorithm, ranges));
  }
}

// The text with one line of its code left out, one number in it changed, or one predicate less, and that line.
std::vector<std::pair<std::string, std::string>> changed(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (size_t at = text.find("mov.u32 %r0"), end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    const std::string line = text.substr(at, end - at);
    if (line.find(';') == line.npos) continue;
    out.emplace_back(text.substr(0, at) + text.substr(end), line);
    // What a thread without a partner adds is read by none.
    const size_t predicate = line.find("@%p");
    if (predicate != line.npos && line.find("xor") == line.npos) {
      out.emplace_back(text.substr(0, at + predicate) + text.substr(at + predicate + 5), line);
    }
    const size_t digit = line.find_last_of("0123456789");
    // An even number of threads add the same to a sum that is XOR.
    const bool cancels = line.find("%w5, 0;") != line.npos;
    if (digit == line.npos || line.find("bar.sync") != line.npos || cancels) continue;
    std::string other = text;
    other[at + digit] = line[digit] == '0' ? '1' : static_cast<char>(line[digit] - 1);
    out.emplace_back(other, line);
  }
  return out;
}

// Each of those texts is refused, fails, or has another CRC: a text that was right by chance would owe it to the
// double.
TEST_F(CrcKernel, HasNoInstructionThatCouldBeMissingOrAnother) {
  const Range ranges[] = {{0, 1}, {3, 2}, {5, 2900}, {8, 4096}, {1, 65 * KiB + 3}};
  for (const Algorithm algorithm : {Algorithm::crc32c, Algorithm::crc64nvme}) {
    const auto texts = changed(memory::cuda::crc_kernel(algorithm));
    ASSERT_GT(texts.size(), 250u);
    for (const auto& [text, line] : texts) {
      memory::cuda::Outcome<std::unique_ptr<DeviceCrc>> kernel;
      do {  // what the text before has queued may fail only now
        double_lose(0, false);
        kernel = DeviceCrc::load(*queue_, algorithm, deadline_in(patience), {}, text);
      } while (!kernel && kernel.error().text.ends_with("ECC_UNCORRECTABLE"));
      if (!kernel) {
        EXPECT_EQ(kernel.error().text, "cuModuleLoadData: CUDA_ERROR_INVALID_PTX");
        continue;
      }
      const std::vector<std::byte> none(8 * 8, std::byte{0xa5});
      double_poke((*kernel)->results(), none.data(), none.size());
      EXPECT_NE(crcs(**kernel, ranges), expected(algorithm, ranges))
          << to_string(algorithm) << ", another text at: " << line;
    }
  }
}

TEST_F(CrcKernel, IsNotLoadedByADriverThatCannot) {
  for (const char* call : {"cuModuleLoadData", "cuModuleGetFunction", "cuModuleGetGlobal_v2"}) {
    const uint64_t before = double_allocated();
    double_fail(call, 801, 0);
    const auto kernel = DeviceCrc::load(*queue_, Algorithm::crc32c, deadline_in(patience));
    ASSERT_FALSE(kernel);
    EXPECT_TRUE(kernel.error().text.ends_with("CUDA_ERROR_NOT_SUPPORTED")) << kernel.error().text;
    double_fail(call, 0, 0);
    EXPECT_EQ(double_allocated(), before);
  }
}

}  // namespace
}  // namespace verbena::matrix
