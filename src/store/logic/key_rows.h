// All rows of a bucket, key by key, as they are: what goes from one store to another (transfer.h).
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
    std::vector<StoredPart> parts;  // of an object that has some
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
  // Of two keys that differ in nothing but where their bytes lie it is the same.
  std::string shape() const;
  // Whether that has all of these, as they are but for where their bytes lie.
  bool is_part_of(const KeyRows& whole) const;
};

// The key at one moment. would_block as all looks; what the next run needs has been asked for all at once.
Result<KeyRows> read_key(View& rows, uint64_t bucket, std::string_view key);

// Keys that have any row, in order, from `from` on; a page is of one moment.
struct KeyPage {
  std::vector<std::string> keys;
  bool more = false;
};
Result<KeyPage> list_keys(View& rows, uint64_t bucket, std::string_view from, size_t keys_max);

}  // namespace verbena::store
