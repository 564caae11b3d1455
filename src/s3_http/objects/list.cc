// ListObjectsV2 and ListObjects (V1).
#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "base/date.h"
#include "base/turns.h"
#include "base/xml_escape.h"
#include "s3/access/authorize.h"
#include "s3/objects/checksums.h"
#include "s3/objects/object_headers.h"
#include "s3_http/objects/listing.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

// A continuation token is opaque to clients: a version letter and the last key, in base64 (keys may have any byte).
std::string make_continuation_token(const std::string& after) { return to_base64(as_bytes("1" + after)); }

Result<std::string> read_continuation_token(std::string_view token) {
  const auto raw = from_base64(token);
  if (!raw || raw->empty() || raw->front() != std::byte{'1'} || raw->size() > store::key_size_max + 1) {
    return fail(Errc::invalid_argument, "The continuation token provided is incorrect.");
  }
  return std::string(as_text(*raw).substr(1));
}

Result<store::ListRequest> read_list_request(const Context& context) {
  store::ListRequest request;
  request.prefix = context.query.get_or_empty("prefix");
  request.delimiter = context.query.get_or_empty("delimiter");
  VB_ASSIGN(request.max_keys, read_page_size(context, "max-keys", bad_max_keys));
  // From Ceph RGW: the caller needs no order. The listing is ordered all the same; common prefixes would require it.
  if (context.query.get_or_empty("allow-unordered") == "true" && !request.delimiter.empty()) {
    return fail(Errc::invalid_argument, "An unordered listing cannot have a delimiter.");
  }
  return request;
}

// LastModified as text. Objects of one second differ in three digits only.
class ModifiedText {
 public:
  std::string_view of(int64_t modified_us) {
    constexpr int64_t end_us = 253'402'300'800'000'000;  // the end of the years that the format can have
    const int64_t second = modified_us / 1'000'000;
    if (second == second_ && modified_us >= 0 && modified_us < end_us) {
      auto milliseconds = static_cast<unsigned>(modified_us % 1'000'000 / 1000);
      for (size_t at = 22; at >= 20; --at, milliseconds /= 10) text_[at] = static_cast<char>('0' + milliseconds % 10);
    } else {
      text_.clear();
      append_iso8601(text_, modified_us);
      second_ = modified_us >= 0 && modified_us < end_us ? second : -1;
    }
    return text_;
  }

 private:
  int64_t second_ = -1;
  std::string text_;
};

// What XML shows of an object.
struct Shown {
  std::string_view key, etag;
  uint64_t size = 0;
  int64_t modified_us = 0;
  std::span<const Algorithm> algorithms;
  bool composite = false;
  std::string_view storage_class, owner;
};

// A page as the store's cursor passes it: what is shown of each object, its texts in one piece of memory.
class Page final : public store::ListSink {
 public:
  Page(BucketAccessPtr access, bool owners)
      : ListSink({.header = storage_class_header, .attribute = owners ? owner_attribute() : std::string_view()}),
        access_(std::move(access)),
        owners_(owners) {}

  void restart() override {
    text_.clear();
    places_.clear();
    prefixes_.clear();
    algorithms_ = 0;
  }
  bool add(std::string_view key, const store::ListedHead& head) override {
    const std::string_view owner = owners_ ? owner_by(*access_, head.attribute) : std::string_view();
    const Place place{.at = text_.size(),
                      .key = key.size(),
                      .etag = head.etag.size(),
                      .storage_class = head.header.size(),
                      .owner = owner.size(),
                      .algorithms = head.algorithms,
                      .algorithm_count = head.algorithm_count,
                      .composite = head.composite,
                      .size = head.size,
                      .modified_us = head.modified_us};
    text_.append(key).append(head.etag).append(head.header).append(owner);
    places_.push_back(place);
    algorithms_ += place.algorithm_count;
    return true;
  }
  bool add_prefix(std::string_view prefix) override {
    prefixes_.emplace_back(prefix);
    return true;
  }

