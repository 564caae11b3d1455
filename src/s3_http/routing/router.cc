#include "s3_http/routing/router.h"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <span>

#include "auth/network_rules.h"
#include "base/text.h"
#include "call/door_metrics.h"
#include "s3/access/authorize.h"
#include "s3/names.h"
#include "s3_http/address.h"
#include "s3_http/buckets/control.h"
#include "s3_http/buckets/preflight.h"
#include "s3_http/context.h"
#include "s3_http/dialects/routes.h"
#include "s3_http/directory_requests.h"
#include "s3_http/error_details.h"
#include "s3_http/error_response.h"
#include "s3_http/headers.h"
#include "s3_http/request_rates.h"
#include "s3_http/request_record.h"
#include "s3_http/verbs.h"

namespace verbena::s3 {
namespace {

enum class Scope : uint8_t { service, bucket, object, control };  // control: S3 Control (buckets/control.h)

using Verb = Task<Result<void>> (*)(Context&);

struct Operation {
  Scope scope;
  std::string_view method;
  std::string_view selector;  // the query parameter that selects it; empty: none
  Verb serve;
  const Action* action = nullptr;  // the action on the bucket to authorize first; nullptr: the verb authorizes
};

// The first matching entry serves. A parameter that selects another operation, of this table or an unserved one of AWS,
// is 501, never a GET or PUT of the object. Other parameters are ignored, as at AWS: web pages add their own.
constexpr std::array operations = {
    Operation{Scope::service, "GET", "", serve_list_buckets},

    Operation{Scope::bucket, "GET", "location", serve_bucket_location, &action::get_location},
    Operation{Scope::bucket, "GET", "versioning", serve_bucket_versioning, &action::get_versioning},
    Operation{Scope::bucket, "GET", "acl", serve_bucket_acl, &action::get_bucket_acl},
    Operation{Scope::bucket, "GET", "cors", serve_get_bucket_cors, &action::get_cors},
    Operation{Scope::bucket, "PUT", "cors", serve_put_bucket_cors, &action::put_cors},
    Operation{Scope::bucket, "DELETE", "cors", serve_delete_bucket_cors, &action::put_cors},
    Operation{Scope::bucket, "GET", "tagging", serve_get_bucket_tagging, &action::get_bucket_tagging},
    Operation{Scope::bucket, "PUT", "tagging", serve_put_bucket_tagging, &action::put_bucket_tagging},
    Operation{Scope::bucket, "DELETE", "tagging", serve_delete_bucket_tagging, &action::put_bucket_tagging},
    Operation{Scope::bucket, "GET", "ownershipControls", serve_get_ownership_controls, &action::get_ownership},
    Operation{Scope::bucket, "PUT", "ownershipControls", serve_put_ownership_controls, &action::put_ownership},
    Operation{Scope::bucket, "DELETE", "ownershipControls", serve_delete_ownership_controls, &action::put_ownership},
    Operation{Scope::bucket, "GET", "publicAccessBlock", serve_get_public_access_block, &action::get_public_access},
    Operation{Scope::bucket, "PUT", "publicAccessBlock", serve_put_public_access_block, &action::put_public_access},
    Operation{Scope::bucket, "DELETE", "publicAccessBlock", serve_delete_public_access_block,
              &action::put_public_access},
    Operation{Scope::bucket, "GET", "notification", serve_get_notification, &action::get_notification},
    Operation{Scope::bucket, "PUT", "notification", serve_put_notification, &action::put_notification},
    Operation{Scope::bucket, "GET", "logging", serve_get_logging, &action::get_logging},
    Operation{Scope::bucket, "PUT", "logging", serve_put_logging, &action::put_logging},
    Operation{Scope::bucket, "GET", "accelerate", serve_get_accelerate, &action::get_accelerate},
    Operation{Scope::bucket, "PUT", "accelerate", serve_put_accelerate, &action::put_accelerate},
    Operation{Scope::bucket, "GET", "requestPayment", serve_get_request_payment, &action::get_request_payment},
    Operation{Scope::bucket, "PUT", "requestPayment", serve_put_request_payment, &action::put_request_payment},
    Operation{Scope::bucket, "GET", "website", serve_get_website, &action::get_website},
    Operation{Scope::bucket, "DELETE", "website", serve_delete_absent, &action::delete_website},
    Operation{Scope::bucket, "GET", "replication", serve_get_replication, &action::get_replication},
    Operation{Scope::bucket, "DELETE", "replication", serve_delete_absent, &action::put_replication},
    Operation{Scope::bucket, "GET", "encryption", serve_get_encryption, &action::get_encryption},
    Operation{Scope::bucket, "PUT", "encryption", serve_put_encryption, &action::put_encryption},
    Operation{Scope::bucket, "DELETE", "encryption", serve_delete_encryption, &action::put_encryption},
    Operation{Scope::bucket, "GET", "policy", serve_get_bucket_policy, &action::get_policy},
    Operation{Scope::bucket, "PUT", "policy", serve_put_bucket_policy, &action::put_policy},
    Operation{Scope::bucket, "DELETE", "policy", serve_delete_bucket_policy, &action::delete_policy},
    Operation{Scope::bucket, "GET", "policyStatus", serve_bucket_policy_status, &action::get_policy_status},
    Operation{Scope::bucket, "PUT", "acl", serve_put_bucket_acl, &action::put_bucket_acl},
    Operation{Scope::bucket, "GET", "uploads", serve_list_uploads, &action::list_uploads},
    Operation{Scope::bucket, "GET", "versions", serve_list_versions},
    Operation{Scope::bucket, "GET", "object-lock", serve_bucket_lock, &action::get_bucket_lock},
    Operation{Scope::bucket, "GET", "lifecycle", serve_bucket_lifecycle, &action::get_lifecycle},
    Operation{Scope::bucket, "GET", "verbena-bound", serve_get_bound, &action::get_lifecycle},
    Operation{Scope::bucket, "GET", "session", serve_create_session},
    Operation{Scope::bucket, "GET", "list-type", serve_list_objects_v2},
    Operation{Scope::bucket, "GET", "", serve_list_objects_v1},
    Operation{Scope::bucket, "PUT", "versioning", serve_put_bucket_versioning, &action::put_versioning},
    Operation{Scope::bucket, "PUT", "object-lock", serve_put_bucket_lock, &action::put_bucket_lock},
    Operation{Scope::bucket, "PUT", "lifecycle", serve_put_bucket_lifecycle, &action::put_lifecycle},
    Operation{Scope::bucket, "DELETE", "lifecycle", serve_delete_bucket_lifecycle, &action::put_lifecycle},
    Operation{Scope::bucket, "PUT", "verbena-bound", serve_put_bound, &action::put_lifecycle},
    Operation{Scope::bucket, "DELETE", "verbena-bound", serve_delete_bound, &action::put_lifecycle},
    Operation{Scope::bucket, "PUT", "", serve_create_bucket},
    Operation{Scope::bucket, "HEAD", "", serve_head_bucket},
    Operation{Scope::bucket, "DELETE", "", serve_delete_bucket},
    Operation{Scope::bucket, "POST", "delete", serve_delete_objects},
    Operation{Scope::bucket, "POST", "", serve_post_object},
    Operation{Scope::bucket, "OPTIONS", "", serve_preflight},

    Operation{Scope::object, "GET", "uploadId", serve_list_parts},
    Operation{Scope::object, "GET", "attributes", serve_object_attributes},
    Operation{Scope::object, "GET", "acl", serve_object_acl},
    Operation{Scope::object, "GET", "tagging", serve_object_tagging},
    Operation{Scope::object, "GET", "retention", serve_object_retention},
    Operation{Scope::object, "GET", "legal-hold", serve_object_legal_hold},
    Operation{Scope::object, "GET", "", serve_get_object},
    Operation{Scope::object, "HEAD", "", serve_head_object},
    Operation{Scope::object, "PUT", "acl", serve_put_object_acl},
    Operation{Scope::object, "PUT", "uploadId", serve_upload_part},
    Operation{Scope::object, "PUT", "tagging", serve_put_object_tagging},
    Operation{Scope::object, "PUT", "retention", serve_put_object_retention},
    Operation{Scope::object, "PUT", "legal-hold", serve_put_object_legal_hold},
    Operation{Scope::object, "PUT", "renameObject", serve_rename_object},
    Operation{Scope::object, "PUT", "verbena-touch", serve_touch_object},
    Operation{Scope::object, "PUT", "", serve_put_object},
    Operation{Scope::object, "POST", "uploads", serve_create_upload},
    Operation{Scope::object, "POST", "uploadId", serve_complete_upload},
    Operation{Scope::object, "DELETE", "uploadId", serve_abort_upload},
    Operation{Scope::object, "DELETE", "tagging", serve_delete_object_tagging},
    Operation{Scope::object, "DELETE", "", serve_delete_object},
    Operation{Scope::object, "OPTIONS", "", serve_preflight},

    // The selector is the subject in the path.
    Operation{Scope::control, "GET", "tags", serve_list_resource_tags, &action::list_resource_tags},
    Operation{Scope::control, "POST", "tags", serve_tag_resource, &action::tag_resource},
    Operation{Scope::control, "DELETE", "tags", serve_untag_resource, &action::untag_resource},
};

// The first entry of each scope and method, whose operations are adjacent: one comparison for all of them.
constexpr auto same_method_runs = [] {
  struct Runs {
    std::array<uint8_t, operations.size() + 1> begins{};
    size_t count = 0;
  } runs;
  for (size_t i = 0; i < operations.size(); ++i) {
    const bool goes_on =
        i != 0 && operations[i].scope == operations[i - 1].scope && operations[i].method == operations[i - 1].method;
    if (!goes_on) runs.begins[runs.count++] = static_cast<uint8_t>(i);
  }
  runs.begins[runs.count] = operations.size();
  return runs;
}();

std::string_view scope_name(Scope scope) {
  switch (scope) {
    case Scope::service:
      return "service";
    case Scope::bucket:
      return "bucket";
    case Scope::object:
      return "object";
    case Scope::control:
      return "control";
  }
  return {};
}

// "GET object?tagging": the name in docs/s3.md.
std::string_view action_name(const Operation& operation) {
  static const auto names = [] {
    std::array<std::string, operations.size()> made;
    for (size_t i = 0; i < made.size(); ++i) {
      const Operation& one = operations[i];
      made[i] = std::string(one.method).append(" ").append(scope_name(one.scope));
      if (!one.selector.empty()) made[i].append("?").append(one.selector);
    }
    return made;
  }();
  return names[static_cast<size_t>(&operation - operations.data())];
}

// The kind of a request, for its allowed headers. A PUT with a source is a copy.
RequestKind kind_of(const Context& context, const Operation& operation) {
  static const auto all = [] {
    std::array<RequestKind, operations.size()> made;
    for (size_t i = 0; i < made.size(); ++i) {
      const Operation& one = operations[i];
      const bool tags = one.scope == Scope::control && one.method == "POST";  // a bucket's document, as for a PUT
      made[i] = request_kind(one.scope != Scope::service, one.scope == Scope::object, tags ? "PUT" : one.method,
                             one.selector);
    }
    return made;
  }();
  const RequestKind kind = all[static_cast<size_t>(&operation - operations.data())];
  const bool may_copy = kind == RequestKind::put_object || kind == RequestKind::upload_part;
  return may_copy && context.header("x-amz-copy-source") ? copying(kind) : kind;
}

bool is_ascii_prefix(std::string_view text, std::string_view lower_prefix) {
  return text.size() >= lower_prefix.size() && std::equal(lower_prefix.begin(), lower_prefix.end(), text.begin(),
                                                          [](char p, char c) { return p == lower(c); });
}

// Sub-resources of AWS (and RGW's `append`) that are not served.
constexpr std::string_view not_served =
    " abac analytics annotation append intelligent-tiering inventory metadataConfiguration metadataInventoryTable "
    "metadataJournalTable metadataTable metrics restore select torrent ";

bool is_read(std::string_view method) { return method == "GET" || method == "HEAD"; }

// Whether a parameter selects an operation. Parameters that only shape an answer may be ignored, and listings handle
// `list-type`.
bool is_sub_resource(const std::string& parameter) {
  const bool spaced = std::ranges::find(parameter, ' ') != parameter.end();
  if (parameter.empty() || spaced || parameter == "list-type") return false;
  const auto selects = [&](const Operation& one) { return one.scope != Scope::control && one.selector == parameter; };
  return std::ranges::any_of(operations, selects) || not_served.find(" " + parameter + " ") != std::string_view::npos;
}

bool takes(const Operation& operation, const std::string& parameter) {
  if (parameter == operation.selector || operation.serve == serve_preflight) return true;
  // The PUT of a part must not become a PUT of the object.
  if (parameter == "partNumber") return is_read(operation.method) || operation.selector == "uploadId";
  return !is_sub_resource(parameter);
}

std::unexpected<Error> misplaced_part_number(Context& context, std::string_view value) {
  context.error_fields.emplace_back("ArgumentName", "partNumber");
  context.error_fields.emplace_back("ArgumentValue", value);
  return fail(Errc::invalid_argument, "This operation does not accept partNumber without uploadId.");
}

Result<const Operation*> find_operation(Scope scope, Context& context) {
  const std::string_view method = context.request.method;
  bool other_method = true;
  for (size_t run = 0; run < same_method_runs.count; ++run) {
    const size_t begin = same_method_runs.begins[run], end = same_method_runs.begins[run + 1];
    if (operations[begin].scope != scope || operations[begin].method != method) continue;
    other_method = false;
    for (const Operation& operation : std::span(operations).subspan(begin, end - begin)) {
      if (!operation.selector.empty() && !context.query.has(operation.selector)) continue;
      for (const auto& [name, value] : context.query.items()) {
        if (takes(operation, name)) continue;
        // A part number without an upload.
        if (name == "partNumber") return misplaced_part_number(context, value);
        context.error_fields.emplace_back("Query", name);
        return fail(Errc::not_implemented, "query parameter");
      }
      return &operation;
    }
  }
  if (!other_method || (method == "POST" && scope != Scope::service)) return fail(Errc::not_implemented, "operation");
  context.error_fields.emplace_back("Method", method);
  context.error_fields.emplace_back("ResourceType", scope == Scope::service  ? "SERVICE"
                                                    : scope == Scope::bucket ? "BUCKET"
                                                                             : "OBJECT");
  return fail(Errc::method_not_allowed, "method");
}

// A presigned URL may carry x-amz-* headers in its query (SDKs "hoist" them), where they count as headers. Excluded are
// those of authentication, checksums (SDKs hoist the checksum of the empty body that they had when they signed), and
// those that are also sent as headers, which count once.
Headers hoisted_headers(const Request& request, const Query& query) {
  constexpr std::array<std::string_view, 11> left_out = {
      "x-amz-s3session-token", "x-amz-algorithm",      "x-amz-credential",   "x-amz-date",
      "x-amz-expires",         "x-amz-signedheaders",  "x-amz-signature",    "x-amz-security-token",
      "x-amz-checksum-",       "x-amz-content-sha256", "x-amz-sdk-checksum-"};
  Headers hoisted;
  for (const auto& [name, value] : query.items()) {
    if (!is_ascii_prefix(name, "x-amz-")) continue;
    std::string header = lower(name);
    const auto auth = [&](std::string_view prefix) { return header.starts_with(prefix); };
    // Checksum parameters that count: requests for a checksum, and algorithms that S3 does not have, which are refused.
    const bool asks = header == "x-amz-checksum-mode" || header == "x-amz-checksum-algorithm" ||
                      header == "x-amz-checksum-type" || is_unknown_checksum(header);
    const bool wanted = asks || std::ranges::none_of(left_out, auth);
    if (wanted && !request.header(header)) hoisted.emplace_back(std::move(header), value);
  }
  return hoisted;
}

Result<const Operation*> find_allowed(Scope scope, Context& context) {
  auto operation = find_operation(scope, context);
  // Anonymous callers get AccessDenied for unknown sub-resources, as for those that exist.
  if (!operation && context.caller().identity.anonymous) return fail(Errc::access_denied, "anonymous");
  return operation;
}

// Further rules for requests to directory buckets, and for those signed for S3 Express.
Result<void> check_express(Context& context, const Operation& operation) {
  if (!is_directory_bucket(context.bucket)) {
    if (!context.caller().identity.express || operation.scope == Scope::service) return {};
    return fail(Errc::authorization_header_malformed, "The credential scope names another service.");
  }
  if (!context.service.express.enabled) return fail(Errc::invalid_bucket_name, "directory buckets are turned off");
  if (operation.serve == serve_preflight) return {};
  if (!serves_directory(operation.scope == Scope::object, operation.method, operation.selector)) {
    return fail(Errc::not_implemented, "not of directory buckets");
  }
  return check_directory_request(context, operation.selector);
}

bool asks_first(const Context& context, const Operation& operation) {
  return operation.action != nullptr || context.header("x-amz-expected-bucket-owner").has_value();
}

// Checks of every request, and authorization of actions on the bucket.
Task<Result<void>> admit(Context& context, const Operation& operation) {
  if (operation.scope == Scope::service) co_return Result<void>();
  if (operation.action != nullptr) {
    const auto may = co_await authorize_bucket(context.service, context.caller(), context.bucket, *operation.action);
    if (!may && may.error() == Errc::method_not_allowed) {
      context.error_fields.emplace_back("Method", context.request.method);
      context.error_fields.emplace_back("ResourceType", "BUCKETPOLICY");
    }
    VB_CO_TRY(may);
    context.made = (*may)->made();
    context.action = operation.action;
  }
  if (context.control) VB_CO_TRY(co_await check_control_account(context));
  if (const auto expected = context.header("x-amz-expected-bucket-owner")) {
    const auto owned = co_await check_expected_owner(context.service, context.bucket, *expected);
    const bool creates = operation.serve == serve_create_bucket;
    if (!owned && !(creates && owned.error() == Errc::no_such_bucket)) co_return std::unexpected(owned.error());
  }
  co_return Result<void>();
}

// Calls of S3 Control: the resource is in the path, and the whole query belongs to the call.
Result<const Operation*> resolve_control(Context& context) {
  VB_ASSIGN(context.query, Query::parse(context.request.raw_query));
  const std::string_view subject = control_subject(context.request);
  const auto asked_for = [&](const Operation& one) {
    return one.scope == Scope::control && one.method == context.request.method && one.selector == subject;
  };
  const auto operation = std::ranges::find_if(operations, asked_for);
  if (operation == operations.end()) {
    if (context.caller().identity.anonymous) return fail(Errc::access_denied, "anonymous");
    return fail(Errc::not_implemented, "Of S3 Control only the calls on tags of buckets are implemented.");
  }
  VB_ASSIGN(context.bucket, control_bucket(context.request));
  if (context.caller().identity.express && !is_directory_bucket(context.bucket)) {
    return fail(Errc::authorization_header_malformed, "The credential scope names another service.");
  }
  if (is_directory_bucket(context.bucket) && !context.service.express.enabled) {
    return fail(Errc::invalid_bucket_name, "directory buckets are turned off");
  }
  VB_TRY(check_request_headers(context, kind_of(context, *operation)));
  return &*operation;
}

Result<const Operation*> resolve(Context& context) {
  if (context.control) return resolve_control(context);
  VB_ASSIGN(Address address, resolve_address(context.request.host, context.request.raw_path, context.options.domain));
  context.bucket = std::move(address.bucket);
  context.key = std::move(address.key);
  // With a configured endpoint, SDKs send "/bucket//key" for a directory bucket; at AWS it is never in the path.
  const bool in_path = auth::virtual_bucket(context.request.host, context.options.domain).empty();
  if (in_path && is_directory_bucket(context.bucket) && context.key.starts_with('/')) context.key.erase(0, 1);
  VB_ASSIGN(context.query, Query::parse(context.request.raw_query));
  context.hoisted = hoisted_headers(context.request, context.query);
  context.call.facts.query = context.query.items();
  context.call.facts.hoisted = context.hoisted;
  const Scope scope = context.bucket.empty() ? Scope::service : context.key.empty() ? Scope::bucket : Scope::object;
  VB_ASSIGN(const Operation* operation, find_allowed(scope, context));
  // The name of a bucket with a cached record was validated before.
  const bool known = scope != Scope::service && cached_access(context.service, context.bucket) != nullptr;
  if (scope != Scope::service && !known) VB_TRY(check_bucket_name(context.bucket));
  if (scope == Scope::object) VB_TRY(check_key(context.key));
  VB_TRY(check_express(context, *operation));
  VB_TRY(check_request_headers(context, kind_of(context, *operation)));
  return operation;
}

// A HEAD's error has no body, so the region is in a header.
void say_region_of_head(Context& context) {
  context.response.body.clear();
  context.response.no_body = true;
  context.response.headers.emplace_back("x-amz-bucket-region", context.service.region);
}

void fill_context_error(Context& context, const Error& error) {
  add_error_details(context, error.code);
  fill_error_with(context.response, error, context.request.raw_path, context.caller().request_id, context.error_fields);
  if (context.control) {
    context.response.body = control_error_xml(error, context.caller().request_id, context.error_fields);
  }
  for (const auto& header : context.error_headers) {
    if (header.first == "retry-after") context.response.headers.erase(header.first);  // the one for its status
    context.response.headers.push_back(header);
  }
  if (context.request.method == "HEAD") say_region_of_head(context);
}

// A form names its signer inside it. Its verb (objects/post) checks and charges that one.
bool names_signer_inside(const Operation& operation) { return operation.serve == serve_post_object; }

// Signed requests were checked with their signature.
Result<void> check_unsigned(const Context& context, const Operation& operation) {
  const auth::NetworkRules* const networks = context.options.networks;
  if (networks == nullptr || !context.caller().identity.anonymous) return {};
  if (names_signer_inside(operation) || operation.serve == serve_preflight) return {};
  return networks->check_caller(context.caller().peer_address, context.caller().identity);
}

Task<bool> answer(Context& context);

// A call that connects is a request of its caller; the transfer behind it is another, of its bucket.
Task<bool> answer_dialect(Context& context) {
  if (auth::rates_are_in_use()) {
    const std::string bucket = std::exchange(context.bucket, {});
    const auto counted = co_await count_requests(context, 1);
    if (!counted) {
      fill_context_error(context, counted.error());
      co_return true;
    }
    context.bucket = bucket;
  }
  co_return co_await serve_dialect(context, answer);
}

// Fills the response. False: the sink was begun and failed.
Task<bool> answer(Context& context) {
  const auto operation = resolve(context);
  if (!operation && is_dialect_route(context)) co_return co_await answer_dialect(context);
  if (!context.bucket.empty() && context.request.header("origin")) co_await add_cors_headers(context);
  if (buckets_have_logs(context) && !context.bucket.empty()) {
    co_await begin_record(context, operation ? (*operation)->selector : std::string_view());
  }
  if (!operation) {
    fill_context_error(context, operation.error());
    co_return true;
  }
  context.call.outcome.action = action_name(**operation);
  Result<void> served = check_unsigned(context, **operation);
  if (served && auth::rates_are_in_use() && !names_signer_inside(**operation)) {
    served = co_await count_requests(context, 1);
  }
  if (served && asks_first(context, **operation)) served = co_await admit(context, **operation);
  if (served) served = co_await (*operation)->serve(context);
  if (served) co_return true;
  if (context.sink.begun()) co_return false;
  fill_context_error(context, served.error());
  co_return true;
}

}  // namespace

Router::Router(Service& service, rdma::Dialect* windows, Options options)
    : service_(service), windows_(windows), options_(std::move(options)) {
  call::register_door_metrics();
  rdma::register_dialect_metrics();
}

const std::function<Headers()> Router::no_trailers;

Context Router::context_of(Request& request, const std::function<Headers()>& trailing, memory::Source& body,
                           Response& response, memory::Sink& sink) {
  request.call.facts = {.http = true, .headers = request.headers};
  return {.service = service_,
          .windows = windows_,
          .options = options_,
          .request = request,
          .call = request.call,
          .trailing = trailing,
          .body = body,
          .response = response,
          .sink = WatchedSink(sink)};
}

Task<bool> Router::handle(Request& request, memory::Source& body, std::function<Headers()> trailing, Response& response,
                          memory::Sink& sink) {
  Context context = context_of(request, trailing, body, response, sink);
  request.call.facts.arrived_us = service_.clock.now_us();
  context.control = is_control_request(request, options_.domain);
  add_request_ids(response, request.call.request_id);
  const bool whole = co_await answer(context);
  note_target(context);
  co_return whole;
}

Task<void> Router::refuse(Request& request, Error error, memory::Source& body, Response& response, memory::Sink& sink) {
  Context context = context_of(request, no_trailers, body, response, sink);
  context.control = is_control_request(request, options_.domain);
  const auto address = resolve_address(request.host, request.raw_path, options_.domain);
  if (!context.control && address && check_bucket_name(address->bucket)) {
    context.bucket = address->bucket;
    co_await add_cors_headers(context);
  }
  const Headers details = refusal_details(request, error, service_.clock.now_s());
  fill_error_with(response, error, request.raw_path, request.call.request_id, details);
  if (context.control) response.body = control_error_xml(error, request.call.request_id, details);
  for (auto& header : context.error_headers) response.headers.push_back(std::move(header));
  if (request.method == "HEAD") say_region_of_head(context);
}

}  // namespace verbena::s3
