// POST of an object by a browser's form, which contains a signed policy.
#include <fmt/core.h>

#include <algorithm>

#include "auth/auth.h"
#include "auth/network_rules.h"
#include "base/bytes.h"
#include "base/text.h"
#include "memory/budget.h"
#include "s3/access/access.h"
#include "s3/names.h"
#include "s3/workers/request_log.h"
#include "s3/xml.h"
#include "s3_http/error_details.h"
#include "s3_http/headers.h"
#include "s3_http/objects/form.h"
#include "s3_http/objects/post_policy.h"
#include "s3_http/objects/put.h"
#include "s3_http/request_rates.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

Result<void> fill_in_file_name(Form& form) {
  constexpr std::string_view variable = "${filename}";
  // Fields are bounded, but each may have the file's name many times: so are all of them afterwards.
  if (form.file_name.size() > store::key_size_max) return fail(Errc::key_too_long, "form: file name");
  size_t left = Form::filled_bytes_max;
  for (auto& [name, value] : form.fields) {
    for (size_t at = value.find(variable); at != std::string::npos && value.size() <= left;) {
      value.replace(at, variable.size(), form.file_name);
      at = value.find(variable, at + form.file_name.size());
    }
    if (value.size() > left) return fail(Errc::post_fields_too_large, "form: fields with the file's name");
    left -= value.size();
  }
  return {};
}

// Base64 in a form, perhaps broken into lines.
Result<PostPolicy> decode_policy(std::string_view text) {
  std::string bare(text);
  std::erase_if(bare, [](char c) { return c == '\r' || c == '\n' || c == ' '; });
  const auto json = from_base64(bare);
  if (!json) return fail(Errc::invalid_policy_document, "Invalid Policy: not base64.");
  return parse_post_policy(as_text(*json));
}

bool is_version4(const Form& form) { return form.get("x-amz-credential") || form.get("x-amz-signature"); }

// The form's signer; without a policy the request's caller.
Result<auth::Identity> identify(const Context& context, const Form& form) {
  const auto policy = form.get("policy");
  if (!policy) return context.caller().identity;
  const auto field = [&](std::string_view name) { return form.get(name).value_or(std::string_view()); };
  auth::FormClaim claim;
  claim.policy = *policy;
  claim.credential = field("x-amz-credential");
  claim.algorithm = field("x-amz-algorithm");
  claim.date = field("x-amz-date");
  claim.session_token = field("x-amz-security-token");
  claim.access_key = field("awsaccesskeyid");
  const bool version4 = is_version4(form);
  const auto signature = form.get(version4 ? "x-amz-signature" : "signature");
  if (version4 && claim.credential.empty()) {
    return fail(Errc::invalid_argument, "Bucket POST must contain a field named 'X-Amz-Credential'.");
  }
  if (!version4 && claim.access_key.empty()) {
    return fail(Errc::invalid_argument, "Bucket POST must contain a field named 'AWSAccessKeyId'.");
  }
  if (!signature) return fail(Errc::invalid_argument, "Bucket POST must contain a signature.");
  if (context.service.verifier == nullptr) return fail(Errc::not_implemented, "form signatures");
  claim.signature = *signature;
  return context.service.verifier->verify_form(claim);
}

call::FormSignature form_signature(const Form& form) {
  if (!form.get("policy")) return call::FormSignature::none;
  return is_version4(form) ? call::FormSignature::version4 : call::FormSignature::version2;
}

// Replaces the POST's facts by those of the equivalent PUT, as long as this lives.
class PostedFacts {
 public:
  PostedFacts(Call& call, const Form& form, const Headers& headers) : call_(call), of_post_(call.facts) {
    call.facts = {.http = true,
                  .form_signature = form_signature(form),
                  .arrived_us = of_post_.arrived_us,
                  .headers = headers,
                  .posted_by = &of_post_};
  }
  ~PostedFacts() { call_.facts = of_post_; }
  PostedFacts(const PostedFacts&) = delete;

 private:
  Call& call_;
  const call::Facts of_post_;
};

// The form's fields as headers of the equivalent PUT.
Headers put_headers(const Form& form) {
  Headers headers;
  for (const auto& [name, value] : form.fields) {
    headers.emplace_back(lower(header_of_field(name)), value);
  }
  return headers;
}

// Whether it is a valid redirect target: an absolute URL of visible characters.
bool is_redirect_target(std::string_view url) {
  const bool visible = std::ranges::all_of(url, [](char c) { return c > 0x20 && c < 0x7f; });
  return visible && (url.starts_with("http://") || url.starts_with("https://"));
}

// The parameters go into the query, which ends where the fragment begins.
std::string with_parameters(std::string_view url, std::string_view parameters) {
  const std::string_view before = url.substr(0, url.find('#'));
  const char* const mark = before.find('?') == std::string_view::npos ? "?" : "&";
  return fmt::format("{}{}{}{}", before, mark, parameters, url.substr(before.size()));
}