  size_t objects() const { return places_.size(); }
  const std::vector<std::string>& prefixes() const { return prefixes_; }
  size_t names() const { return places_.size() + prefixes_.size(); }
  // Of the entries, without encoding, escapes, owners and metadata. Bytes.
  size_t xml_size() const {
    constexpr size_t names_size = 224, checksum_size = 96;
    return text_.size() + names_size * places_.size() + checksum_size * algorithms_;
  }
  // The views are valid until the page changes.
  Shown operator[](size_t i) const {
    const Place& place = places_[i];
    std::string_view text = std::string_view(text_).substr(place.at);
    const auto next = [&text](size_t size) {
      const std::string_view part = text.substr(0, size);
      text.remove_prefix(size);
      return part;
    };
    Shown shown{.key = next(place.key), .etag = next(place.etag), .algorithms = {}};
    const std::string_view storage_class = next(place.storage_class);
    shown.storage_class = storage_class.empty() ? "STANDARD" : storage_class;
    shown.owner = next(place.owner);
    shown.algorithms = std::span(place.algorithms).first(place.algorithm_count);
    shown.composite = place.composite;
    shown.size = place.size;
    shown.modified_us = place.modified_us;
    return shown;
  }
  // The greatest name here, of a page that is not empty.
  std::string last() const {
    std::string_view name;
    if (!places_.empty()) name = std::string_view(text_).substr(places_.back().at, places_.back().key);
    if (!prefixes_.empty()) name = std::max(name, std::string_view(prefixes_.back()));
    return std::string(name);
  }

 private:
  struct Place {
    size_t at, key, etag, storage_class, owner;  // in `text_`: where, and the sizes of what lies there
    std::array<Algorithm, std::size(all_algorithms)> algorithms;
    uint8_t algorithm_count;
    bool composite;
    uint64_t size;
    int64_t modified_us;
  };

  const BucketAccessPtr access_;
  const bool owners_;
  std::string text_;
  std::vector<Place> places_;
  std::vector<std::string> prefixes_;
  size_t algorithms_ = 0;  // of all objects
};

// XML of entries, written by pointer into one buffer and passed to the writer some entries at a time. A page has a
// thousand entries, so none of them costs a temporary string.
class EntryText {
 public:
  EntryText(XmlWriter& xml, const NameEncoder& encode) : xml_(xml), encode_(encode) {}

  // From <Contents> to <Size>.
  void begin(const Shown& entry) {
    const std::string_view key = xml_escaped(encode_.view(entry.key, encoded_), key_);
    const std::string_view etag = xml_escaped(entry.etag, etag_);
    reserve(key.size() + etag.size());
    put("<Contents><Key>"), put(key), put("</Key><LastModified>"), put(modified_.of(entry.modified_us));
    put("</LastModified><ETag>&quot;"), put(etag), put("&quot;</ETag>");
    if (!entry.algorithms.empty()) write_checksums(entry);
    put("<Size>"), put(entry.size), put("</Size>");
  }

  void storage_class(std::string_view name) {
    if (name == "STANDARD") {
      reserve(0);
      put("<StorageClass>STANDARD</StorageClass>");
      return;
    }
    const std::string_view text = xml_escaped(name, key_);
    reserve(text.size());
    put("<StorageClass>"), put(text), put("</StorageClass>");
  }
  void end() {
    put("</Contents>");
    if (used_ >= flush_bytes) flush();
  }

  // Passes the written text to the writer, before other text is added.
  void flush() {
    xml_.raw({std::string_view(text_.data(), used_)});
    used_ = 0;
  }

 private:
  static constexpr size_t flush_bytes = 1 * KiB;
  static constexpr size_t fixed_bytes = 512;  // more than the names and numbers between two reserves take

  void write_checksums(const Shown& entry) {
    for (const Algorithm algorithm : entry.algorithms) {
      put("<ChecksumAlgorithm>"), put(to_string(algorithm)), put("</ChecksumAlgorithm>");
      reserve(0);
    }
    put("<ChecksumType>"), put(checksum_type(entry.composite)), put("</ChecksumType>");
  }

  void reserve(size_t bytes) {
    const size_t needed = used_ + bytes + fixed_bytes;
    if (text_.size() < needed) text_.resize(std::max(needed, 2 * flush_bytes));
  }
  template <size_t size>
  void put(const char (&literal)[size]) {
    std::memcpy(text_.data() + used_, literal, size - 1);
    used_ += size - 1;
  }
  void put(std::string_view text) { used_ += text.copy(text_.data() + used_, text.size()); }
  void put(uint64_t number) {
    char* const at = text_.data() + used_;
    used_ += static_cast<size_t>(std::to_chars(at, at + 20, number).ptr - at);
  }

  XmlWriter& xml_;
  const NameEncoder& encode_;
  ModifiedText modified_;
  std::string text_, encoded_, key_, etag_;
  size_t used_ = 0;
};

store::ListedHead head_of(const store::ObjectInfo& info) {
  store::ListedHead head;
  head.size = info.size;
  head.modified_us = info.modified_us;
  head.etag = info.etag;
  if (const auto* const value = store::find_attribute(info.headers, storage_class_header)) head.header = *value;
  if (const auto* const value = store::find_attribute(info.attributes, owner_attribute())) head.attribute = *value;
  for (const store::Checksum& checksum : info.checksums) {
    if (head.algorithm_count < head.algorithms.size()) head.algorithms[head.algorithm_count++] = checksum.algorithm;
  }
  head.composite = !info.checksums.empty() && info.checksums.front().parts != 0;
  return head;
}

