#include "store/logic/record.h"

#include "store/ends.h"
#include "store/logic/codec.h"

namespace verbena::store {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

void put(Encoder& e, const Headers& headers) {
  e.varint(headers.size());
  for (const auto& [name, value] : headers) {
    e.text(name);
    e.text(value);
  }
}

// `begin` gets the number of elements, `each` their fields as views of what is decoded.
template <class Begin, class Each>
void each_pair(Decoder& d, const Begin& begin, const Each& each) {
  size_t left = d.count(2);
  begin(left);
  for (; left != 0; --left) {
    const std::string_view name = d.view();
    each(name, d.view());
  }
}

template <class Begin, class Each>
void each_checksum(Decoder& d, const Begin& begin, const Each& each) {
  size_t left = d.count(3);
  begin(left);
  for (; left != 0; --left) {
    const uint8_t algorithm = d.u8();
    if (!is_algorithm(algorithm)) d.reject();
    const auto parts = static_cast<uint16_t>(d.varint_max(UINT16_MAX));
    each(static_cast<Algorithm>(algorithm), parts, d.view());
  }
}

Headers get_headers(Decoder& d) {
  Headers headers;
  each_pair(
      d, [&](size_t count) { headers.reserve(count); },
      [&](std::string_view name, std::string_view value) { headers.emplace_back(name, value); });
  return headers;
}

void put(Encoder& e, const ObjectLock& lock) {
  e.u8(static_cast<uint8_t>(lock.mode));
  e.varint(static_cast<uint64_t>(lock.retain_until_us));
  e.u8(lock.legal_hold ? 1 : 0);
}

ObjectLock get_lock(Decoder& d) {
  ObjectLock lock;
  lock.mode = d.enumerator(LockMode::compliance);
  lock.retain_until_us = static_cast<int64_t>(d.varint());
  lock.legal_hold = d.flag();
  return lock;
}

void put(Encoder& e, const std::vector<Checksum>& checksums) {
  e.varint(checksums.size());
  for (const Checksum& c : checksums) {
    e.u8(static_cast<uint8_t>(c.algorithm));
    e.varint(c.parts);
    e.text(c.value);
  }
}

std::vector<Checksum> get_checksums(Decoder& d) {
  std::vector<Checksum> checksums;
  each_checksum(
      d, [&](size_t count) { checksums.reserve(count); },
      [&](Algorithm algorithm, uint16_t parts, std::string_view value) {
        checksums.push_back({algorithm, std::string(value), parts});
      });
  return checksums;
}

void put(Encoder& e, const BlobRef& blob) {
  e.u8(static_cast<uint8_t>(blob.kind));
  e.varint(blob.id);
  e.varint(blob.size);
}

BlobRef get_blob(Decoder& d) {
  BlobRef blob;
  uint8_t kind = d.u8();
  if (kind > static_cast<uint8_t>(BlobKind::extents)) d.reject();
  blob.kind = static_cast<BlobKind>(kind);
  blob.id = d.varint();
  blob.size = d.varint_max(stored_size_max);
  if ((blob.kind == BlobKind::empty) != (blob.size == 0)) d.reject();
  return blob;
}

// The stored bytes may be more than the bytes that clients see, never fewer.
uint64_t check_stored_size(Decoder& d, const BlobRef& blob, uint64_t size) {
  if (blob.size < size) d.reject();
  return blob.size == size ? 0 : blob.size;
}

void put(Encoder& e, const StoredPart& part) {
  e.varint(static_cast<uint64_t>(part.info.number));
  e.varint(part.info.size);
  e.text(part.info.etag);
  e.varint(static_cast<uint64_t>(part.info.modified_us));
  put(e, part.info.checksums);
  put(e, part.blob);
  put(e, part.info.attributes);
}

StoredPart get_part(Decoder& d) {
  StoredPart part;
  part.info.number = static_cast<int>(d.varint_max(part_number_max));
  part.info.size = d.varint_max(object_size_max);
  part.info.etag = d.text();
  part.info.modified_us = static_cast<int64_t>(d.varint());
  part.info.checksums = get_checksums(d);
  part.blob = get_blob(d);
  part.info.stored_size = check_stored_size(d, part.blob, part.info.size);
  if (d.format() >= format_version_3) part.info.attributes = get_headers(d);
  return part;
}

// Reads a head. `to` keeps what it wants of the fields, which are views of what is decoded.
template <class To>
void read_head(Decoder& d, To to) {
  const auto lists = [&to](auto list) { return [&to, list](size_t count) { to.expect(list, count); }; };
  const auto pairs = [&](auto list) {
    each_pair(d, lists(list), [&](std::string_view name, std::string_view value) { to.pair(list, name, value); });
  };
  to.id(d.varint());
  const uint64_t size = d.varint_max(object_size_max);
  to.size(size);
  to.etag(d.view());
  to.modified_us(static_cast<int64_t>(d.varint()));
  to.version_id(d.view());
  pairs(&ObjectInfo::headers);
  each_checksum(d, lists(&ObjectInfo::checksums), [&](Algorithm algorithm, uint16_t parts, std::string_view value) {
    to.checksum(algorithm, parts, value);
  });
  if (d.format() >= format_version_2) {
    to.delete_marker(d.flag());
    pairs(&ObjectInfo::tags);
    to.lock(get_lock(d));
  }
  if (d.format() >= format_version_3) pairs(&ObjectInfo::attributes);
  const auto part_count = static_cast<uint32_t>(d.varint_max(part_number_max));
  to.part_count(part_count);
  if (part_count != 0) return;
  const BlobRef blob = get_blob(d);
  to.blob(blob, check_stored_size(d, blob, size));
}

struct InfoOfHead {
  ObjectInfo& info;
  void id(uint64_t) {}
  void size(uint64_t size) { info.size = size; }
  void etag(std::string_view etag) { info.etag = etag; }
  void modified_us(int64_t us) { info.modified_us = us; }
  void version_id(std::string_view id) { info.version_id = id; }
  void expect(auto list, size_t count) {
    if (count != 0) (info.*list).reserve(count);
  }
  void pair(auto list, std::string_view name, std::string_view value) { (info.*list).emplace_back(name, value); }
  void checksum(Algorithm algorithm, uint16_t parts, std::string_view value) {
    info.checksums.push_back({algorithm, std::string(value), parts});
  }
  void delete_marker(bool is) { info.delete_marker = is; }
  void lock(const ObjectLock& lock) { info.lock = lock; }
  void part_count(uint32_t) {}
  void blob(const BlobRef&, uint64_t) {}
};

struct BriefOfHead {
  BriefHead& head;
  const WantedOfHeads& wanted;
  void id(uint64_t) {}
  void size(uint64_t size) { head.size = size; }
  void etag(std::string_view etag) { head.etag = etag; }
  void modified_us(int64_t us) { head.modified_us = us; }
  void version_id(std::string_view) {}
  void expect(auto, size_t) {}
  void pair(auto list, std::string_view name, std::string_view value) {
    const bool is_header = list == &ObjectInfo::headers;
    head.may_end |= name == expires_header;
    if (is_header && name == wanted.header) head.header = value;
    if (!is_header && list == &ObjectInfo::attributes && name == wanted.attribute) head.attribute = value;
  }
  void checksum(Algorithm algorithm, uint16_t parts, std::string_view) {
    if (head.algorithm_count == 0) head.composite = parts != 0;
    if (head.algorithm_count < head.algorithms.size()) head.algorithms[head.algorithm_count++] = algorithm;
  }
  void delete_marker(bool) {}
  void lock(const ObjectLock&) {}
  void part_count(uint32_t) {}
  void blob(const BlobRef&, uint64_t) {}
};

struct WholeHead : InfoOfHead {
  ObjectRecord& record;
  void id(uint64_t id) { record.id = id; }
  void part_count(uint32_t count) { record.part_count = count; }
  void blob(const BlobRef& blob, uint64_t stored_size) {
    record.blob = blob;
    record.info.stored_size = stored_size;
  }
};

}  // namespace

