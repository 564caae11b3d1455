// What HIP does otherwise than CUDA where RDMA devices reach its memory, over its double and that of a device.
#include "peer_world.h"

// HIP's own calls, for the program that uses this client.
extern "C" {
int hipGetDevice(int* device);
int hipSetDevice(int device);
int hipPeekAtLastError();
}

namespace verbena::matrix {
namespace {

class HipPeer : public Peer {
 protected:
  void TearDown() override {
    double_hip_dma_bufs(true);
    hipSetDevice(0);
    Peer::TearDown();
  }
};

TEST_F(HipPeer, AKernelThatExportsNoMemoryMakesItStaged) {
  OnDevice memory(mib);
  double_hip_dma_bufs(false);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    moves(client(way), memory, DevicePath::staged, "exports no dma-buf, and the peer memory of amdkfd is not there");
  }
  EXPECT_EQ(double_calls("hsa_amd_portable_export_dmabuf"), 0u);
  double_hip_dma_bufs(true);
  double_fail("hsa_system_get_info", 0x1001, 0);
  moves(client(native), memory, DevicePath::staged, "exports no dma-buf");
}

// A GPU whose cache of the host's writes the driver does not flush. Nothing is exported for nothing.
TEST_F(HipPeer, ADeviceThatMayNotSeeWhatOthersWriteIsNotServedSo) {
  OnDevice memory(mib);
  double_peer_writes(0, 0);
  for (const Way& way : {native, token}) {
    SCOPED_TRACE(way.name());
    moves(client(way), memory, DevicePath::staged, "peer: the device does not order writes of other devices");
  }
  EXPECT_EQ(double_calls("hsa_amd_portable_export_dmabuf"), 0u);
  EXPECT_EQ(nic_registered(), 0u);
}

TEST_F(HipPeer, EachGetIsFlushedOnItsOwnDeviceAndThePutsAreNot) {
  OnDevice memory(mib, 1);
  const Client c = client(native);
  const auto bytes = random_bytes(mib, 1);
  ASSERT_TRUE(http().put("bucket", "key", bytes));
  const Buffer window = *c.register_memory(memory.all());
  ASSERT_TRUE(c.get("bucket", "key", window));
  const unsigned before = double_calls("hipDeviceFlushGPUDirectRDMAWrites");
  for (int i = 0; i < 3; ++i) {
    memory.set(std::vector<std::byte>(mib));
    const auto got = c.get("bucket", "key", window);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
    EXPECT_TRUE(same(memory.bytes(0, mib), bytes));
    ASSERT_TRUE(c.put("bucket", "back", window));
  }
  EXPECT_EQ(double_calls("hipDeviceFlushGPUDirectRDMAWrites"), before + 3);
  // The other device is lost: no call is made for it.
  double_lose(0, true);
  const auto got = c.get("bucket", "key", window);
  double_lose(0, false);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transfer.device_path, DevicePath::peer) << got->transfer.fell_back_reason;
}

TEST_F(HipPeer, TheProgramsDeviceAndErrorsStayItsOwn) {
  OnDevice memory(mib, 0);
  ASSERT_EQ(hipSetDevice(1), 0);
  const auto checked = [&](DevicePath path, const std::string& why = {}) {
    moves(client(native), memory, path, why);
    EXPECT_EQ(hipPeekAtLastError(), 0) << why;
    int now = -1;
    ASSERT_EQ(hipGetDevice(&now), 0);
    EXPECT_EQ(now, 1) << why;
  };
  checked(DevicePath::peer);
  double_fail("hipDeviceFlushGPUDirectRDMAWrites", 801, 0);
  checked(DevicePath::staged, "does not order");
  double_fail("hipDeviceFlushGPUDirectRDMAWrites", 0, 0);
  double_fail("hsa_amd_portable_export_dmabuf", 0x1003, 0);
  checked(DevicePath::staged, "hsa_amd_portable_export_dmabuf: HSA_STATUS_ERROR_INVALID_ALLOCATION");
  double_fail("hsa_amd_portable_export_dmabuf", 0x1000, 0);
  checked(DevicePath::staged, "hsa_amd_portable_export_dmabuf: HSA_STATUS_ERROR");
  double_fail("hsa_amd_portable_export_dmabuf", 0, 0);
  double_fail("hipPointerSetAttribute", 17, 0);  // what it would end first, the caller has waited for
  checked(DevicePath::peer);
}

}  // namespace
}  // namespace verbena::matrix
