#include "s3_http/buckets/control.h"

#include <algorithm>
#include <array>
#include <functional>

#include "auth/auth.h"
#include "s3/access/authorize.h"
#include "s3/documents/bucket_document.h"
#include "s3/errors.h"
#include "s3/names.h"
#include "s3/tag_set.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"
#include "s3_http/error_fields.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

constexpr std::string_view control_root = "/v20180820/";
constexpr std::string_view control_namespace = "xmlns=\"http://awss3control.amazonaws.com/doc/2018-08-20/\"";
constexpr std::string_view account_header = "x-amz-account-id";
constexpr size_t tag_request_max = 64 * KiB;
constexpr int tag_attempts_max = 100;  // attempts, since others may change a bucket's tags between reading and writing

// The six parts of "arn:aws:s3:::bucket"; the last may hold colons.
std::optional<std::array<std::string_view, 6>> split_arn(std::string_view arn) {
  std::array<std::string_view, 6> parts;
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    const size_t colon = arn.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    parts[i] = arn.substr(0, colon);
    arn.remove_prefix(colon + 1);
  }
  parts.back() = arn;
  if (parts[0] != "arn" || parts[1].empty() || arn.empty()) return std::nullopt;
  return parts;
}

// Null: no tags.
Task<Result<store::Document>> kept_tags(Context& context) {
  auto document = co_await context.service.store.document(context.bucket, tagging_document);
  if (!document && document.error() == Errc::not_found) co_return store::Document();
  co_return document;
}

Result<store::Tags> parse_kept(const store::Document& document) {
  if (document == nullptr) return store::Tags{};
  return parse_tagging(*document, bucket_tags_max);
}

// Reads, changes and writes the tags if they are still the same, so that no concurrent change is lost.
Task<Result<void>> change_tags(Context& context, const std::function<void(store::Tags&)>& change) {
  for (int attempt = 0; attempt < tag_attempts_max; ++attempt) {
    VB_CO_ASSIGN(store::Document was, co_await kept_tags(context));
    VB_CO_ASSIGN(store::Tags tags, parse_kept(was));
    change(tags);
    VB_CO_TRY(check_tags(tags, bucket_tags_max));
    auto done = co_await context.service.store.replace_document(context.made_bucket(), tagging_document, std::move(was),
                                                                tagging_xml(tags));
    if (!done && done.error() == Errc::precondition_failed) continue;
    co_return done;
  }
  co_return fail(Errc::slow_down, "tags: they are changed too often");
}

Result<store::Tags> parse_tag_request(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "TagResourceRequest", XmlApi::s3_control));
  VB_TRY(check_children(root, {"Tags"}));
  const pugi::xml_node list = root.child("Tags");
  if (!list) return fail(Errc::malformed_xml, "xml: Tags");
  return read_tags(list, bucket_tags_max);
}

}  // namespace

bool is_control_request(const Request& request, std::string_view domain) {
  if (!request.raw_path.starts_with(control_root)) return false;
  const auto account = request.header(account_header);
  if (!account) return false;
  const std::string_view host = auth::virtual_bucket(request.host, domain);
  return host.empty() || host == *account;
}

std::string_view control_subject(const Request& request) {
  const std::string_view path = request.raw_path.substr(control_root.size());
  return path.substr(0, path.find('/'));
}

Result<std::string> control_bucket(const Request& request) {
  const std::string_view subject = control_subject(request);
  const std::string_view path = request.raw_path.substr(control_root.size() + subject.size());
  const auto arn = auth::uri_decode(path.starts_with('/') ? path.substr(1) : path);
  if (!arn) return fail(Errc::invalid_uri, "path: percent escape");
  const auto parts = split_arn(*arn);
  if (!parts) return fail(Errc::invalid_argument, "The path must have the ARN of an S3 resource.");
  const std::string_view service = (*parts)[2];
  std::string_view name = (*parts)[5];
  constexpr std::string_view bucket_type = "bucket/";
  const bool directory = service == "s3express" && name.starts_with(bucket_type);
  if (directory) name.remove_prefix(bucket_type.size());
  const bool general = service == "s3" && (*parts)[3].empty() && (*parts)[4].empty();
  if (!directory && !general) return fail(Errc::not_implemented, "Only buckets can have tags here.");
  if (is_directory_bucket(name) != directory) {
    return fail(Errc::invalid_argument, "The ARN's service and the bucket's name do not match.");
  }
  VB_TRY(check_bucket_name(name));
  return std::string(name);
}

Task<Result<void>> check_control_account(const Context& context) {
  const std::string_view account = context.request.header(account_header).value_or("");
  const auth::Principal* const principal = principal_of(context.caller());
  const bool own = principal != nullptr && (principal->account->id == account);
  if (own) co_return Result<void>();
  co_return co_await check_expected_owner(context.service, context.bucket, account);
}

std::string control_error_xml(const Error& error, std::string_view request_id, const Headers& fields) {
  XmlWriter xml("ErrorResponse", control_namespace);
  xml.open("Error");
  xml.element("Code", error_form(error.code).code);
  xml.element("Message", error_message(error));
  write_error_fields(xml, fields);
  xml.close();
  xml.element("RequestId", request_id);
  xml.element("HostId", host_id);
  return xml.finish();
}

Task<Result<void>> serve_list_resource_tags(Context& context) {
  VB_CO_ASSIGN(const store::Document document, co_await kept_tags(context));
  VB_CO_ASSIGN(const store::Tags tags, parse_kept(document));
  XmlWriter xml("ListTagsForResourceResult", control_namespace);
  xml.open("Tags");
  write_tags(xml, tags);
  context.reply_xml(xml.finish());
  co_return Result<void>();
}

Task<Result<void>> serve_tag_resource(Context& context) {
  VB_CO_ASSIGN(const std::string text, co_await read_document(context, tag_request_max));
  VB_CO_ASSIGN(const store::Tags given, parse_tag_request(text));
  const std::function<void(store::Tags&)> merge = [&given](store::Tags& tags) {
    for (const auto& tag : given) {
      const auto same = std::ranges::find(tags, tag.first, &store::Tags::value_type::first);
      if (same != tags.end()) {
        same->second = tag.second;
      } else {
        tags.push_back(tag);
      }
    }
  };
  VB_CO_TRY(co_await change_tags(context, merge));
  reply_no_content(context);
  co_return Result<void>();
}

Task<Result<void>> serve_untag_resource(Context& context) {
  std::vector<std::string_view> keys;
  for (const auto& [name, value] : context.query.items()) {
    if (name == "tagKeys") keys.push_back(value);
  }
  if (keys.empty()) co_return fail(Errc::invalid_request, "The query must name at least one key in tagKeys.");
  const std::function<void(store::Tags&)> remove = [&keys](store::Tags& tags) {
    std::erase_if(tags, [&](const auto& tag) { return std::ranges::find(keys, tag.first) != keys.end(); });
  };
  VB_CO_TRY(co_await change_tags(context, remove));
  reply_no_content(context);
  co_return Result<void>();
}

}  // namespace verbena::s3