std::string encode(const ObjectRecord& record) {
  constexpr size_t usual_size = 160;
  Encoder e(format_version_3, usual_size);
  e.varint(record.id);
  e.varint(record.info.size);
  e.text(record.info.etag);
  e.varint(static_cast<uint64_t>(record.info.modified_us));
  e.text(record.info.version_id);
  put(e, record.info.headers);
  put(e, record.info.checksums);
  e.u8(record.info.delete_marker ? 1 : 0);
  put(e, record.info.tags);
  put(e, record.info.lock);
  put(e, record.info.attributes);
  e.varint(record.part_count);
  if (record.part_count == 0) put(e, record.blob);
  return e.take();
}

Result<ObjectRecord> decode_object(std::string_view bytes) {
  Decoder d(bytes, format_version_3);
  ObjectRecord record;
  read_head(d, WholeHead{{record.info}, record});
  return finished(d, std::move(record));
}

Result<void> decode_info(std::string_view bytes, ObjectInfo& info) {
  Decoder d(bytes, format_version_3);
  read_head(d, InfoOfHead{info});
  return d.finish();
}

// Flat: most fields are one byte, and a call for each would cost more than its reading.
[[gnu::flatten]] Result<BriefHead> decode_brief(std::string_view bytes, const WantedOfHeads& wanted) {
  Decoder d(bytes, format_version_3);
  BriefHead head;
  read_head(d, BriefOfHead{head, wanted});
  return finished(d, head);
}