void reply_to_form(Context& context, const Form& form, const store::ObjectInfo& info) {
  auto target = form.get("success_action_redirect");
  if (!target) target = form.get("redirect");
  fill_put_response(context, info);
  if (target && is_redirect_target(*target)) {
    context.response.status = 303;
    const std::string stored =
        fmt::format("bucket={}&key={}&etag=%22{}%22", context.bucket, auth::uri_encode(context.key, false), info.etag);
    context.reply_header("location", with_parameters(*target, stored));
    return;
  }
  std::string_view path = context.request.raw_path;
  while (path.ends_with('/')) path.remove_suffix(1);
  const std::string location = fmt::format("{}://{}{}/{}", context.caller().secure ? "https" : "http",
                                           context.request.header("host").value_or(context.request.host), path,
                                           auth::uri_encode(context.key, true));
  context.reply_header("location", location);
  const auto status = form.get("success_action_status").value_or("204");
  if (status == "201") {
    context.response.status = 201;
    XmlWriter xml("PostResponse", XmlWriter::plain);
    xml.element("Location", location);
    xml.element("Bucket", context.bucket);
    xml.element("Key", context.key);
    xml.quoted("ETag", info.etag);
    context.reply_xml(xml.finish());
    return;
  }
  context.response.status = status == "200" ? 200 : 204;
  context.response.no_body = true;
}

// Completes the bucket's log record, which was begun before the form was read.
void name_sender(const Form& form, const Call& caller, const std::string& key, LogRecord& record) {
  record.key = key;
  name_requester(caller, record);
  if (form.get("policy")) record.signature = is_version4(form) ? "SigV4" : "SigV2";
}

// The size that the policy allows, checked while the file passes and once it has ended.
void limit_size(const PostPolicy& policy, FormReader& reader, PutRequest& put) {
  reader.limit(policy.length_max);
  put.trailing = [&reader, least = policy.length_min]() -> Result<std::vector<store::Checksum>> {
    if (reader.file_bytes() < least) return fail(Errc::entity_too_small, "form: content-length-range");
    return std::vector<store::Checksum>();
  };
}

}  // namespace

Task<Result<void>> serve_post_object(Context& context) {
  const auto boundary = form_boundary(context.request.header("content-type").value_or(""));
  if (!boundary) {
    context.error_fields.emplace_back("Condition", "Bucket POST must be of the enclosure-type multipart/form-data");
    co_return fail(Errc::precondition_failed, "form: content type");
  }
  // The form's signer is named inside the form. So it is read from any client, but only for an existing bucket, and its
  // bytes in memory are charged to the peer.
  VB_CO_TRY(co_await bucket_access(context.service, context.bucket));
  memory::Share share(context.service.arena, context.caller().peer_address, std::nullopt);
  VB_CO_TRY(co_await context.body.ready());
  VB_CO_ASSIGN(const memory::Charge held, co_await share.take(FormReader::buffer_size));
  FormReader reader(context.body, *boundary);
  VB_CO_ASSIGN(Form form, co_await reader.read_fields());
  if (!form.get("key")) {
    co_return fail(Errc::invalid_argument,
                   "Bucket POST must contain a field named 'key'. If it is specified, please check the order of the "
                   "fields.");
  }
  VB_CO_TRY(fill_in_file_name(form));
  VB_CO_ASSIGN(auth::Identity identity, identify(context, form));
  const auth::NetworkRules* const networks = context.options.networks;
  if (networks != nullptr) VB_CO_TRY(networks->check_caller(context.caller().peer_address, identity));
  std::optional<PostPolicy> policy;
  if (const auto text = form.get("policy")) {
    VB_CO_ASSIGN(policy, decode_policy(*text));
    VB_CO_TRY(check_post_policy(*policy, form, context.bucket, context.service.clock.now_s()));
  }
  context.key = *form.get("key");

  const Headers headers = put_headers(form);
  Request as_put = context.request;
  as_put.method = "PUT";
  as_put.headers = headers;
  context.replaced.push_back(std::exchange(context.call.identity, std::move(identity)));
  VB_CO_TRY(co_await count_requests(context, 1));
  const PostedFacts posted(context.call, form, headers);
  if (LogEntry* const log = log_of(context.call)) name_sender(form, context.caller(), context.key, log->record);
  Context put_context{.service = context.service,
                      .windows = context.windows,
                      .options = context.options,
                      .request = as_put,
                      .call = context.call,
                      .trailing = context.trailing,
                      .body = reader,
                      .response = context.response,
                      .sink = WatchedSink(context.sink),
                      .bucket = context.bucket,
                      .key = context.key};
  const auto refused = check_request_headers(put_context, RequestKind::post_object);
  context.error_fields = put_context.error_fields;
  VB_CO_TRY(refused);
  auto read = read_put_request(put_context, true, false);
  if (!read) {
    add_error_details(put_context, read.error().code);
    context.error_fields = put_context.error_fields;
    co_return std::unexpected(read.error());
  }
  PutRequest put = std::move(*read);
  if (policy) limit_size(*policy, reader, put);
  VB_CO_ASSIGN(const PutReply reply, co_await put_object(context.service, context.caller(), std::move(put), reader));
  context.call.outcome.in = reply.received;
  context.call.outcome.object_size = reply.info.size;
  reply_to_form(context, form, reply.info);
  co_return Result<void>();
}

}  // namespace verbena::s3
