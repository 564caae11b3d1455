#include "s3_http/request_documents.h"

#include <algorithm>
#include <pugixml.hpp>

#include "base/date.h"
#include "base/decimal.h"
#include "s3/objects/checksums.h"
#include "s3/objects/conditions.h"
#include "s3/tag_set.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

Result<DeleteTarget> parse_target(const pugi::xml_node& object) {
  DeleteTarget target;
  bool has_key = false;
  for (const auto& child : object.children()) {
    const std::string_view name = child.name();
    if (name == "Key") {
      if (has_key) return fail(Errc::malformed_xml, "xml: Key");
      target.key = text_of(child);
      has_key = true;
    } else if (name == "VersionId") {
      // An empty element means the same as a missing one.
      if (std::string id = trimmed_text(child); !id.empty()) target.version_id = std::move(id);
    } else if (name == "ETag") {
      target.etag = strip_quotes(trimmed_text(child));
    } else if (name == "LastModifiedTime") {
      const std::string time = trimmed_text(child);
      const auto iso_us = parse_iso8601(time);
      target.modified_s = iso_us ? *iso_us / 1'000'000 : parse_http_date(time);
      if (!target.modified_s) return fail(Errc::malformed_xml, "xml: LastModifiedTime");
    } else if (name == "Size") {
      target.size = parse_decimal(trimmed_text(child));
      if (!target.size) return fail(Errc::malformed_xml, "xml: Size");
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Object");
    }
  }
  if (!has_key || target.key.empty()) return fail(Errc::malformed_xml, "xml: Key");
  return target;
}

Result<CompletePart> parse_part(const pugi::xml_node& node) {
  CompletePart part;
  for (const auto& child : node.children()) {
    const std::string_view name = child.name();
    if (name == "PartNumber") {
      const auto number = parse_decimal(trimmed_text(child));
      if (!number || *number < 1 || *number > store::part_number_max) {
        return fail(Errc::invalid_argument, "Part number must be an integer between 1 and 10000, inclusive.");
      }
      part.number = static_cast<int>(*number);
    } else if (name == "ETag") {
      part.etag = strip_quotes(trimmed_text(child));
    } else if (name.starts_with("Checksum") && name != "ChecksumType") {
      const auto algorithm = parse_algorithm(name.substr(8));
      if (!algorithm) return fail(Errc::malformed_xml, "xml: Checksum");
      auto checksum = parse_checksum(*algorithm, trimmed_text(child));
      // A malformed checksum matches no stored part.
      if (!checksum) return fail(Errc::invalid_part, "xml: Checksum");
      part.checksums.push_back(std::move(*checksum));
    } else if (child.type() == pugi::node_element && name != "ChecksumType") {
      return fail(Errc::malformed_xml, "xml: Part");
    }
  }
  if (part.number == 0 || part.etag.empty()) return fail(Errc::malformed_xml, "xml: Part");
  return part;
}

Result<void> read_location(const pugi::xml_node& node, NewBucketDocument& out) {
  VB_TRY(check_children(node, {"Name", "Type"}));
  if (trimmed_text(node.child("Type")) != "AvailabilityZone") {
    return fail(Errc::invalid_request, "The location of a directory bucket must be an AvailabilityZone.");
  }
  out.zone = trimmed_text(node.child("Name"));
  if (out.zone.empty()) return fail(Errc::malformed_xml, "xml: Location");
  return {};
}

Result<void> read_kind(const pugi::xml_node& node, NewBucketDocument& out) {
  VB_TRY(check_children(node, {"DataRedundancy", "Type"}));
  const auto redundancy = trimmed_text(node.child("DataRedundancy"));
  if (trimmed_text(node.child("Type")) != "Directory") {
    return fail(Errc::invalid_request, "The type of a bucket that names one must be Directory.");
  }
  if (!redundancy.empty() && redundancy != "SingleAvailabilityZone") {
    return fail(Errc::invalid_request, "The data redundancy of a directory bucket must be SingleAvailabilityZone.");
  }
  out.directory = true;
  return {};
}

}  // namespace

Result<DeleteDocument> parse_delete(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "Delete"));
  DeleteDocument result;
  for (const auto& child : root.children()) {
    const std::string_view name = child.name();
    if (name == "Quiet") {
      result.quiet = trimmed_text(child) == "true";
    } else if (name == "Object") {
      if (result.targets.size() == 1000) return fail(Errc::malformed_xml, "xml: more than 1000 keys");
      VB_ASSIGN(DeleteTarget target, parse_target(child));
      result.targets.push_back(std::move(target));
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: Delete");
    }
  }
  if (result.targets.empty()) return fail(Errc::malformed_xml, "xml: no keys");
  return result;
}

Result<std::vector<CompletePart>> parse_complete(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "CompleteMultipartUpload"));
  std::vector<CompletePart> parts;
  for (const auto& child : root.children()) {
    if (std::string_view(child.name()) == "Part") {
      if (parts.size() == store::part_number_max) return fail(Errc::malformed_xml, "xml: more than 10000 parts");
      VB_ASSIGN(CompletePart part, parse_part(child));
      parts.push_back(std::move(part));
    } else if (child.type() == pugi::node_element) {
      return fail(Errc::malformed_xml, "xml: CompleteMultipartUpload");
    }
  }
  if (parts.empty()) return fail(Errc::malformed_xml, "xml: no parts");
  return parts;
}

Result<NewBucketDocument> parse_create_bucket(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "CreateBucketConfiguration"));
  VB_TRY(check_children(root, {"LocationConstraint", "Location", "Bucket", "Tags"}));
  NewBucketDocument out;
  bool placed = false;
  for (const auto& child : root.children()) {
    const std::string_view name = child.name();
    if (name == "LocationConstraint") {
      out.region = trimmed_text(child);
    } else if (name == "Location") {
      VB_TRY(read_location(child, out));
      placed = true;
    } else if (name == "Bucket") {
      VB_TRY(read_kind(child, out));
    } else if (name == "Tags") {
      VB_ASSIGN(out.tags, read_tags(child, bucket_tags_max));
    }
  }
  if (placed != out.directory) {
    return fail(Errc::invalid_request, "A directory bucket needs both Location and Bucket in its configuration.");
  }
  return out;
}

}  // namespace verbena::s3
