// The items of a read batch, in order: those of a GET_MANY or HEAD_MANY message, or the entries of a listing whose
// values are sent. Plain items of a message are read ahead in groups, so that they can be looked up together.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "native/op.h"
#include "native/read_slot.h"
#include "native/wire/batch.h"

namespace verbena::native {

class ItemSource {
 public:
  static constexpr size_t group_max = fabric::Window::writes_max;
  // An item that says nothing but a name and a place.
  struct Plain {
    uint8_t fields = 0, bucket = 0;
    std::string_view key;
    wire::BatchPlace place;
  };

  // Reads a copy of the message. Errors refuse the batch as a whole.
  Result<void> open(const Op& op, Bytes body);
  // The objects of a page, which its sink has: each value right behind the previous one in the client's window.
  void open_listing(const Op& op, std::shared_ptr<const store::ListedObjects> listed, bool truncated);
  void close() { listing_.reset(); }

  // Valid until the next open. A listing has one of its own: its bucket, its window, the details it asked for.
  const wire::BatchHead& head() const { return head_; }
  bool is_listing() const { return listing_.has_value(); }
  // GET or a listing's value, not HEAD.
  bool wants_bytes() const { return wants_bytes_; }
  size_t left() const {
    if (listing_) return listing_->objects->size() - listing_->next;
    return group_.end - group_.next + (has_ahead_ ? 1 : 0) + reader_->left();
  }
  // False at the end; a listing's is where the window is full.
  bool has_next() const { return left() != 0 && (!listing_ || next_value_fits()); }
  // LIST_VALUES: whether another page follows the `answered` leading entries.
  bool has_more_than(size_t answered) const { return listing_->truncated || answered != listing_->objects->size(); }

  // Moves to the next item, and sets the slot's bucket and place; a listing's also its request.
  void next(ReadSlot& slot);
  // The key of the current item of a message. Valid until next().
  std::string_view key() const { return item_.key; }
  // Whether the current item is a plain one, whose request need not be kept for a log or an observer.
  bool is_plain() const { return may_be_plain() && is_plain(item_); }
  // Sets the slot's request to the current item's.
  void fill_request(ReadSlot& slot) const;

  // Whether group() reads: never in a listing, nor where a log or an observer gets each item.
  bool may_group() const { return may_be_plain() && group_.next == group_.end && !has_ahead_; }
  // The plain items that come next, at most group_max; maybe none. Valid until group() or next() is called again.
  std::span<const Plain> group();
  // Moves past the first items of the group. Those left over are returned by next().
  void skip(size_t items) { group_.next += items; }

 private:
  struct Group {
    std::array<Plain, group_max> items;
    std::array<char, 2048> keys;  // the items' keys, concatenated
    size_t next = 0, end = 0, keys_size = 0;
  };
  struct Listing {
    std::shared_ptr<const store::ListedObjects> objects;
    bool truncated = false;
    size_t next = 0;
    uint64_t used = 0;  // of the window
  };

  static bool is_plain(const wire::BatchItem& item) {
    return (item.fields & ~(wire::field_place | wire::field_place_next)) == 0;
  }
  bool may_be_plain() const { return !listing_ && !op_->is_told(); }
  void reset(const Op& op);
  void next_of_message();
  void next_of_listing(ReadSlot& slot);
  bool wants_value(uint64_t size) const;
  bool next_value_fits() const;

  const Op* op_ = nullptr;
  std::vector<std::byte> body_;  // the message; the reader points into it
  std::optional<wire::BatchReader> reader_;
  std::optional<Listing> listing_;
  wire::BatchHead head_;
  wire::BatchItem item_, ahead_;
  bool has_ahead_ = false;  // `ahead_` was read, and comes after the group
  bool wants_bytes_ = true;
  Group group_;
};

}  // namespace verbena::native
