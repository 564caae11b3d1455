#include "client/http/s3_xml.h"

#include <pugixml.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "auth/auth.h"
#include "base/date.h"
#include "base/xml_escape.h"
#include "base/xml_names.h"

namespace verbena::client {
namespace {

constexpr size_t list_entries_max = 100'000;
constexpr int xml_depth_max = 32;

// pugixml frees nested nodes by recursion, so depth is bounded before it builds a tree.
bool depth_is_sane(std::string_view xml) {
  int depth = 0;
  for (size_t i = 0; i + 1 < xml.size(); ++i) {
    if (xml[i] != '<') continue;
    if (xml[i + 1] == '/') {
      --depth;
    } else if (xml[i + 1] != '?' && xml[i + 1] != '!') {
      const size_t close = xml.find('>', i);
      if (close == xml.npos) return true;  // the parser reports the error
      if (xml[close - 1] != '/' && ++depth > xml_depth_max) return false;
      i = close;
    }
  }
  return true;
}

bool load(pugi::xml_document& document, std::string_view xml) {
  if (xml.size() > xml_reply_bytes_max || !depth_is_sane(xml)) return false;
  // parse_minimal skips comments, instructions and DTDs; escapes are needed.
  const auto loaded = document.load_buffer(
      xml.data(), xml.size(),
      pugi::parse_minimal | pugi::parse_escapes | pugi::parse_cdata | pugi::parse_ws_pcdata_single);
  return loaded && resolve_xml_reply_names(document.document_element());
}

std::string_view text(const pugi::xml_node& node, const char* child) { return node.child_value(child); }

std::string unquoted(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') etag = etag.substr(1, etag.size() - 2);
  return std::string(etag);
}

auto malformed(const char* what) {
  return fault(ErrorCode::malformed_reply, std::string("the server's reply is not a valid ") + what);
}

// encoding-type=url writes a space as '+' or "%20", depending on the server.
std::optional<std::string> url_decoded(std::string_view encoded, bool is_encoded) {
  if (!is_encoded) return std::string(encoded);
  std::string plus_as_space(encoded);
  for (char& c : plus_as_space) {
    if (c == '+') c = ' ';
  }
  return auth::uri_decode(plus_as_space);
}

std::optional<uint64_t> number(std::string_view digits) {
  uint64_t value = 0;
  auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (ec != std::errc() || end != digits.data() + digits.size() || digits.empty()) return std::nullopt;
  return value;
}

// Times outside the range of the clock (it counts nanoseconds: 1678 to 2261) become the epoch.
std::chrono::system_clock::time_point time_or_epoch(std::optional<int64_t> time_us) {
  using std::chrono::microseconds, std::chrono::system_clock;
  constexpr int64_t most_us = std::chrono::floor<microseconds>(system_clock::duration::max()).count();
  if (!time_us || *time_us > most_us || *time_us < -most_us) return {};
  return system_clock::time_point(microseconds(*time_us));
}

}  // namespace

XmlError parse_error_xml(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return {};
  const pugi::xml_node error = document.child("Error");
  return {std::string(text(error, "Code").substr(0, 256)), std::string(text(error, "Message").substr(0, 2048)),
          std::string(text(error, "RequestId").substr(0, 256))};
}

Outcome<ListPage> parse_list_xml(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return malformed("object list");
  const pugi::xml_node root = document.child("ListBucketResult");
  if (!root) return malformed("object list");
  const bool encoded = text(root, "EncodingType") == "url";
  ListPage page;
  for (const pugi::xml_node& entry : root.children("Contents")) {
    auto key = url_decoded(text(entry, "Key"), encoded);
    auto size = number(text(entry, "Size"));
    if (!key || key->empty() || !size || page.objects.size() >= list_entries_max) return malformed("object list");
    ObjectInfo info;
    info.key = std::move(*key);
    info.size = *size;
    info.etag = unquoted(text(entry, "ETag"));
    info.last_modified = parse_iso_time(text(entry, "LastModified"));
    page.objects.push_back(std::move(info));
  }
  for (const pugi::xml_node& entry : root.children("CommonPrefixes")) {
    auto prefix = url_decoded(text(entry, "Prefix"), encoded);
    if (!prefix || page.common_prefixes.size() >= list_entries_max) return malformed("object list");
    page.common_prefixes.push_back(std::move(*prefix));
  }
  page.truncated = text(root, "IsTruncated") == "true";
  page.continuation = text(root, "NextContinuationToken");
  // A truncated page without a continuation would make callers loop for ever.
  if (page.truncated && page.continuation.empty()) return malformed("object list");
  return page;
}

Outcome<BucketPage> parse_buckets_xml(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return malformed("bucket list");
  const pugi::xml_node root = document.child("ListAllMyBucketsResult");
  if (!root) return malformed("bucket list");
  BucketPage page;
  for (const pugi::xml_node& entry : root.child("Buckets").children("Bucket")) {
    if (page.buckets.size() >= list_entries_max) return malformed("bucket list");
    page.buckets.push_back({std::string(text(entry, "Name")), parse_iso_time(text(entry, "CreationDate"))});
  }
  page.continuation = text(root, "ContinuationToken");
  return page;
}

Outcome<std::string> parse_initiate_upload_xml(std::string_view xml) {
  pugi::xml_document document;
  if (!load(document, xml)) return malformed("upload");
  std::string id(text(document.child("InitiateMultipartUploadResult"), "UploadId"));
  if (id.empty() || id.size() > 2048) return malformed("upload");
  return id;
}

Outcome<auth::Credentials> parse_session_xml(std::string_view xml) {
  constexpr size_t longest = 16 * 1024;
  pugi::xml_document document;
  if (!load(document, xml)) return malformed("session");
  const pugi::xml_node made = document.child("CreateSessionResult").child("Credentials");
  auth::Credentials out{std::string(text(made, "AccessKeyId")), std::string(text(made, "SecretAccessKey")),
                        std::string(text(made, "SessionToken"))};
  for (const std::string* one : {&out.access_key, &out.secret_key, &out.session_token}) {
    // The values are sent as headers.
    const auto visible = [](char c) { return c > ' ' && c < 0x7f; };
    if (one->empty() || one->size() > longest || !std::ranges::all_of(*one, visible)) return malformed("session");
  }
  return out;
}

Outcome<std::optional<BucketBound>> parse_bound_xml(std::string_view xml) {
  pugi::xml_document document;
  const auto root = load(document, xml) ? document.child("BoundConfiguration") : pugi::xml_node();
  if (!root) return malformed("bound");
  const auto is_element = [](const pugi::xml_node& child) { return child.type() == pugi::node_element; };
  if (!root.find_child(is_element)) return std::optional<BucketBound>();
  BucketBound bound;
  const auto number = [&](const char* name, uint64_t& into) {
    const std::string_view digits = text(root, name);
    if (digits.empty()) return !root.child(name);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), into);
    return error == std::errc() && end == digits.data() + digits.size();
  };
  if (!number("MaxBytes", bound.bytes_max) || !number("MaxObjects", bound.objects_max)) return malformed("bound");
  if (root.child("Policy")) bound.policy = text(root, "Policy");
  bound.renew_on_read = text(root, "RenewOnRead") == "true";
  if (root.child("KeepSuffix")) bound.keep_suffix = text(root, "KeepSuffix");
  return bound;
}

