// ListObjectVersions.
#include "base/date.h"
#include "base/turns.h"
#include "s3/access/authorize.h"
#include "s3/objects/checksums.h"
#include "s3/objects/object_headers.h"
#include "s3_http/objects/listing.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

void write_version(XmlWriter& xml, const Context& context, const NameEncoder& encode, const store::VersionEntry& entry,
                   const BucketAccess& access) {
  const store::ObjectInfo& info = entry.info;
  xml.open(info.delete_marker ? "DeleteMarker" : "Version");
  xml.element("Key", encode(entry.key));
  xml.element("VersionId", info.version_id.empty() ? std::string("null") : info.version_id);
  xml.element("IsLatest", entry.latest);
  xml.element("LastModified", format_iso8601(info.modified_us));
  if (!info.delete_marker) {
    xml.quoted("ETag", info.etag);
    for (const auto& checksum : info.checksums) xml.element("ChecksumAlgorithm", to_string(checksum.algorithm));
    if (!info.checksums.empty()) xml.element("ChecksumType", checksum_type(info.checksums));
    xml.element("Size", info.size);
    xml.element("StorageClass", storage_class(info.headers));
    const std::string_view version_id = info.version_id.empty() ? std::string_view("null") : info.version_id;
    if (wants_metadata(context)) write_metadata(xml, context, access, entry.key, version_id, info);
  }
  write_owner(xml, "Owner", context.service, owner_of(access, info));
  xml.close();
}

}  // namespace

Task<Result<void>> serve_list_versions(Context& context) {
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  store::ListVersionsRequest request;
  request.prefix = context.query.get_or_empty("prefix");
  request.delimiter = context.query.get_or_empty("delimiter");
  request.key_marker = context.query.get_or_empty("key-marker");
  request.version_id_marker = context.query.get_or_empty("version-id-marker");
  if (request.key_marker.empty() && !request.version_id_marker.empty()) {
    co_return fail(Errc::invalid_argument, "A version-id marker cannot be specified without a key marker.");
  }
  VB_CO_ASSIGN(request.max_keys, read_page_size(context, "max-keys", bad_max_keys));
  store::ListRequest listed;
  listed.prefix = request.prefix;
  listed.delimiter = request.delimiter;
  listed.max_keys = request.max_keys;
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await admit_listing(context, action::list_versions, listed));
  VB_CO_ASSIGN(const store::VersionPage page, co_await context.service.store.list_versions(context.bucket, request));

  XmlWriter xml("ListVersionsResult");
  xml.element("Name", context.bucket);
  xml.element("Prefix", encode(request.prefix));
  xml.element("KeyMarker", encode(request.key_marker));
  xml.element("VersionIdMarker", request.version_id_marker);
  if (!request.delimiter.empty()) xml.element("Delimiter", encode(request.delimiter));
  xml.element("MaxKeys", request.max_keys);
  encode.announce(xml);
  xml.element("IsTruncated", page.truncated);
  if (page.truncated) {
    xml.element("NextKeyMarker", encode(page.next_key_marker));
    if (!page.next_version_id_marker.empty()) xml.element("NextVersionIdMarker", page.next_version_id_marker);
  }
  Turns turns;
  size_t written = 0;
  for (const auto& entry : page.versions) {
    const bool looks = wants_metadata(context) || ++written % entries_between_looks == 0;
    if (looks && turns.due()) co_await turns.pass();
    write_version(xml, context, encode, entry, *access);
  }
  co_await write_prefixes(xml, encode, page.common_prefixes);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
