// What HIP does otherwise than CUDA, over the double with HIP's names: contexts, attributes, errors, and what it lacks.
#include "memory/cuda_context.h"
#include "memory/cuda_devices.h"
#include "raw_session.h"

// HIP's own calls, for the program that uses this client.
extern "C" {
int hipGetDevice(int* device);
int hipSetDevice(int device);
int hipGetLastError();
int hipPeekAtLastError();
}

namespace verbena::matrix {
namespace {

using memory::cuda::Driver;
using memory::cuda::Platform;

// The way `direct`, whose devices the server opens before a test begins.
class Hip : public Direct {
 protected:
  using Direct::Direct;
  static const Driver& driver() { return **Driver::get(Platform::rocm); }
  void TearDown() override {
    double_hip_version(71'400'000);
    double_hip_nameless(false);
    hipSetDevice(0);
    hipGetLastError();
    Direct::TearDown();
  }
};

TEST_F(Hip, SaysItsVersionAndDevices) {
  EXPECT_TRUE(driver().title().ends_with(", HIP 7.14")) << driver().title();
  const auto devices = driver().devices();
  ASSERT_TRUE(devices) << devices.error().text;
  ASSERT_EQ(devices->size(), 2u);
  EXPECT_EQ((*devices)[1].name, "Double 1");
  EXPECT_TRUE((*devices)[0].descriptors);
  EXPECT_TRUE((*devices)[0].dma_buf);
  double_hip_dma_bufs(false);  // of an older kernel
  EXPECT_FALSE((*driver().devices())[0].dma_buf);
  double_hip_dma_bufs(true);
}

TEST_F(Hip, TheThreadsOwnDeviceStaysCurrent) {
  const Client c = local(), h = http();
  ASSERT_TRUE(h.put("bucket", "key", random_bytes(mib, 1)));
  OnDevice memory(mib, 1), other(mib, 0);
  for (const int own_device : {0, 1}) {
    ASSERT_EQ(hipSetDevice(own_device), 0);
    for (const OnDevice* one : {&memory, &other}) {
      const Buffer near = *c.register_memory(one->all()), far = *h.register_memory(one->all());
      ASSERT_TRUE(c.get("bucket", "key", near));
      ASSERT_TRUE(h.get("bucket", "key", far));
      ASSERT_TRUE(h.put("bucket", "copy", far));
      int now = -1;
      ASSERT_EQ(hipGetDevice(&now), 0);
      EXPECT_EQ(now, own_device);
    }
  }
}

TEST_F(Hip, NoFailureIsLeftForTheProgramToFind) {
  const Client c = local();
  std::vector<std::byte> host(4096);
  EXPECT_FALSE(c.register_memory(DeviceBuffer{
      .kind = DeviceKind::rocm, .address = reinterpret_cast<uintptr_t>(host.data()), .size = host.size()}));
  EXPECT_EQ(hipPeekAtLastError(), 0);
  double_fail("hipIpcGetMemHandle", 801, 0);
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.put("bucket", "key", window));
  EXPECT_EQ(hipPeekAtLastError(), 0);
  double_fail("hipMemcpyHtoDAsync", 2, 0);
  EXPECT_FALSE(c.get("bucket", "key", window));
  EXPECT_EQ(hipPeekAtLastError(), 0);
  for (const char* call : {"hipSetDevice", "hipDeviceGetUuid", "hipEventCreateWithFlags", "hipMemGetAddressRange"}) {
    double_reset_counts();
    double_fail(call, 2, 0);
    const Client other = local();
    OnDevice another(mib, 1);
    const auto its = other.register_memory(another.all());
    if (its) static_cast<void>(other.put("bucket", "other", *its));
    EXPECT_EQ(hipPeekAtLastError(), 0) << call;
  }
}

// The attribute of a size has 32 bits, of which none is set here.
TEST_F(Hip, AnAllocationIsAsLargeAsItsRange) {
  constexpr size_t size = size_t{4} << 30;
  OnDevice memory(size);
  ASSERT_NE(memory.address(), 0u);
  const auto found = driver().allocation(memory.address() + size - 1);
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(found->begin, memory.address());
  EXPECT_EQ(found->size, size);
}

// hipMemoryType has other numbers before ROCm 6. Each version of the library is in a process of its own.
TEST(HipVersions, KnowTheirMemory) {
  for (const int version : {40'500'000, 50'000'000, 50'731'921, 60'000'000, 70'051'831, 71'399'999, 71'400'000}) {
    SCOPED_TRACE(version);
    EXPECT_EQ(run_this_program("TEST_HIP_VERSION=" + std::to_string(version), "HipElsewhere.KnowsItsMemory"), 0);
  }
}

TEST(HipElsewhere, KnowsItsMemory) {
  const char* const version = std::getenv("TEST_HIP_VERSION");
  if (version == nullptr) GTEST_SKIP() << "started by HipVersions";
  double_hip_version(std::stoi(version));
  use_the_double();
  const auto driver = Driver::get(Platform::rocm);
  if (std::stoi(version) < 50'000'000) {
    ASSERT_FALSE(driver);
    EXPECT_EQ(driver.error().kind, memory::cuda::Fault::Kind::absent);
    EXPECT_TRUE(driver.error().text.ends_with("is version 4.5, and 5.0 is needed")) << driver.error().text;
    return;
  }
  ASSERT_TRUE(driver) << driver.error().text;
  OnDevice memory(4096);
  std::vector<std::byte> host(4096);
  EXPECT_TRUE((*driver)->allocation(memory.address()));
  EXPECT_FALSE((*driver)->allocation(reinterpret_cast<uintptr_t>(host.data())));
  const uint64_t managed = double_allocate_managed(4096);
  const auto found = (*driver)->allocation(managed);
  ASSERT_FALSE(found);
  EXPECT_NE(found.error().text.find("managed memory"), std::string::npos) << found.error().text;
  EXPECT_EQ((*driver)->calls().shares_physical(), std::stoi(version) >= 71'400'000);
  EXPECT_EQ((*(*driver)->devices())[0].descriptors, std::stoi(version) >= 71'400'000);
}

// Their copies would go to the wrong one.
TEST_F(Hip, DevicesThatHaveNoNamesOfTheirOwnAreNotShared) {
  double_hip_nameless(true);
  const Client c = local();
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_EQ(got->transfer.fell_back_reason.find("direct: hipDeviceGetUuid: hipErrorNotSupported"), 0u)
      << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
}

// Over a version whose calls for it are not to be trusted.
TEST(HipBefore, MemoryInPiecesGoesItsOwnWay) {
  EXPECT_EQ(run_this_program("TEST_HIP_VERSION=71300000", "HipOld.MemoryInPiecesGoesItsOwnWayAndSaysWhy"), 0);
}

class HipOld : public Hip {
 public:
  static void SetUpTestSuite() {
    if (const char* const version = std::getenv("TEST_HIP_VERSION")) double_hip_version(std::stoi(version));
    Hip::SetUpTestSuite();
  }
};

TEST_F(HipOld, MemoryInPiecesGoesItsOwnWayAndSaysWhy) {
  if (std::getenv("TEST_HIP_VERSION") == nullptr) GTEST_SKIP() << "started by HipBefore";
  const Client c = local();
  const auto bytes = random_bytes(3 * mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  InPieces memory({2 * mib, 2 * mib});
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_NE(got->transfer.fell_back_reason.find("shares no memory by descriptors"), std::string::npos)
      << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, 3 * mib), bytes));
  EXPECT_EQ(double_calls("cuMemRetainAllocationHandle"), 0u);
}

