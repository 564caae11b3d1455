// Changes of the index that become visible together.
#pragma once

#include <rocksdb/utilities/write_batch_with_index.h>
#include <rocksdb/write_batch.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/local/index.h"

namespace verbena::store::local {

// Reads through it see its changes. It belongs to one thread.
//
// RocksDB has this, too (WriteBatchWithIndex), but orders all changes, which costs a PUT of a small object as much as
// writing them; here changes are found by hash, and sorted only when a cursor needs their range.
class Batch {
 public:
  explicit Batch(Index& index) : index_(index) {}
  void put(Family family, std::string_view key, std::string_view value);
  void erase(Family family, std::string_view key);
  // put() for rows that are never read through this batch: they are not indexed.
  void put_unread(Family family, std::string_view key, std::string_view value);
  void erase_unread(Family family, std::string_view key);
  Result<std::string> get(Family family, std::string_view key);  // not_found
  Cursor cursor(Family family, std::string prefix);              // does not see changes made after this call
  void save();                                                   // start of a part that may be rolled back
  void roll_back();                                              // to the last save()
  // Reserves about as many bytes, so that the batch need not be moved as it grows. On an empty batch.
  void expect(size_t bytes);
  bool empty() const { return changes_ == 0; }
  size_t changes() const { return changes_; }

 private:
  friend class Index;
  static constexpr uint32_t none = UINT32_MAX;
  // A change, in order of arrival. Its key and its value are in text_, up to where the next row's begin.
  struct Row {
    Family family;
    bool erased;
    uint32_t hash;
    uint32_t before;  // the next older row of the same place in newest_
    size_t key_at, value_at;
  };
  void note(Family family, std::string_view key, const std::string_view* value);
  void link(uint32_t row);
  const Row* find(Family family, std::string_view key) const;
  std::string_view key_of(const Row& row) const;
  std::string_view value_of(const Row& row) const;

  // The rows of one family in order, up to one.
  struct Ordered {
    std::shared_ptr<rocksdb::WriteBatchWithIndex> rows;
    size_t seen = 0;  // of rows_
  };

  Index& index_;
  rocksdb::WriteBatch batch_;
  std::vector<Row> rows_;
  std::string text_;
  std::array<Ordered, family_count> ordered_;
  std::vector<uint32_t> newest_;  // a row for each place, whose number is a hash's lower bits
  size_t changes_ = 0, saved_changes_ = 0, saved_rows_ = 0;
  std::array<uint32_t, family_count> removals_{};  // includes removals that were rolled back
};

}  // namespace verbena::store::local
