// ListObjectsV2 and ListObjects (V1).
#include "base/bytes.h"
#include "base/date.h"
#include "base/turns.h"
#include "base/xml_escape.h"
#include "s3/access/authorize.h"
#include "s3/headers.h"
#include "s3/names.h"
#include "s3/objects/listing.h"
#include "s3/verbs.h"

namespace verbena::s3 {
namespace {

constexpr const char* bad_max_keys = "Argument max-keys must be an integer between 0 and 2147483647.";

// A continuation token is opaque to clients: a version letter and the key to go on after, in base64 (keys may hold any
// byte).
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
  // Ceph RGW's: the caller does not need an order. There is one all the same, but groups would need it.
  if (context.query.get_or_empty("allow-unordered") == "true" && !request.delimiter.empty()) {
    return fail(Errc::invalid_argument, "An unordered listing cannot have a delimiter.");
  }
  return request;
}

// What answers of a listing are made in.
struct Scratch {
  std::string modified, key, etag;
};

// A page has a thousand of them, so each is written in a few pieces.
void write_entry(XmlWriter& xml, std::string_view key, const store::ObjectInfo& info, Scratch& scratch) {
  scratch.modified.clear();
  append_iso8601(scratch.modified, info.modified_us);
  xml.raw({"<Key>", xml_escaped(key, scratch.key), "</Key><LastModified>", scratch.modified,
           "</LastModified><ETag>&quot;", xml_escaped(info.etag, scratch.etag), "&quot;</ETag>"});
  for (const auto& checksum : info.checksums) {
    xml.raw({"<ChecksumAlgorithm>", to_string(checksum.algorithm), "</ChecksumAlgorithm><ChecksumType>",
             checksum.parts != 0 ? "COMPOSITE" : "FULL_OBJECT", "</ChecksumType>"});
  }
  xml.raw({"<Size>", std::to_string(info.size), "</Size>"});
}

// Whose metadata may be told is asked entry by entry, which takes as long as the bucket's policy makes it. Keys may be
// long, and of characters that are written as six.
Task<void> write_entries(XmlWriter& xml, const Context& context, const NameEncoder& encode, const store::ListPage& page,
                         const BucketAccess& access, bool owners) {
  const bool metadata = wants_metadata(context);
  Turns turns;
  Scratch scratch;
  size_t written = 0;
  for (const auto& entry : page.entries) {
    if ((metadata || ++written % entries_between_looks == 0) && turns.due()) co_await turns.pass();
    xml.open("Contents");
    write_entry(xml, encode(entry.key), entry.info, scratch);
    if (owners) write_owner(xml, "Owner", context.service, owner_of(access, entry.info));
    xml.element("StorageClass", storage_class(entry.info.headers));
    if (metadata) write_metadata(xml, context, access, entry.key, "", entry.info);
    xml.close();
  }
}

void write_head(XmlWriter& xml, const Context& context, const NameEncoder& encode, const store::ListRequest& request) {
  xml.element("Name", context.bucket);
  xml.element("Prefix", encode(request.prefix));
  if (!request.delimiter.empty()) xml.element("Delimiter", encode(request.delimiter));
  xml.element("MaxKeys", request.max_keys);
  encode.announce(xml);
}

}  // namespace

Task<Result<store::ListPage>> list_objects(Service& service, const Call& caller, const std::string& bucket,
                                           store::ListRequest request) {
  VB_CO_TRY(check_bucket_name(bucket));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  const Listing listing = listing_of(caller, request);
  const Asked asked{.action = action::list, .list = &listing};
  VB_CO_TRY(authorize(service, caller, *access, asked));
  if (request.max_keys < 0) co_return fail(Errc::invalid_argument, bad_max_keys);
  if (request.max_keys == 0) {
    co_return store::ListPage{};
  }
  request.max_keys = std::min(request.max_keys, 1000);
  co_return co_await service.store.list(bucket, std::move(request));
}

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
