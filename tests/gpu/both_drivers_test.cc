// NVIDIA's and AMD's driver in one process: each window is of its own. The other tests of this program have CUDA's
// double alone; here that of HIP, which is not linked, is loaded besides.
#include "base/fd.h"
#include "direct_world.h"

namespace verbena::matrix {
namespace {

using memory::cuda::Driver;
using memory::cuda::Platform;

// Calls of HIP's double.
struct HipDouble {
  void* library = ::dlopen(HIP_DOUBLE, RTLD_NOW | RTLD_LOCAL);
  template <class Fn>
  Fn* find(const char* name) const {
    return reinterpret_cast<Fn*>(::dlsym(library, name));
  }
  decltype(&double_allocate) allocate = find<decltype(double_allocate)>("double_allocate");
  decltype(&double_free) free = find<decltype(double_free)>("double_free");
  decltype(&double_peek) peek = find<decltype(double_peek)>("double_peek");
  decltype(&double_poke) poke = find<decltype(double_poke)>("double_poke");
  decltype(&double_calls) calls = find<decltype(double_calls)>("double_calls");
  decltype(&double_misuse) misuse = find<decltype(double_misuse)>("double_misuse");
};

// In another process: the driver that a test has loaded, or has not found, stays so.
TEST(BothDrivers, EachWindowIsOfItsOwn) {
  EXPECT_EQ(run_this_program("TEST_VERBENA_HIP_DRIVER=" HIP_DOUBLE, "BothElsewhere.*"), 0);
}

// Its error was swallowed, as if there were no library.
TEST(BothDrivers, ALibraryThatIsThereAndCannotBeLoadedIsAFault) {
  char path[] = "/tmp/verbena-driver-XXXXXX";
  const Fd file(::mkstemp(path));
  EXPECT_EQ(::write(file.get(), "no library", 10), 10);
  EXPECT_EQ(run_this_program(std::string("TEST_VERBENA_HIP_DRIVER=") + path, "BrokenElsewhere.*"), 0);
  EXPECT_EQ(run_this_program("TEST_VERBENA_HIP_DRIVER=/none/libamdhip64.so", "BrokenElsewhere.*"), 0);
  ::unlink(path);
}

TEST(BrokenElsewhere, IsTold) {
  const char* const path = std::getenv("TEST_VERBENA_HIP_DRIVER");
  if (path == nullptr) GTEST_SKIP() << "started by BothDrivers";
  const bool none = std::string_view(path).starts_with("/none/");
  const auto driver = Driver::get(Platform::rocm);
  ASSERT_FALSE(driver);
  EXPECT_EQ(driver.error().kind, memory::cuda::Fault::Kind::absent);
  EXPECT_EQ(driver.error().no_library, none) << driver.error().text;
  EXPECT_EQ(driver.error().text.starts_with("no AMD driver: /none/"), none) << driver.error().text;
  EXPECT_EQ(driver.error().text.starts_with("AMD's driver cannot be loaded: " + std::string(path)), !none)
      << driver.error().text;
}

// CUDA's is ready here: of AMD's only what is there is told.
TEST(BrokenElsewhere, IsToldToAServer) {
  const char* const path = std::getenv("TEST_VERBENA_HIP_DRIVER");
  if (path == nullptr) GTEST_SKIP() << "started by BothDrivers";
  use_the_double();
  const auto known = memory::cuda::drivers();
  ASSERT_EQ(known.ready.size(), 1u);
  ASSERT_EQ(known.faults.size(), 1u);
  EXPECT_EQ(known.faults[0].platform, Platform::rocm);
  EXPECT_EQ(known.told().size(), std::string_view(path).starts_with("/none/") ? 0u : 1u);
}

class BothElsewhere : public Direct {};

TEST_F(BothElsewhere, MovesBytesOfBoth) {
  if (std::getenv("TEST_VERBENA_HIP_DRIVER") == nullptr) GTEST_SKIP() << "started by BothDrivers";
  const HipDouble hip;
  ASSERT_NE(hip.library, nullptr) << ::dlerror();
  constexpr size_t size = 5 * mib + 3;
  OnDevice nvidia(size);
  const uint64_t amd = hip.allocate(0, size);
  ASSERT_NE(amd, 0u);
  const DeviceBuffer of_hip{.kind = DeviceKind::rocm, .address = amd, .size = size};

  for (const bool direct : {true, false}) {
    SCOPED_TRACE(direct);
    const Client c = direct ? local() : http();
    const DevicePath path = direct ? DevicePath::direct : DevicePath::staged;
    const Buffer first = *c.register_memory(nvidia.all()), second = *c.register_memory(of_hip);
    const auto one = random_bytes(size, 1), two = random_bytes(size, 2);
    nvidia.set(one);
    hip.poke(amd, two.data(), size);
    for (const auto& [window, key] : {std::pair{&first, "one"}, std::pair{&second, "two"}}) {
      const auto put = c.put("bucket", key, *window);
      ASSERT_TRUE(put) << put.error().message;
      EXPECT_EQ(put->transfer.device_path, path) << put->transfer.fell_back_reason;
    }
    EXPECT_TRUE(same(stored("one", size), one));
    EXPECT_TRUE(same(stored("two", size), two));
    ASSERT_TRUE(c.get("bucket", "one", second));
    ASSERT_TRUE(c.get("bucket", "two", first));
    std::vector<std::byte> on_amd(size);
    hip.peek(on_amd.data(), amd, size);
    EXPECT_TRUE(same(on_amd, one));
    EXPECT_TRUE(same(nvidia.bytes(0, size), two));

    // A batch is of one device, whatever its number.
    const Buffer windows[] = {first, second};
    const BatchItem items[] = {{.bucket = "bucket", .key = "one", .size = size},
                               {.bucket = "bucket", .key = "two", .size = size, .window = 1}};
    BatchResult results[2];
    const auto both = c.get_many(items, windows, results);
    ASSERT_FALSE(both);
    EXPECT_EQ(both.error().code, ErrorCode::invalid_argument);
  }
  // A pointer is asked of the driver that its kind names.
  const Client c = local();
  DeviceBuffer mistaken = of_hip;
  mistaken.kind = DeviceKind::cuda;
  EXPECT_EQ(c.register_memory(mistaken).error().code, ErrorCode::invalid_argument);
  mistaken = nvidia.all();
  mistaken.kind = DeviceKind::rocm;
  EXPECT_EQ(c.register_memory(mistaken).error().code, ErrorCode::invalid_argument);
  EXPECT_GT(hip.calls("hipMemcpyHtoDAsync"), 0u);
  EXPECT_EQ(double_calls("hipMemcpyHtoDAsync"), 0u);  // the libraries have nothing in common
  EXPECT_EQ(hip.misuse(), 0u);
  EXPECT_TRUE(hip.free(amd));
}

TEST_F(BothElsewhere, ADriverThatFailsForTheServerIsPassedOver) {
  if (std::getenv("TEST_VERBENA_HIP_DRIVER") == nullptr) GTEST_SKIP() << "started by BothDrivers";
  double_fail("cuStreamCreate", 2, 0);
  World other(direct_config(std::chrono::seconds(5)));
  double_fail("cuStreamCreate", 0, 0);
  ClientOptions given = options(Via::native, "local");
  given.endpoint = other.server.http();
  given.native_endpoint = other.server.native();
  const Client c = *Client::connect(given);
  ASSERT_TRUE(c.make_bucket("bucket"));
  const auto bytes = random_bytes(mib, 4);
  ASSERT_TRUE(c.put("bucket", "key", bytes));

  const HipDouble hip;
  const uint64_t amd = hip.allocate(1, mib);
  OnDevice nvidia(mib);
  {
    const Buffer first = *c.register_memory(nvidia.all());
    const Buffer second = *c.register_memory(DeviceBuffer{.kind = DeviceKind::rocm, .address = amd, .size = mib});
    EXPECT_EQ(c.get("bucket", "key", first)->transfer.device_path, DevicePath::shared);
    const auto got = c.get("bucket", "key", second);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::direct) << got->transfer.fell_back_reason;
  }
  std::vector<std::byte> on_amd(mib);
  hip.peek(on_amd.data(), amd, mib);
  EXPECT_TRUE(same(on_amd, bytes));
  EXPECT_TRUE(same(nvidia.bytes(0, mib), bytes));
  EXPECT_TRUE(hip.free(amd));
}

}  // namespace
}  // namespace verbena::matrix
