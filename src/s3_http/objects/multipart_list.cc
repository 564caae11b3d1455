// ListParts and ListMultipartUploads.
#include "base/date.h"
#include "base/turns.h"
#include "s3/access/authorize.h"
#include "s3/objects/checksums.h"
#include "s3/objects/object_headers.h"
#include "s3_http/objects/listing.h"
#include "s3_http/objects/multipart.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

void write_checksum_kind(XmlWriter& xml, const store::UploadInfo& upload) {
  if (!upload.checksum_algorithm) return;
  xml.element("ChecksumAlgorithm", to_string(*upload.checksum_algorithm));
  xml.element("ChecksumType", upload.checksum_full_object ? "FULL_OBJECT" : "COMPOSITE");
}

void write_part(XmlWriter& xml, const store::PartInfo& part) {
  xml.open("Part");
  xml.element("PartNumber", part.number);
  xml.element("LastModified", format_iso8601(part.modified_us));
  xml.quoted("ETag", part.etag);
  xml.element("Size", part.size);
  for (const auto& checksum : part.checksums) {
    xml.element(checksum_element(checksum.algorithm), format_checksum(checksum));
  }
  xml.close();
}

// The initiator is the caller that created the upload, the owner the future owner of the object.
void write_who(XmlWriter& xml, const Context& context, const BucketAccess& access, const store::UploadInfo& upload) {
  write_owner(xml, "Initiator", context.service, upload.owner);
  store::ObjectInfo object;
  object.attributes = upload.attributes;
  write_owner(xml, "Owner", context.service, owner_of(access, object));
}

void write_upload(XmlWriter& xml, const Context& context, const BucketAccess& access, const NameEncoder& encode,
                  const store::UploadInfo& upload) {
  xml.open("Upload");
  xml.element("Key", encode(upload.key));
  xml.element("UploadId", upload.upload_id);
  write_who(xml, context, access, upload);
  xml.element("StorageClass", storage_class(upload.headers));
  xml.element("Initiated", format_iso8601(upload.created_us));
  write_checksum_kind(xml, upload);
  xml.close();
}

}  // namespace

Task<Result<void>> serve_list_parts(Context& context) {
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  VB_CO_ASSIGN(const int max_parts,
               read_page_size(context, "max-parts", "Argument max-parts must be an integer between 0 and 2147483647."));
  constexpr const char* bad_marker = "Argument part-number-marker must be an integer between 0 and 2147483647.";
  VB_CO_ASSIGN(const int64_t marker, context.query.number("part-number-marker", 0, 2147483647, 0, bad_marker));
  const std::string upload_id(context.query.get_or_empty("uploadId"));
  VB_CO_TRY(co_await authorize_upload(context, action::list_parts));
  VB_CO_ASSIGN(const store::UploadInfo upload,
               co_await context.service.store.upload(context.bucket, context.key, upload_id));
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(context.service, context.bucket));
  store::PartPage page;
  if (max_parts > 0) {
    VB_CO_ASSIGN(page, co_await context.service.store.list_parts(context.bucket, context.key, upload_id,
                                                                 static_cast<int>(marker), max_parts));
  }
  XmlWriter xml("ListPartsResult");
  xml.element("Bucket", context.bucket);
  xml.element("Key", encode(context.key));
  encode.announce(xml);
  xml.element("UploadId", upload_id);
  write_who(xml, context, *access, upload);
  xml.element("StorageClass", storage_class(upload.headers));
  write_checksum_kind(xml, upload);
  xml.element("PartNumberMarker", marker);
  // The last listed part, whether or not there are more; 0 if none is listed.
  xml.element("NextPartNumberMarker", page.parts.empty() ? 0 : page.parts.back().number);
  xml.element("MaxParts", max_parts);
  xml.element("IsTruncated", page.truncated);
  for (const auto& part : page.parts) write_part(xml, part);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_list_uploads(Context& context) {
  VB_CO_ASSIGN(const NameEncoder encode, NameEncoder::read(context));
  store::ListUploadsRequest request;
  request.prefix = context.query.get_or_empty("prefix");
  request.delimiter = context.query.get_or_empty("delimiter");
  request.key_marker = context.query.get_or_empty("key-marker");
  // Without a key marker the upload id marker is ignored (S3).
  if (!request.key_marker.empty()) request.upload_id_marker = context.query.get_or_empty("upload-id-marker");
  VB_CO_ASSIGN(request.max_uploads, read_page_size(context, "max-uploads",
                                                   "Argument max-uploads must be an integer between 0 and "
                                                   "2147483647."));
  VB_CO_TRY(co_await reserve_page(context, request.max_uploads));
  VB_CO_ASSIGN(const BucketAccessPtr access,
               co_await authorize_bucket(context.service, context.caller(), context.bucket, action::list_uploads));
  store::UploadPage page;
  if (request.max_uploads > 0) {
    VB_CO_ASSIGN(page, co_await context.service.store.list_uploads(context.bucket, request));
  }
  XmlWriter xml("ListMultipartUploadsResult");
  xml.element("Bucket", context.bucket);
  xml.element("KeyMarker", encode(request.key_marker));
  xml.element("UploadIdMarker", request.upload_id_marker);
  if (page.truncated) {
    xml.element("NextKeyMarker", encode(page.next_key_marker));
    xml.element("NextUploadIdMarker", page.next_upload_id_marker);
  }
  xml.element("Prefix", encode(request.prefix));
  if (!request.delimiter.empty()) xml.element("Delimiter", encode(request.delimiter));
  encode.announce(xml);
  xml.element("MaxUploads", request.max_uploads);
  xml.element("IsTruncated", page.truncated);
  Turns turns;
  size_t written = 0;
  for (const auto& upload : page.uploads) {
    if (++written % entries_between_looks == 0 && turns.due()) co_await turns.pass();
    write_upload(xml, context, *access, encode, upload);
  }
  co_await write_prefixes(xml, encode, page.common_prefixes);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
