#include "native/wire/list_values.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::native::wire {
namespace {

ValueEntry value_of(std::string_view key, uint64_t size, uint64_t offset) {
  ValueEntry value;
  value.key = key;
  value.entry.length = value.entry.object_size = size;
  value.entry.etag = "etag";
  value.offset = offset;
  return value;
}

std::vector<std::byte> page_of(const std::vector<ValueEntry>& values, bool more = true) {
  std::vector<std::byte> space(16 * KiB);
  Writer out(space);
  encode_list_values_head(out, more, detail_etag | detail_size, static_cast<uint16_t>(values.size()));
  ValueWriter writer(out, detail_etag | detail_size);
  for (const ValueEntry& value : values) EXPECT_TRUE(writer.add(value));
  space.resize(out.size());
  return space;
}

bool reads_whole(Bytes body) {
  auto reader = ValueReader::open(body);
  if (!reader) return false;
  ValueEntry value;
  while (reader->left() != 0) {
    if (!reader->next(value)) return false;
  }
  return reader->complete();
}

TEST(ListValuesWire, ARequestSurvivesTheWireAndNoPartOfItIsOne) {
  std::vector<std::byte> space(256);
  Writer out(space);
  const ListValues request{.window = {1, 2, 3},
                           .value_size_max = uint64_t{1} << 40,
                           .max_keys = 7,
                           .details = details_all,
                           .bucket = "bucket",
                           .prefix = "a/",
                           .after = "a/b"};
  ASSERT_TRUE(encode(out, request));
  const Bytes body = Bytes(space).first(out.size());
  const auto back = decode_list_values(body);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->window.key, 3u);
  EXPECT_EQ(back->value_size_max, uint64_t{1} << 40);
  EXPECT_EQ(back->max_keys, 7u);
  EXPECT_EQ(back->prefix, "a/");
  EXPECT_EQ(back->after, "a/b");
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(decode_list_values(body.first(size))) << size;
  EXPECT_FALSE(decode_list_values(Bytes(space).first(out.size() + 1)));
  space[36] = std::byte{0xf0};
  EXPECT_FALSE(decode_list_values(body)) << "details that do not exist";
}

TEST(ListValuesWire, APageSurvivesTheWire) {
  std::vector<ValueEntry> values{value_of("a/long/prefix/1", 5, 0), value_of("a/long/prefix/2", 1'000'000, 0),
                                 value_of("a/long/prefix/3", 0, 0), value_of("b", 7, 5)};
  values[1].entry.listed_alone = true;
  values[2].entry.code = Errc::access_denied;
  const auto body = page_of(values);
  auto reader = ValueReader::open(body);
  ASSERT_TRUE(reader);
  EXPECT_TRUE(reader->more());
  ValueEntry back;
  for (const ValueEntry& value : values) {
    ASSERT_TRUE(reader->next(back));
    EXPECT_EQ(back.key, value.key);
    EXPECT_EQ(back.entry.code, value.entry.code);
    EXPECT_EQ(back.entry.listed_alone, value.entry.listed_alone);
    EXPECT_EQ(back.offset, value.offset);
  }
  EXPECT_TRUE(reader->complete());
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(reads_whole(Bytes(body).first(size))) << size;
}

TEST(ListValuesWire, CountsAndPrefixesThatLieAreMalformed) {
  auto body = page_of({value_of("ab", 1, 0), value_of("abc", 1, 1)});
  for (const uint16_t count : {0, 1, 3, 1001, 65535}) {
    auto lying = body;
    lying[4] = static_cast<std::byte>(count);
    lying[5] = static_cast<std::byte>(count >> 8);
    EXPECT_FALSE(reads_whole(lying)) << count;
  }
  body[list_values_head_size] = std::byte{1};  // shares a byte with a missing key
  EXPECT_FALSE(reads_whole(body));
}

TEST(ListValuesWire, BytesInTheReplyAreMalformed) {
  ValueEntry value = value_of("a", 5, 0);
  value.entry.in_reply = true;
  EXPECT_FALSE(reads_whole(page_of({value})));
}

}  // namespace
}  // namespace verbena::native::wire
