// One item of a read batch, from its being read until its answer is written.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "native/wire/batch.h"
#include "s3/service.h"

namespace verbena::native {

struct ReadSlot {
  s3::GetRequest request;  // unset for a plain item that is in memory
  size_t bucket = 0;       // index in the batch's head
  wire::BatchPlace place;
  std::optional<s3::OpenObject> opened;
  store::ObjectInfo info;  // of a HEAD of an object that is not in memory, or from the listing where `listed_alone`
  Errc code = Errc::ok;
  bool done = false;  // the answer is known
  bool partial = false;
  bool in_reply = false;
  bool listed_alone = false;  // LIST_VALUES: an entry without its value
  bool charged = false;       // rates were charged by what sent the bytes
  uint64_t length = 0;
  std::vector<std::byte> bytes;  // for the reply, while the answer waits; empty: still in the object's memory

  // All but the request, whose strings keep their memory.
  void clear() {
    opened.reset();
    bytes.clear();
    done = partial = in_reply = listed_alone = charged = false;
    code = Errc::ok;
    length = 0;
  }
  void open(s3::OpenObject object) {
    length = object.length;
    partial = object.partial;
    opened.emplace(std::move(object));
  }
  const store::ObjectInfo& object_info() const { return opened ? opened->info() : info; }
};

}  // namespace verbena::native