std::string bound_xml(const BucketBound& bound) {
  std::string out = "<BoundConfiguration>";
  if (bound.bytes_max != 0) out += "<MaxBytes>" + std::to_string(bound.bytes_max) + "</MaxBytes>";
  if (bound.objects_max != 0) out += "<MaxObjects>" + std::to_string(bound.objects_max) + "</MaxObjects>";
  if (!bound.policy.empty()) {
    out += "<Policy>";
    append_xml_escaped(out, bound.policy);
    out += "</Policy>";
  }
  if (bound.renew_on_read) out += "<RenewOnRead>true</RenewOnRead>";
  out += "<KeepSuffix>";
  append_xml_escaped(out, bound.keep_suffix);
  return out + "</KeepSuffix></BoundConfiguration>";
}

Outcome<std::string> parse_complete_upload_xml(std::string_view xml) {
  if (XmlError error = parse_error_xml(xml); !error.code.empty()) {
    ClientError out{code_for(error.code, 500, true), error.message, error.code, 200, error.request_id};
    return std::unexpected(std::move(out));
  }
  pugi::xml_document document;
  if (!load(document, xml)) return malformed("upload");
  std::string etag = unquoted(text(document.child("CompleteMultipartUploadResult"), "ETag"));
  if (etag.empty()) return malformed("upload");
  return etag;
}

std::string complete_upload_xml(const std::vector<CompletedPart>& parts) {
  std::string out = R"(<CompleteMultipartUpload xmlns="http://s3.amazonaws.com/doc/2006-03-01/">)";
  for (const CompletedPart& part : parts) {
    out += "<Part><PartNumber>" + std::to_string(part.number) + "</PartNumber><ETag>";
    append_xml_escaped(out, '"' + part.etag + '"');
    out += "</ETag>";
    if (!part.crc32c_base64.empty()) out += "<ChecksumCRC32C>" + part.crc32c_base64 + "</ChecksumCRC32C>";
    out += "</Part>";
  }
  return out + "</CompleteMultipartUpload>";
}

std::chrono::system_clock::time_point parse_iso_time(std::string_view text) {
  return time_or_epoch(parse_iso8601(text));
}

std::chrono::system_clock::time_point parse_http_time(std::string_view text) {
  const auto seconds = parse_http_date(text);
  return time_or_epoch(seconds ? std::optional(*seconds * 1'000'000) : std::nullopt);
}

}  // namespace verbena::client
