#include "native/wire/batch.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace verbena::native::wire {
namespace {

struct Named {
  std::string key;
  BatchItem item;
};

std::vector<std::byte> encoded(Type type, const BatchHead& head, std::vector<Named>& items) {
  std::vector<std::byte> space(128 * KiB);
  Writer out(space);
  BatchWriter batch(out, type);
  EXPECT_TRUE(batch.begin(head));
  for (Named& named : items) {
    named.item.key = named.key;
    EXPECT_TRUE(batch.add(named.item));
  }
  batch.finish();
  space.resize(out.size());
  return space;
}

BatchHead head_of(uint64_t window_size = 1 << 20) {
  BatchHead head;
  head.details = detail_etag | detail_size;
  head.windows.add({4096, window_size, 7});
  head.buckets.add("bucket");
  head.buckets.add("other");
  return head;
}

// The keys of the whole batch, or nothing when it is malformed.
std::optional<std::vector<std::string>> keys_of(Bytes body, Type type) {
  auto reader = BatchReader::open(body, type);
  if (!reader) return std::nullopt;
  std::vector<std::string> keys;
  BatchItem item;
  while (reader->left() != 0) {
    if (!reader->next(item)) return std::nullopt;
    keys.emplace_back(item.key);
  }
  if (!reader->complete()) return std::nullopt;
  return keys;
}

TEST(Batch, ItemsSurviveTheWireAndSharedPrefixesAreSentOnce) {
  std::mt19937 random(1);
  std::vector<Named> items;
  for (size_t i = 0; i < 500; ++i) {
    Named named{"some/long/prefix/that/all/of/them/have/" + std::to_string(i / 7), {}};
    if (i % 100 == 99) named.key = std::string(1 + random() % key_size_max, 'x');
    named.item.fields = field_place;
    named.item.bucket = static_cast<uint8_t>(i % 2);
    named.item.place = {0, i * 100, 100};
    if (i % 3 == 0) {
      named.item.fields |= field_range;
      named.item.range = {i, i + random() % 1000};
    }
    if (i % 5 == 0) named.item.fields |= field_version, named.item.version = "v1";
    if (i % 7 == 0) named.item.fields |= field_if_match, named.item.if_match = "etag";
    if (i % 11 == 0) named.item.fields |= field_if_none_match, named.item.if_none_match = "*";
    items.push_back(std::move(named));
  }
  const auto body = encoded(Type::get_many, head_of(), items);
  EXPECT_LT(body.size(), 500 * 40u) << "every key was sent whole";
  auto reader = BatchReader::open(body, Type::get_many);
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->head().buckets[1], "other");
  EXPECT_EQ(reader->head().windows[0].base, 4096u);
  BatchItem back;
  for (const Named& named : items) {
    ASSERT_TRUE(reader->next(back));
    EXPECT_EQ(back.key, named.key);
    EXPECT_EQ(back.bucket, named.item.bucket);
    EXPECT_EQ(back.place.offset, named.item.place.offset);
    EXPECT_EQ(back.place.size, named.item.place.size);
    EXPECT_EQ(back.has(field_range), named.item.has(field_range));
    if (back.has(field_range)) {
      EXPECT_EQ(back.range.last, named.item.range.last);
    }
    EXPECT_EQ(back.version, named.item.version);
    EXPECT_EQ(back.if_match, named.item.if_match);
    EXPECT_EQ(back.if_none_match, named.item.if_none_match);
  }
  EXPECT_TRUE(reader->complete());
}

TEST(Batch, APutBringsHeadersAChecksumAndItsBytes) {
  std::vector<Named> items(2);
  items[0].key = "a";
  items[0].item.fields = field_stored | field_inline;
  items[0].item.expected = ChecksumView{Algorithm::crc32c, 0, "1234"};
  items[0].item.headers.add({"content-type", "text/plain"});
  items[0].item.inline_bytes = as_bytes("hello");
  items[1].key = "ab";
  items[1].item.fields = field_inline | field_if_none_match;
  items[1].item.if_none_match = "*";
  const auto body = encoded(Type::put_many, head_of(), items);
  auto reader = BatchReader::open(body, Type::put_many);
  ASSERT_TRUE(reader);
  BatchItem item;
  ASSERT_TRUE(reader->next(item));
  EXPECT_EQ(as_text(item.inline_bytes), "hello");
  ASSERT_TRUE(item.expected);
  EXPECT_EQ(item.expected->value, "1234");
  ASSERT_EQ(item.headers.count, 1u);
  EXPECT_EQ(item.headers[0].value, "text/plain");
  ASSERT_TRUE(reader->next(item));
  EXPECT_EQ(item.key, "ab");
  EXPECT_TRUE(item.inline_bytes.empty());
  EXPECT_EQ(item.headers.count, 0u) << "of the item before";
  EXPECT_TRUE(reader->complete());
}

