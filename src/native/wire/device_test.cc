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

TEST(WireDevice, HipsHandleIsOfAKindOfItsOwn) {
  Device sent{.kind = device_by_hip_handle, .size = 7};
  sent.handle.fill(std::byte{3});
  std::array<std::byte, 89> buffer;
  Writer out(buffer);
  ASSERT_TRUE(encode(out, sent));
  const auto read = decode_device(buffer);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, 3);
  EXPECT_EQ(read->handle, sent.handle);
}

TEST(WireDevice, PiecesAddUpToTheSize) {
  Device sent{
      .kind = device_by_pieces, .size = 6'000'000, .handed_over = 77, .pieces = {1'000'000, 2'000'000, 3'000'000}};
  sent.device.fill(std::byte{5});
  std::array<std::byte, 100> buffer;
  const auto written = [&](const Device& request) {
    Writer out(buffer);
    EXPECT_TRUE(encode(out, request));
    return Bytes(buffer).first(out.size());
  };
  const Bytes bytes = written(sent);
  ASSERT_EQ(bytes.size(), 55u);
  const auto read = decode_device(bytes);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->kind, device_by_pieces);
  EXPECT_EQ(read->device, sent.device);
  EXPECT_EQ(read->size, sent.size);
  EXPECT_EQ(read->handed_over, 77u);
  EXPECT_EQ(read->pieces, sent.pieces);
  for (size_t size = 0; size <= buffer.size(); ++size) {
    if (size == 55) continue;
    EXPECT_FALSE(decode_device(Bytes(buffer).first(size)));
  }
  for (const std::vector<uint64_t>& pieces : std::vector<std::vector<uint64_t>>{
           {}, {6'000'001}, {5'999'999}, {0, 6'000'000}, {UINT64_MAX, 6'000'001}, {6'000'000, UINT64_MAX}}) {
    EXPECT_FALSE(decode_device(written({.kind = device_by_pieces, .size = 6'000'000, .pieces = pieces})));
    EXPECT_FALSE(decode_device(written({.kind = device_by_hip_pieces, .size = 6'000'000, .pieces = pieces})));
  }
  sent.kind = device_by_hip_pieces;
  const auto hips = decode_device(written(sent));
  ASSERT_TRUE(hips);
  EXPECT_EQ(hips->kind, 4);
  EXPECT_TRUE(hips->in_pieces() && hips->of_hip());
  EXPECT_EQ(hips->pieces, sent.pieces);
}

TEST(WireDevice, PiecesAreFew) {
  std::vector<std::byte> buffer(2000);
  for (const size_t count : {device_pieces_max, device_pieces_max + 1}) {
    Writer out(buffer);
    ASSERT_TRUE(
        encode(out, Device{.kind = device_by_pieces, .size = count, .pieces = std::vector<uint64_t>(count, 1)}));
    EXPECT_EQ(decode_device(Bytes(buffer).first(out.size())).has_value(), count == device_pieces_max);
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