struct Listed {
  std::shared_ptr<Page> page;
  bool truncated = false;
  bool owners = false;
  std::vector<store::ListEntry> whole;  // the page's objects, where their metadata is wanted; else empty
};

Task<Result<Listed>> list(Context& context, const BucketAccessPtr& access, store::ListRequest request, bool owners) {
  Listed listed{.page = std::make_shared<Page>(access, owners), .owners = owners, .whole = {}};
  const bool metadata = wants_metadata(context);
  if (!metadata) request.sink = listed.page;
  VB_CO_ASSIGN(store::ListPage page,
               co_await list_objects(context.service, context.caller(), context.bucket, std::move(request)));
  listed.truncated = page.truncated;
  if (!metadata) co_return std::move(listed);
  for (const store::ListEntry& entry : page.entries) listed.page->add(entry.key, head_of(entry.info));
  for (const std::string& prefix : page.common_prefixes) listed.page->add_prefix(prefix);
  listed.whole = std::move(page.entries);
  co_return std::move(listed);
}

// Metadata is authorized entry by entry, which may take long, depending on the bucket's policy. Keys may be long, and a
// character may need six bytes.
Task<void> write_entries(XmlWriter& xml, const Context& context, const NameEncoder& encode, const BucketAccess& access,
                         const Listed& listed) {
  const bool metadata = !listed.whole.empty();
  const Page& page = *listed.page;
  Turns turns;
  xml.reserve(page.xml_size());
  EntryText text(xml, encode);
  for (size_t i = 0; i < page.objects(); ++i) {
    if ((metadata || (i + 1) % entries_between_looks == 0) && turns.due()) co_await turns.pass();
    const Shown entry = page[i];
    text.begin(entry);
    if (listed.owners) {
      text.flush();
      write_owner(xml, "Owner", context.service, entry.owner);
    }
    text.storage_class(entry.storage_class);
    if (metadata) {
      text.flush();
      write_metadata(xml, context, access, listed.whole[i].key, "", listed.whole[i].info);
    }
    text.end();
  }
  text.flush();
}

void write_head(XmlWriter& xml, const Context& context, const NameEncoder& encode, const store::ListRequest& request) {
  xml.element("Name", context.bucket);
  xml.element("Prefix", encode(request.prefix));
  if (!request.delimiter.empty()) xml.element("Delimiter", encode(request.delimiter));
  xml.element("MaxKeys", request.max_keys);
  encode.announce(xml);
}

}  // namespace

Task<Result<void>> serve_list_objects_v2(Context& context) {
  if (context.query.get_or_empty("list-type") != "2") co_return fail(Errc::invalid_argument, "Invalid list-type.");
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  VB_CO_ASSIGN(store::ListRequest request, read_list_request(context));
  const auto start_after = context.query.get_or_empty("start-after");
  const auto token = context.query.get("continuation-token");
  request.after = start_after;
  if (token && !token->empty()) {
    VB_CO_ASSIGN(request.after, read_continuation_token(*token));
  }
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await admit_listing(context, action::list, request));
  const bool owners = context.query.get_or_empty("fetch-owner") == "true";
  VB_CO_ASSIGN(const Listed listed, co_await list(context, access, request, owners));
  const Page& page = *listed.page;

  XmlWriter xml("ListBucketResult");
  write_head(xml, context, encode, request);
  if (token) xml.element("ContinuationToken", *token);
  if (!start_after.empty()) xml.element("StartAfter", encode(start_after));
  xml.element("KeyCount", page.names());
  xml.element("IsTruncated", listed.truncated);
  if (listed.truncated) xml.element("NextContinuationToken", make_continuation_token(page.last()));
  co_await write_entries(xml, context, encode, *access, listed);
  co_await write_prefixes(xml, encode, page.prefixes());
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_list_objects_v1(Context& context) {
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  VB_CO_ASSIGN(store::ListRequest request, read_list_request(context));
  request.after = context.query.get_or_empty("marker");
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await admit_listing(context, action::list, request));
  VB_CO_ASSIGN(const Listed listed, co_await list(context, access, request, true));
  const Page& page = *listed.page;

  XmlWriter xml("ListBucketResult");
  write_head(xml, context, encode, request);
  xml.element("Marker", encode(request.after));
  xml.element("IsTruncated", listed.truncated);
  // Without a delimiter the last key serves as the next marker; S3 then leaves this out.
  if (listed.truncated && !request.delimiter.empty()) xml.element("NextMarker", encode(page.last()));
  co_await write_entries(xml, context, encode, *access, listed);
  co_await write_prefixes(xml, encode, page.prefixes());
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
