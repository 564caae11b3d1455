#include "store/logic/open.h"

#include <algorithm>
#include <array>

#include "base/log.h"
#include "store/logic/keys.h"
#include "store/logic/versions.h"

namespace verbena::store {
namespace {

struct Found {
  ObjectRecord record;
  std::vector<StoredPart> parts;
};

// nullopt: the head changed between the two reads. They are of two moments, which is right: a list of parts never
// changes and has its object's id, which is never reused; and the bytes must exist now, not at an earlier moment.
Result<std::optional<Found>> with_parts(View& rows, const Bucket& bucket, ObjectRecord record) {
  Found found{std::move(record), {}};
  if (found.record.part_count != 0) {
    VB_ASSIGN(auto parts, find_row(rows, Table::uploads, keys::object_parts(found.record.id)));
    if (!parts) return std::nullopt;
    VB_ASSIGN(found.parts, decode_parts_of(found.record, *parts));
    uint64_t stored = 0;
    for (const StoredPart& part : found.parts) {
      found.record.info.parts.push_back(part.info);
      stored += part.blob.size;
    }
    found.record.info.stored_size = stored == found.record.info.size ? 0 : stored;
  }
  name_version(found.record.info, bucket.versioning.load(std::memory_order_acquire));
  return found;
}

Result<ObjectRecord> readable_record(View& rows, const Bucket& bucket, VersionName name) {
  VB_ASSIGN(ObjectRecord record, read_record(rows, bucket, name));
  if (record.info.delete_marker) return fail(Errc::method_not_allowed, "the version is a delete marker");
  return record;
}

// Whether finding the object again costs more than reading a range of it.
bool worth_keeping(const ObjectRecord& record) { return record.part_count != 0 || record.blob.size > 64 * MiB; }

// Everything that a reader's answers depend on besides the parts, which never change.
std::string head_of(const ObjectRecord& record, const Bucket& bucket) {
  return encode(record) + static_cast<char>(bucket.versioning.load(std::memory_order_acquire));
}

constexpr int looks_max = 100;  // overwrites that may come between the look-up and the hold

// Null: some of its bytes were removed before they could be held.
Result<std::shared_ptr<ObjectReader>> hold(Blobs& blobs, View& rows, std::string name, Found found) {
  if (found.record.part_count == 0) {
    const std::array<BlobRef, 1> one = {found.record.blob};
    return blobs.open(rows, std::move(name), std::move(found.record.info), one);
  }
  std::vector<BlobRef> parts;
  parts.reserve(found.parts.size());
  for (const StoredPart& part : found.parts) parts.push_back(part.blob);
  VB_ASSIGN(auto reader, blobs.open(rows, std::move(name), std::move(found.record.info), parts));
  if (!reader) return reader;
  // If the object still exists, all its bytes were held in time.
  VB_ASSIGN(auto again, find_row(rows, Table::uploads, keys::object_parts(found.record.id)));
  if (!again) reader.reset();
  return reader;
}

// Keeps the reader for the next request.
void keep(Blobs& blobs, View& rows, const Bucket& bucket, VersionName name, uint64_t id, std::string head,
          const std::shared_ptr<ObjectReader>& reader) {
  blobs.keep(id, std::move(head), reader);
  // A later removal finds the reader among the kept ones; an earlier one is detected here.
  auto still = read_record(rows, bucket, name);
  if (!still || still->id != id) blobs.let_go(reader);
}

}  // namespace

Result<ObjectInfo> stat_object(View& rows, const Bucket& bucket, VersionName name) {
  for (int i = 0; i < looks_max; ++i) {
    VB_ASSIGN(ObjectRecord record, readable_record(rows, bucket, name));
    VB_ASSIGN(auto found, with_parts(rows, bucket, std::move(record)));
    if (found) return std::move(found->record.info);
  }
  return fail(Errc::corrupt_object, "the object's list of parts is missing");
}

Result<ObjectInfo> stat_version(View& rows, const Bucket& bucket, VersionName name) {
  for (int i = 0; i < looks_max; ++i) {
    VB_ASSIGN(ObjectRecord record, read_newest(rows, bucket, name));
    VB_ASSIGN(auto found, with_parts(rows, bucket, std::move(record)));
    if (found) return std::move(found->record.info);
  }
  return fail(Errc::corrupt_object, "the object's list of parts is missing");
}

Result<std::shared_ptr<ObjectReader>> open_object(Blobs& blobs, View& rows, const Bucket& bucket, VersionName name) {
  for (int i = 0; i < looks_max; ++i) {
    VB_ASSIGN(ObjectRecord record, readable_record(rows, bucket, name));
    const uint64_t id = record.id;
    const bool keeps = worth_keeping(record);
    std::string head = keeps ? head_of(record, bucket) : std::string();
    if (keeps) {
      if (auto kept = blobs.find_kept(id, head)) return kept;
    }
    VB_ASSIGN(auto found, with_parts(rows, bucket, std::move(record)));
    if (!found) continue;
    VB_ASSIGN(auto reader, hold(blobs, rows, bucket.name + "/" + std::string(name.key), std::move(*found)));
    if (!reader) continue;
    if (keeps) keep(blobs, rows, bucket, name, id, std::move(head), reader);
    return reader;
  }
  log::error("store: {}/{} names bytes that are not in the index", bucket.name, log::printable(name.key));
  return fail(Errc::corrupt_object, "the object's bytes are missing from the index");
}

}  // namespace verbena::store