// Nothing of its clients could be taken, and yet all of the arena was page-locked, and clients were told of devices.
TEST(HipBefore, WithoutHandlesTheDriverIsPassedOver) {
  EXPECT_EQ(run_this_program("TEST_HIP_VERSION=71300000", "HipOldElsewhere.IsPassedOverWithoutHandles"), 0);
}

TEST(HipOldElsewhere, IsPassedOverWithoutHandles) {
  const char* const version = std::getenv("TEST_HIP_VERSION");
  if (version == nullptr) GTEST_SKIP() << "started by HipBefore";
  double_hip_version(std::stoi(version));
  use_the_double();
  const auto arena = memory::Arena::create(8 * mib);
  ASSERT_TRUE(arena);
  const auto without = memory::cuda::Devices::open(**arena, {});
  ASSERT_FALSE(without);
  EXPECT_NE(without.error().text.find("gpudirect.rocm_handles"), std::string::npos) << without.error().text;
  EXPECT_EQ(double_locked(), 0u);
  const auto with = memory::cuda::Devices::open(**arena, {.hip_handles = true});
  ASSERT_TRUE(with) << with.error().text;
  EXPECT_GT(double_locked(), 0u);
  EXPECT_TRUE((*with)->stop());
}

// As a server is if its operator has not said that clients are trusted.
class HipWithoutHandles : public Hip {
 protected:
  HipWithoutHandles() : Hip(config()) {}
  static Config config() {
    Config without = direct_config(std::chrono::seconds(5));
    without.gpudirect.rocm_handles = Config().gpudirect.rocm_handles;
    return without;
  }
};

