// GetObjectAttributes.
#include <algorithm>

#include "base/date.h"
#include "base/decimal.h"
#include "s3/objects/checksums.h"
#include "s3/objects/encryption.h"
#include "s3/objects/object_headers.h"
#include "s3/xml.h"
#include "s3_http/encryption_headers.h"
#include "s3_http/objects/versions.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

struct Wanted {
  bool etag = false, checksum = false, parts = false, storage_class = false, size = false;
};

Result<void> want(std::string_view one, Wanted& wanted) {
  bool* const known = one == "ETag"           ? &wanted.etag
                      : one == "Checksum"     ? &wanted.checksum
                      : one == "ObjectParts"  ? &wanted.parts
                      : one == "StorageClass" ? &wanted.storage_class
                      : one == "ObjectSize"   ? &wanted.size
                                              : nullptr;
  if (known == nullptr) return fail(Errc::invalid_argument, "Invalid attribute name specified.");
  *known = true;
  return {};
}

// x-amz-object-attributes: a list, perhaps in several headers, or in the query of a presigned URL.
Result<Wanted> read_wanted(const Context& context) {
  Wanted wanted;
  bool any = false;
  for (const HeaderSpan headers : {context.request.headers, HeaderSpan(context.hoisted)}) {
    for (const auto& [name, value] : headers) {
      if (name != "x-amz-object-attributes") continue;
      std::string_view rest = value;
      while (!rest.empty()) {
        const size_t cut = std::min(rest.find(','), rest.size());
        std::string_view one = rest.substr(0, cut);
        rest.remove_prefix(std::min(cut + 1, rest.size()));
        while (one.starts_with(' ')) one.remove_prefix(1);
        while (one.ends_with(' ')) one.remove_suffix(1);
        VB_TRY(want(one, wanted));
        any = true;
      }
    }
  }
  if (!any) return fail(Errc::invalid_request, "The x-amz-object-attributes header is required.");
  return wanted;
}

void write_checksums(XmlWriter& xml, const std::vector<store::Checksum>& checksums) {
  if (checksums.empty()) return;
  xml.open("Checksum");
  for (const auto& checksum : checksums) xml.element(checksum_element(checksum.algorithm), format_checksum(checksum));
  xml.element("ChecksumType", checksum_type(checksums));
  xml.close();
}

void write_parts(XmlWriter& xml, const store::ObjectInfo& info, int marker, int max) {
  if (info.parts.empty()) return;
  xml.open("ObjectParts");
  xml.element("PartsCount", info.parts.size());
  xml.element("PartNumberMarker", marker);
  xml.element("MaxParts", max);
  // Markers are part numbers, which may have gaps.
  const auto begin = std::ranges::upper_bound(info.parts, marker, {}, &store::PartInfo::number);
  const auto left = info.parts.end() - begin;
  const auto end = begin + std::min<std::ptrdiff_t>(left, max);
  xml.element("IsTruncated", end != info.parts.end());
  xml.element("NextPartNumberMarker", end == begin ? 0 : std::prev(end)->number);
  for (auto part = begin; part != end; ++part) {
    xml.open("Part");
    xml.element("PartNumber", part->number);
    xml.element("Size", part->size);
    for (const auto& checksum : part->checksums) {
      xml.element(checksum_element(checksum.algorithm), format_checksum(checksum));
    }
    xml.close();
  }
  xml.close();
}

// A number in a header, as at AWS; ListParts has it in the query.
Result<int> header_number(const Context& context, std::string_view name, int fallback) {
  const auto header = context.header(name);
  if (!header) return fallback;
  const auto value = parse_decimal(*header);
  if (!value) return fail(Errc::invalid_argument, "A part number header is not a number.");
  return static_cast<int>(std::min<uint64_t>(*value, store::part_number_max));
}

}  // namespace

Task<Result<void>> serve_object_attributes(Context& context) {
  VB_CO_ASSIGN(const Wanted wanted, read_wanted(context));
  VB_CO_ASSIGN(const int max, header_number(context, "x-amz-max-parts", 1000));
  VB_CO_ASSIGN(const int marker, header_number(context, "x-amz-part-number-marker", 0));
  // The answer has everything of HeadObject and more, so both permissions are needed.
  VB_CO_ASSIGN(const store::ObjectInfo info, co_await stat_version(context, action::get_object));
  VB_CO_TRY(co_await authorize_version(context, info, action::get_attributes));
  VB_CO_ASSIGN(const CustomerKeyPtr customer, read_customer_key(context, own_key_prefix));
  VB_CO_TRY(check_customer_key(info, customer));
  context.reply_header("last-modified", format_http_date(info.modified_us / 1'000'000));
  add_version_id(context.response, info.version_id);
  XmlWriter xml("GetObjectAttributesResponse");
  if (wanted.etag) xml.element("ETag", info.etag);  // without quotes, as at AWS, only here
  if (wanted.checksum) write_checksums(xml, info.checksums);
  if (wanted.parts) write_parts(xml, info, marker, std::min(max, 1000));
  if (wanted.storage_class) xml.element("StorageClass", storage_class(info.headers));
  if (wanted.size) xml.element("ObjectSize", info.size);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

}  // namespace verbena::s3
