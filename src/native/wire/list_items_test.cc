#include "native/wire/list_items.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace verbena::native::wire {
namespace {

constexpr unsigned versions[] = {1, version_of_short_listings};
constexpr std::string_view md5 = "0123456789abcdef0123456789abcdef";

// An item with its own texts.
struct Kept {
  bool common_prefix = false;
  std::string key;
  uint64_t size = 0;
  int64_t modified_us = 0;
  std::string etag;
  bool operator==(const Kept&) const = default;
};

std::vector<std::byte> written(const std::vector<Kept>& items, unsigned version, bool truncated = false) {
  std::vector<std::byte> body(64 * KiB);
  ListWriter writer(body, version);
  for (const Kept& one : items) {
    const ListItem item{.common_prefix = one.common_prefix,
                        .key = one.key,
                        .size = one.size,
                        .modified_us = one.modified_us,
                        .etag = one.etag};
    EXPECT_TRUE(writer.add(item));
  }
  EXPECT_EQ(writer.count(), items.size());
  body.resize(writer.finish(truncated));
  return body;
}

// Nothing: malformed.
std::optional<std::vector<Kept>> read(Bytes body, unsigned version) {
  auto reader = ListReader::open(body, version);
  if (!reader) return std::nullopt;
  std::vector<Kept> items;
  for (ListItem item; reader->next(item);) {
    items.push_back({item.common_prefix, std::string(item.key), item.size, item.modified_us, std::string(item.etag)});
  }
  if (!reader->complete()) return std::nullopt;
  return items;
}

std::vector<Kept> all_kinds() {
  constexpr int64_t now = 1'796'000'000'000'000;
  std::vector<Kept> items{{.key = "a", .size = 0, .modified_us = now, .etag = std::string(md5)},
                          {.key = "a/1", .size = 255, .modified_us = now - 1, .etag = std::string(md5) + "-r"},
                          {.key = "a/10", .size = 256, .modified_us = now + 1, .etag = std::string(md5) + "-12"},
                          {.common_prefix = true, .key = "a/2/"},
                          {.key = "a/3", .size = 65'536, .modified_us = now + 300, .etag = "0123456789ABCDEF"},
                          {.key = "b", .size = uint64_t{1} << 32, .modified_us = 0, .etag = ""}};
  std::string long_key(key_size_max, 'k');
  items.push_back({.key = long_key, .size = UINT64_MAX, .modified_us = -1, .etag = std::string(255, 'e')});
  long_key.back() = 'l';
  items.push_back({.key = long_key, .modified_us = std::numeric_limits<int64_t>::min(), .etag = std::string(34, 'a')});
  items.push_back({.key = "z", .modified_us = std::numeric_limits<int64_t>::max(), .etag = std::string(32, 'g')});
  return items;
}

TEST(ListItems, AreReadAsTheyWereWritten) {
  for (const unsigned version : versions) {
    const auto body = written(all_kinds(), version, true);
    EXPECT_TRUE(ListReader::open(body, version)->truncated());
    EXPECT_EQ(read(body, version), all_kinds()) << version;
  }
}

TEST(ListItems, AReplyIsExactlyItsItems) {
  for (const unsigned version : versions) {
    auto body = written(all_kinds(), version);
    for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(read(Bytes(body).first(size), version)) << size;
    body.push_back(std::byte{});
    EXPECT_FALSE(read(body, version));
  }
}

TEST(ListItems, ShortOnesHaveOnlyWhatDiffers) {
  std::vector<Kept> items;
  for (int i = 0; i < 100; ++i) {
    items.push_back({.key = "d10/f" + std::to_string(10'000'000 + i),
                     .size = 4096,
                     .modified_us = 1'796'000'000'000'000 + 40 * i,
                     .etag = std::string(md5) + "-r"});
  }
  EXPECT_LE(written(items, version_of_short_listings).size(), list_reply_head_size + 25 * items.size() + 10);
  EXPECT_GE(written(items, 1).size(), 67 * items.size());
}

// docs/native-protocol.md
TEST(ListItems, ShortOnesAreTheseBytes) {
  const std::vector<Kept> items{{.key = "a/1", .size = 256, .modified_us = 2, .etag = std::string(md5)},
                                {.key = "a/2", .size = 1, .modified_us = 1, .etag = "e"},
                                {.common_prefix = true, .key = "a/b/"}};
  EXPECT_EQ(to_hex(written(items, version_of_short_listings)),
            "0000"
            "0000"
            "03000000"
            "14"
            "00"
            "03"
            "612f31"
            "0001"
            "04"
            "0123456789abcdef0123456789abcdef"
            "00"
            "02"
            "01"
            "32"
            "01"
            "01"
            "0165"
            "01"
            "02"
            "02"
            "622f");
}

TEST(ListItems, MalformedShortOnesAreRefused) {
  const auto is_read = [](std::string_view items, uint32_t count) {
    const auto raw = from_hex(std::string("0000000000000000") + std::string(items));
    auto body = *raw;
    body[4] = static_cast<std::byte>(count);
    return read(body, version_of_short_listings).has_value();
  };
  EXPECT_TRUE(
      is_read("00"
              "00"
              "01"
              "61"
              "01"
              "00"
              "0165",
              1));
  EXPECT_TRUE(
      is_read("50"
              "00"
              "01"
              "61"
              "0100"
              "0000"
              "0165",
              1))
      << "wider than it must be";
  EXPECT_FALSE(
      is_read("00"
              "01"
              "01"
              "61"
              "01"
              "00"
              "0165",
              1))
      << "shares what was not there";
  EXPECT_FALSE(
      is_read("0c"
              "00"
              "01"
              "61"
              "01"
              "00"
              "0123456789abcdef0123456789abcdef",
              1))
      << "two forms of ETag";
  EXPECT_TRUE(
      is_read("01"
              "00"
              "01"
              "61",
              1));
  for (const char* const kind : {"05", "09", "11", "41"}) {
    EXPECT_FALSE(is_read(std::string(kind) + "00"
                                             "01"
                                             "61",
                         1))
        << "a common prefix with more than its name: " << kind;
  }
  const std::string longest =
      "03"
      "0000"
      "0004" +
      std::string(2 * key_size_max, '6');
  EXPECT_TRUE(is_read(longest, 1));
  EXPECT_FALSE(is_read(longest + "03"
                                 "0004"
                                 "0100"
                                 "61",
                       2))
      << "a name that is too long";
  EXPECT_FALSE(ListReader::open(*from_hex("00000000e9030000"), version_of_short_listings)) << "1,001 items";
}

TEST(ListItems, WhatDoesNotFitIsLeftOut) {
  const std::vector<Kept> items = all_kinds();
  for (const unsigned version : versions) {
    const auto whole = written(items, version);
    for (size_t room = list_reply_head_size; room <= whole.size(); ++room) {
      std::vector<std::byte> body(room);
      ListWriter writer(body, version);
      size_t added = 0;
      while (added < items.size()) {
        const Kept& one = items[added];
        if (!writer.add({one.common_prefix, one.key, one.size, one.modified_us, one.etag})) break;
        ++added;
      }
      body.resize(writer.finish(true));
      const auto found = read(body, version);
      ASSERT_TRUE(found) << room;
      EXPECT_EQ(*found, std::vector<Kept>(items.begin(), items.begin() + static_cast<ptrdiff_t>(added)));
      EXPECT_EQ(added == items.size(), room == whole.size());
    }
  }
}

TEST(ListItems, AWriterBeginsAnew) {
  std::vector<std::byte> body(1000);
  for (const unsigned version : versions) {
    ListWriter writer(body, version);
    ASSERT_TRUE(writer.add({.key = "a/1", .size = 1, .modified_us = 5, .etag = "e"}));
    writer.restart();
    ASSERT_TRUE(writer.add({.key = "a/2", .size = 2, .modified_us = 6, .etag = "f"}));
    const auto found = read(Bytes(body).first(writer.finish(false)), version);
    EXPECT_EQ(found, (std::vector<Kept>{{.key = "a/2", .size = 2, .modified_us = 6, .etag = "f"}}));
  }
}

}  // namespace
}  // namespace verbena::native::wire