TEST(Batch, NoPrefixOfABatchIsOneAndNoneWithAByteMore) {
  for (const Type type : {Type::get_many, Type::head_many, Type::delete_many}) {
    std::vector<Named> items;
    for (int i = 0; i < 5; ++i) items.push_back({"key" + std::to_string(i), {}});
    BatchHead head = head_of();
    if (type != Type::get_many) head.windows.count = 0;
    auto body = encoded(type, head, items);
    ASSERT_TRUE(keys_of(body, type));
    for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(keys_of(Bytes(body).first(size), type)) << size;
    body.push_back(std::byte{0});
    EXPECT_FALSE(keys_of(body, type));
  }
}

TEST(Batch, CountsThatLieAreMalformed) {
  std::vector<Named> items;
  for (int i = 0; i < 3; ++i) items.push_back({"key" + std::to_string(i), {}});
  const auto body = encoded(Type::get_many, head_of(), items);
  for (const uint16_t count : {0, 1, 2, 4, 4097, 65535}) {
    auto lying = body;
    lying[1] = static_cast<std::byte>(count);
    lying[2] = static_cast<std::byte>(count >> 8);
    EXPECT_FALSE(keys_of(lying, Type::get_many)) << count;
  }
}

TEST(Batch, APlaceOutsideItsWindowIsMalformed) {
  const BatchPlace places[] = {{0, 4096, 1}, {0, 4095, 2}, {0, ~uint64_t{0}, 2}, {0, 0, ~uint64_t{0}}, {1, 0, 1}};
  for (const BatchPlace& place : places) {
    std::vector<Named> items(1);
    items[0].key = "k";
    items[0].item.fields = field_place;
    items[0].item.place = place;
    EXPECT_FALSE(keys_of(encoded(Type::get_many, head_of(4096), items), Type::get_many)) << place.offset;
  }
  // Including an item whose place follows the previous one.
  std::vector<Named> items(3);
  for (size_t i = 0; i < 3; ++i) {
    items[i].key = "k";
    items[i].item.fields = field_place;
    items[i].item.place = {0, i * 2000, 2000};
  }
  EXPECT_FALSE(keys_of(encoded(Type::get_many, head_of(4096), items), Type::get_many));
  items.pop_back();
  EXPECT_TRUE(keys_of(encoded(Type::get_many, head_of(4096), items), Type::get_many));
}

TEST(Batch, FieldsOfOtherVerbsAreMalformed) {
  for (const Type type : {Type::get_many, Type::head_many, Type::put_many, Type::delete_many}) {
    for (int bit = 0; bit < 8; ++bit) {
      const auto field = static_cast<uint8_t>(1 << bit);
      if ((batch_fields(type) & field) != 0) continue;
      std::vector<Named> items(1);
      items[0].key = "k";
      items[0].item.fields = field;
      BatchHead head = head_of();
      if (type == Type::head_many || type == Type::delete_many) head.windows.count = 0;
      auto body = encoded(type, head, items);
      // The writer sets this field itself.
      if (field == field_place_next) body[body.size() - 7] = std::byte{field};
      EXPECT_FALSE(keys_of(body, type)) << static_cast<int>(type) << " " << bit;
    }
  }
}

TEST(Batch, AnswersSurviveTheWire) {
  std::vector<std::byte> space(4096);
  Writer out(space);
  encode_batch_reply_head(out, details_all, 3);
  BatchEntry entry;
  entry.length = 5;
  entry.object_size = 100;
  entry.modified_us = -7;
  entry.etag = "etag";
  entry.version = "v";
  entry.checksum = ChecksumView{Algorithm::crc32c, 0, "abcd"};
  entry.partial = entry.in_reply = true;
  EXPECT_TRUE(encode(out, entry, details_all));
  out.text("hello");
  EXPECT_TRUE(encode(out, {.code = Errc::no_such_key}, details_all));
  EXPECT_TRUE(encode(out, {.length = 9}, details_all));
  auto reply = decode_batch_reply(Bytes(space).first(out.size()));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->answered, 3u);
  BatchEntry back;
  ASSERT_TRUE(next_entry(*reply, back));
  EXPECT_EQ(as_text(back.inline_bytes), "hello");
  EXPECT_EQ(back.etag, "etag");
  EXPECT_EQ(back.modified_us, -7);
  EXPECT_TRUE(back.partial && back.checksum && back.checksum->value == "abcd");
  ASSERT_TRUE(next_entry(*reply, back));
  EXPECT_EQ(back.code, Errc::no_such_key);
  EXPECT_TRUE(back.etag.empty());
  ASSERT_TRUE(next_entry(*reply, back));
  EXPECT_EQ(back.length, 9u);
  EXPECT_FALSE(next_entry(*reply, back));
}

}  // namespace
}  // namespace verbena::native::wire
