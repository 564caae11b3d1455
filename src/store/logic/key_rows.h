// All rows of a bucket, key by key, unchanged: the unit that is copied from one store to another (transfer.h).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "store/catalogue.h"
#include "store/logic/record.h"

namespace verbena::store {

struct KeyRows {
  struct Version {
    ObjectRecord record;
    std::vector<StoredPart> parts;  // of a multipart object
  };
  struct Upload {
    UploadRecord record;  // with its key and id
    std::vector<StoredPart> parts;
  };
  std::optional<Version> current;
  std::vector<Version> older;  // newest first; delete markers, too
  std::optional<uint64_t> null_version;
  std::vector<Upload> uploads;

  bool empty() const { return !current && older.empty() && uploads.empty(); }
  uint64_t id_max() const;
  // Equal for two keys that differ only in where their bytes are stored.
  std::string shape() const;
  // Whether `whole` has all of these rows, the same except for where their bytes are stored.
  bool is_part_of(const KeyRows& whole) const;
};

// The key as of one moment. would_block as all looks; all rows that the next run needs were requested together.
Result<KeyRows> read_key(View& rows, uint64_t bucket, std::string_view key);

// Keys that have any row, in order, from `from` on; a page is as of one moment.
struct KeyPage {
  std::vector<std::string> keys;
  bool more = false;
};
Result<KeyPage> list_keys(View& rows, uint64_t bucket, std::string_view from, size_t keys_max);

}  // namespace verbena::store
