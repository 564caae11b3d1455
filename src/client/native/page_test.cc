#include "client/native/page.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace verbena::client {
namespace {

namespace wire = native::wire;

std::vector<std::byte> reply(unsigned version, const std::vector<std::string>& keys, bool truncated) {
  std::vector<std::byte> body(16 * KiB);
  wire::ListWriter writer(body, version);
  int64_t number = 0;
  for (const std::string& key : keys) {
    ++number;
    EXPECT_TRUE(writer.add({.common_prefix = key.ends_with('/'),
                            .key = key,
                            .size = static_cast<uint64_t>(number),
                            .modified_us = number,
                            .etag = "e"}));
  }
  body.resize(writer.finish(truncated));
  return body;
}

// A server of version 9 sends the older form.
TEST(NativePage, HasTheItemsOfItsRepliesInBothForms) {
  for (const unsigned version : {1u, wire::version_of_short_listings - 1, wire::version_of_short_listings}) {
    NativePage page;
    ASSERT_TRUE(page.add(reply(version, {"a/1", "a/2"}, true), version));
    EXPECT_EQ(page.next_after(), "a/2");
    ASSERT_TRUE(page.add(reply(version, {"b/", "c"}, false), version));
    EXPECT_FALSE(page.truncated());
    EXPECT_TRUE(page.next_after().empty());
    ASSERT_EQ(page.items(), 4u);
    std::string seen;
    page.each([&](const wire::ListItem& item) {
      seen.append(item.key).append(item.common_prefix ? " prefix" : " " + std::to_string(item.size)).append(";");
      return true;
    });
    EXPECT_EQ(seen, "a/1 1;a/2 2;b/ prefix;c 2;");
    size_t visits = 0;
    page.each([&](const wire::ListItem&) { return ++visits < 2; });
    EXPECT_EQ(visits, 2u);
  }
}

TEST(NativePage, RefusesWhatIsMalformed) {
  constexpr unsigned version = wire::version_of_short_listings;
  const auto body = reply(version, {"a", "b"}, false);
  for (size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(NativePage().add(Bytes(body).first(size), version));
  EXPECT_FALSE(NativePage().add(reply(version, {}, true), version)) << "it would be asked for without an end";
  EXPECT_TRUE(NativePage().add(reply(version, {}, false), version));
}

}  // namespace
}  // namespace verbena::client
