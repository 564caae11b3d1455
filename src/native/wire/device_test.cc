#include "native/wire/device.h"

#include <gtest/gtest.h>

#include <array>

namespace verbena::native::wire {
namespace {

TEST(WireDevice, IsReadAsItWasWritten) {
  Device sent{.size = uint64_t{3} << 40};
  for (size_t i = 0; i < sent.device.size(); ++i) sent.device[i] = static_cast<std::byte>(i);
  for (size_t i = 0; i < sent.handle.size(); ++i) sent.handle[i] = static_cast<std::byte>(100 + i);
  std::array<std::byte, 100> buffer;
  Writer out(buffer);
  ASSERT_TRUE(encode(out, sent));
  ASSERT_EQ(out.size(), 89u);
  const auto read = decode_device(Bytes(buffer).first(89));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, 1);
  EXPECT_EQ(read->device, sent.device);
  EXPECT_EQ(read->size, sent.size);
  EXPECT_EQ(read->handle, sent.handle);
  for (size_t size = 0; size <= buffer.size(); ++size) {
    if (size == 89) continue;
    EXPECT_FALSE(decode_device(Bytes(buffer).first(size)));
  }
}

TEST(WireDevice, NumbersToo) {
  std::array<std::byte, 16> buffer;
  Writer out(buffer);
  ASSERT_TRUE(encode(out, DeviceShared{77}));
  EXPECT_EQ(decode_device_shared(Bytes(buffer).first(10))->number, 77u);
  EXPECT_FALSE(decode_device_shared(Bytes(buffer).first(9)));
  buffer[0] = std::byte{1};  // an error's code
  EXPECT_FALSE(decode_device_shared(Bytes(buffer).first(10)));
  Writer end(buffer);
  ASSERT_TRUE(encode(end, DeviceEnd{5}));
  EXPECT_EQ(decode_device_end(Bytes(buffer).first(8))->number, 5u);
  EXPECT_FALSE(decode_device_end(Bytes(buffer).first(9)));
}

}  // namespace
}  // namespace verbena::native::wire
