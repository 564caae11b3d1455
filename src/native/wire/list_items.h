// The items of a LIST's reply, in one of two forms: of version 1, each item whole; from version 10 on what differs from
// the item before it. Layout: docs/native-protocol.md, 3.5.
#pragma once

#include <array>
#include <string_view>

#include "native/wire/bodies.h"

namespace verbena::native::wire {

struct ListItem {
  bool common_prefix = false;  // then it has its key alone
  std::string_view key;
  uint64_t size = 0;
  int64_t modified_us = 0;
  std::string_view etag;
};

inline constexpr size_t list_reply_head_size = 8;

// Writes a reply's body. A page is truncated after an item that does not fit: the client then asks for those after the
// last one here.
class ListWriter {
 public:
  ListWriter(MutableBytes body, unsigned version);
  // False: it does not fit, and was not added. The key may have to be kept: it is copied.
  bool add(const ListItem& item);
  // Forgets all items.
  void restart();
  uint32_t count() const { return count_; }
  // Writes the head. The size of the body, in bytes.
  size_t finish(bool truncated);

 private:
  bool add_short(const ListItem& item);

  MutableBytes body_;
  Writer out_;
  const bool short_;
  uint32_t count_ = 0;
  size_t key_size_ = 0;
  int64_t modified_us_ = 0;
  std::array<char, key_size_max> key_;
};

class ListReader {
 public:
  // nullopt: malformed.
  static std::optional<ListReader> open(Bytes body, unsigned version);

  bool truncated() const { return truncated_; }
  uint32_t left() const { return left_; }
  // False: malformed, or the end. The item's views are valid until the next is read.
  bool next(ListItem& item);
  bool complete() const { return left_ == 0 && in_.complete(); }

 private:
  ListReader(Bytes body, unsigned version);
  bool next_whole(ListItem& item);
  bool next_short(ListItem& item);
  std::string_view short_etag(uint8_t kind);

  Reader in_;
  const bool short_;
  bool truncated_ = false;
  uint32_t left_ = 0;
  size_t key_size_ = 0;
  int64_t modified_us_ = 0;
  std::array<char, key_size_max> key_;
  std::array<char, 34> etag_;
};

}  // namespace verbena::native::wire