TEST_F(HipWithoutHandles, MemoryIsSharedByDescriptorsAloneAndTheReasonIsSaid) {
  const Client c = local();
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::shared);
  EXPECT_NE(got->transfer.fell_back_reason.find("gpudirect.rocm_handles"), std::string::npos)
      << got->transfer.fell_back_reason;
  EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
  InPieces pieces({2 * mib});
  const auto in_pieces = c.get("bucket", "key", *c.register_memory(pieces.all()));
  ASSERT_TRUE(in_pieces) << in_pieces.error().message;
  EXPECT_EQ(in_pieces->transfer.device_path, DevicePath::direct) << in_pieces->transfer.fell_back_reason;
  EXPECT_TRUE(same(pieces.bytes(0, mib), bytes));
  EXPECT_EQ(c.device_counters().not_direct, 1u);
}

// A server with that driver takes nothing of such memory, and clients were not told why.
TEST(HipBefore, WithoutHandlesThereIsAReason) {
  EXPECT_EQ(run_this_program("TEST_HIP_VERSION=71300000", "HipOldWithoutHandles.*"), 0);
}

class HipOldWithoutHandles : public HipWithoutHandles {
 protected:
  static void SetUpTestSuite() { HipOld::SetUpTestSuite(); }
};

TEST_F(HipOldWithoutHandles, ReplyAndCountersSayWhy) {
  if (std::getenv("TEST_HIP_VERSION") == nullptr) GTEST_SKIP() << "started by HipBefore";
  const Client c = local();
  OnDevice memory(mib);
  const Buffer window = *c.register_memory(memory.all());
  const auto put = c.put("bucket", "key", window);
  ASSERT_TRUE(put) << put.error().message;
  const auto got = c.get("bucket", "key", window);
  ASSERT_TRUE(got) << got.error().message;
  for (const Transfer* transfer : {&put->transfer, &got->transfer}) {
    EXPECT_EQ(transfer->device_path, DevicePath::shared);
    EXPECT_TRUE(transfer->fell_back_reason.starts_with("direct: no GPU of AMD's")) << transfer->fell_back_reason;
    EXPECT_NE(transfer->fell_back_reason.find("gpudirect.rocm_handles"), std::string::npos);
  }
  EXPECT_EQ(c.device_counters().not_direct, 2u);
}

TEST_F(HipWithoutHandles, AHandleThatIsSentAllTheSameIsNotOpened) {
  OnDevice memory(mib);
  const auto shared = driver().share(*driver().allocation(memory.address()));
  ASSERT_TRUE(shared) << shared.error().text;
  const auto session = this->session();
  RawSession raw(*session);
  for (const uint64_t size : {mib, 4 * mib}) {
    const auto answer = raw.share(
        {.kind = native::wire::device_by_hip_handle, .device = shared->device, .size = size, .handle = shared->handle});
    EXPECT_EQ(answer.code, Errc::not_implemented);
  }
  EXPECT_EQ(double_calls("hipIpcOpenMemHandle"), 0u);
}

TEST_F(Hip, CudasDefaultStreamIsHips) {
  OnDevice memory(mib);
  DeviceBuffer given = memory.all();
  given.stream = 1;
  const Client c = local();
  const Buffer window = *c.register_memory(given);
  ASSERT_TRUE(c.put("bucket", "key", window));
  ASSERT_TRUE(c.get("bucket", "key", window));
  EXPECT_EQ(double_misuse(), 0u);
}

TEST_F(Hip, MemoryOfAnotherKindIsRefused) {
  const Client c = local();
  OnDevice memory(mib);
  DeviceBuffer given = memory.all();
  given.kind = DeviceKind::cuda;  // whose driver is not here
  const auto made = c.register_memory(given);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::unsupported);
  EXPECT_NE(made.error().message.find("no NVIDIA driver"), std::string::npos) << made.error().message;
  given.kind = static_cast<DeviceKind>(3);
  const auto unknown = c.register_memory(given);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace verbena::matrix