std::string encode(const StoredPart& part) {
  Encoder e(format_version_3);
  put(e, part);
  return e.take();
}

Result<StoredPart> decode_part(std::string_view bytes) {
  Decoder d(bytes, format_version_3);
  StoredPart part = get_part(d);
  return finished(d, std::move(part));
}

std::string encode(const std::vector<StoredPart>& parts) {
  Encoder e(format_version_3);
  e.varint(parts.size());
  for (const StoredPart& part : parts) put(e, part);
  return e.take();
}

Result<std::vector<StoredPart>> decode_parts(std::string_view bytes) {
  Decoder d(bytes, format_version_3);
  size_t n = d.count(8);
  std::vector<StoredPart> parts;
  for (size_t i = 0; i < n && d.ok(); ++i) parts.push_back(get_part(d));
  return finished(d, std::move(parts));
}

Result<std::vector<StoredPart>> decode_parts_of(const ObjectRecord& object, std::string_view bytes) {
  VB_ASSIGN(auto parts, decode_parts(bytes));
  if (parts.size() == object.part_count) return parts;
  return fail(Errc::corrupt_object, "the list of parts is another object's");
}

std::string encode(const UploadRecord& record) {
  Encoder e(format_version_3);
  e.varint(record.id);
  e.varint(static_cast<uint64_t>(record.info.created_us));
  e.text(record.info.owner);
  put(e, record.info.headers);
  e.u8(record.info.checksum_algorithm ? static_cast<uint8_t>(*record.info.checksum_algorithm) : 0);
  e.u8(record.info.checksum_full_object ? 1 : 0);
  put(e, record.info.tags);
  put(e, record.info.lock);
  put(e, record.info.attributes);
  return e.take();
}

Result<UploadRecord> decode_upload(std::string_view bytes) {
  Decoder d(bytes, format_version_3);
  UploadRecord record;
  record.id = d.varint();
  record.info.created_us = static_cast<int64_t>(d.varint());
  record.info.owner = d.text();
  record.info.headers = get_headers(d);
  uint8_t algorithm = d.u8();
  if (algorithm != 0 && !is_algorithm(algorithm)) d.reject();
  if (algorithm != 0) record.info.checksum_algorithm = static_cast<Algorithm>(algorithm);
  record.info.checksum_full_object = d.flag();
  if (d.format() >= format_version_2) {
    record.info.tags = get_headers(d);
    record.info.lock = get_lock(d);
  }
  if (d.format() >= format_version_3) record.info.attributes = get_headers(d);
  return finished(d, std::move(record));
}

std::string encode(const BucketRecord& record) {
  Encoder e(format_version_2);
  e.varint(record.id);
  e.text(record.info.name);
  e.varint(static_cast<uint64_t>(record.info.created_us));
  e.text(record.info.owner);
  e.u8(static_cast<uint8_t>(record.info.durability));
  e.u8(static_cast<uint8_t>(record.info.versioning));
  const BucketLock& lock = record.info.lock;
  e.u8(lock.enabled ? 1 : 0);
  e.u8(static_cast<uint8_t>(lock.mode));
  e.u8(lock.years ? 1 : 0);
  e.varint(lock.period);
  return e.take();
}

Result<BucketRecord> decode_bucket(std::string_view bytes) {
  Decoder d(bytes, format_version_2);
  BucketRecord record;
  record.id = d.varint();
  record.info.name = d.text();
  record.info.created_us = static_cast<int64_t>(d.varint());
  record.info.owner = d.text();
  record.info.durability = d.enumerator(Durability::memory);
  if (d.format() >= format_version_2) {
    record.info.versioning = d.enumerator(Versioning::suspended);
    BucketLock& lock = record.info.lock;
    lock.enabled = d.flag();
    lock.mode = d.enumerator(LockMode::compliance);
    lock.years = d.flag();
    lock.period = static_cast<uint32_t>(d.varint_max(UINT32_MAX));
  }
  return finished(d, std::move(record));
}

}  // namespace verbena::store
