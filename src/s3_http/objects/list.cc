// ListObjectsV2 and ListObjects (V1).
#include <algorithm>
#include <charconv>
#include <cstring>

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

// XML of entries, written by pointer into one buffer and passed to the writer some entries at a time. A page has a
// thousand entries, so none of them costs a temporary string.
class EntryText {
 public:
  EntryText(XmlWriter& xml, const NameEncoder& encode) : xml_(xml), encode_(encode) {}

  // From <Contents> to <Size>.
  void begin(const store::ListEntry& entry) {
    const store::ObjectInfo& info = entry.info;
    const std::string_view key = xml_escaped(encode_.view(entry.key, encoded_), key_);
    const std::string_view etag = xml_escaped(info.etag, etag_);
    reserve(key.size() + etag.size());
    put("<Contents><Key>"), put(key), put("</Key><LastModified>"), put(modified_.of(info.modified_us));
    put("</LastModified><ETag>&quot;"), put(etag), put("&quot;</ETag>");
    if (!info.checksums.empty()) write(info.checksums);
    put("<Size>"), put(info.size), put("</Size>");
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

  void write(const std::vector<store::Checksum>& checksums) {
    for (const auto& checksum : checksums) {
      put("<ChecksumAlgorithm>"), put(to_string(checksum.algorithm)), put("</ChecksumAlgorithm>");
      reserve(0);
    }
    put("<ChecksumType>"), put(checksum_type(checksums)), put("</ChecksumType>");
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

// The size of a page's entries without encoding, escapes, owners and metadata.
size_t text_size(const store::ListPage& page) {
  constexpr size_t names_size = 224, checksum_size = 96;
  size_t size = 0;
  for (const auto& entry : page.entries) {
    size += names_size + entry.key.size() + entry.info.etag.size() + checksum_size * entry.info.checksums.size();
  }
  return size;
}

// Metadata is authorized entry by entry, which may take long, depending on the bucket's policy. Keys may be long, and a
// character may need six bytes.
Task<void> write_entries(XmlWriter& xml, const Context& context, const NameEncoder& encode, const store::ListPage& page,
                         const BucketAccess& access, bool owners) {
  const bool metadata = wants_metadata(context);
  Turns turns;
  xml.reserve(text_size(page));
  EntryText text(xml, encode);
  size_t written = 0;
  for (const auto& entry : page.entries) {
    if ((metadata || ++written % entries_between_looks == 0) && turns.due()) co_await turns.pass();
    text.begin(entry);
    if (owners) {
      text.flush();
      write_owner(xml, "Owner", context.service, owner_of(access, entry.info));
    }
    text.storage_class(storage_class(entry.info.headers));
    if (metadata) {
      text.flush();
      write_metadata(xml, context, access, entry.key, "", entry.info);
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
  VB_CO_ASSIGN(const store::ListPage page,
               co_await list_objects(context.service, context.caller(), context.bucket, request));

  XmlWriter xml("ListBucketResult");
  write_head(xml, context, encode, request);
  if (token) xml.element("ContinuationToken", *token);
  if (!start_after.empty()) xml.element("StartAfter", encode(start_after));
  xml.element("KeyCount", page.entries.size() + page.common_prefixes.size());
  xml.element("IsTruncated", page.truncated);
  if (page.truncated) xml.element("NextContinuationToken", make_continuation_token(page.next_after));
  const bool owners = context.query.get_or_empty("fetch-owner") == "true";
  co_await write_entries(xml, context, encode, page, *access, owners);
  co_await write_prefixes(xml, encode, page.common_prefixes);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_list_objects_v1(Context& context) {
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  VB_CO_ASSIGN(store::ListRequest request, read_list_request(context));
  request.after = context.query.get_or_empty("marker");
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await admit_listing(context, action::list, request));
  VB_CO_ASSIGN(const store::ListPage page,
               co_await list_objects(context.service, context.caller(), context.bucket, request));

  XmlWriter xml("ListBucketResult");
  write_head(xml, context, encode, request);
  xml.element("Marker", encode(request.after));
  xml.element("IsTruncated", page.truncated);
  // Without a delimiter the last key serves as the next marker; S3 then leaves this out.
  if (page.truncated && !request.delimiter.empty()) xml.element("NextMarker", encode(page.next_after));
  co_await write_entries(xml, context, encode, page, *access, true);
  co_await write_prefixes(xml, encode, page.common_prefixes);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
