#include "client/http/s3_http.h"

#include <algorithm>
#include <charconv>

#include "auth/bucket_token.h"
#include "base/checksum.h"
#include "base/text.h"
#include "base/xml_escape.h"
#include "client/trace_scope.h"

namespace verbena::client {
namespace {

constexpr std::string_view unsigned_payload = "UNSIGNED-PAYLOAD";
constexpr std::string_view empty_sha256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

std::string path_of(const S3Call& call) {
  std::string path = "/";
  if (!call.bucket.empty()) path += auth::uri_encode(call.bucket, false);
  if (!call.key.empty()) path += "/" + auth::uri_encode(call.key, true);
  return path;
}

std::string query_of(const S3Call& call) {
  std::string out;
  for (const auto& [name, value] : call.query) {
    if (!out.empty()) out += '&';
    out += auth::uri_encode(name, false) + "=" + auth::uri_encode(value, false);
  }
  return out;
}

Outcome<> check_bucket_name(const std::string& bucket) {
  if (bucket.empty()) return fault(ErrorCode::invalid_argument, "the bucket name is empty");
  return {};
}

std::string default_message(ErrorCode code, int status) {
  switch (code) {
    case ErrorCode::no_such_bucket:
      return "no such bucket";
    case ErrorCode::no_such_key:
      return "no such key";
    case ErrorCode::access_denied:
      return "access denied";
    case ErrorCode::precondition_failed:
      return "a condition was not met";
    case ErrorCode::not_modified:
      return "not modified";
    case ErrorCode::invalid_range:
      return "the range lies outside the object";
    case ErrorCode::slow_down:
      return "the server is overloaded";
    default:
      return "the server answered with status " + std::to_string(status);
  }
}

ClientError error_of(const net::HttpReply& reply, const S3Call& call) {
  XmlError xml = parse_error_xml(reply.body);
  ClientError out;
  out.http_status = reply.status;
  out.code = code_for(xml.code, reply.status, !call.key.empty());
  out.s3_code = std::move(xml.code);
  out.message = xml.message.empty() ? default_message(out.code, reply.status) : std::move(xml.message);
  // S3's errors have no field for the reason why a token was declined.
  if (const auto why = reply.header("x-verbena-rdma-declined"))
    out.message += " (" + std::string(why->substr(0, 200)) + ")";
  out.request_id = std::move(xml.request_id);
  if (out.request_id.empty()) out.request_id = std::string(reply.header("x-amz-request-id").value_or(""));
  return out;
}

std::vector<std::pair<std::string, std::string>> version_query(const std::string& version_id) {
  if (version_id.empty()) return {};
  return {{"versionId", version_id}};
}

uint64_t parse_size(std::string_view text) {
  uint64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  return error == std::errc() && end == text.data() + text.size() ? size : 0;
}

// A request's deadline, even if the server makes steady progress: twice the time allowed without progress, plus the
// time that the bytes take over a very slow link.
Deadline deadline_of(const net::HttpRequest& request, std::chrono::milliseconds stall) {
  constexpr uint64_t rate_min = 16 * KiB;  // bytes per second
  const uint64_t bytes = request.body.size() + (request.into ? request.into->size() : MiB);
  return deadline_in(2 * stall + std::chrono::seconds(bytes / rate_min));
}

Outcome<> check_names(const S3Call& call) {
  if (call.bucket.empty() && !call.key.empty()) return fault(ErrorCode::invalid_argument, "the bucket name is empty");
  if (call.bucket.size() > 255) return fault(ErrorCode::invalid_argument, "the bucket name is too long");
  if (call.bucket.find('/') != std::string::npos) return fault(ErrorCode::invalid_argument, "a bucket name has no '/'");
  if (call.key.size() > 1024) return fault(ErrorCode::too_large, "the key is longer than 1024 bytes");
  return {};
}

// The document that CreateBucket needs for a directory bucket, whose name contains its zone; empty for other buckets.
std::string directory_document(std::string_view bucket) {
  if (!BucketSessions::is_directory(bucket)) return {};
  const std::string_view stem = bucket.substr(0, bucket.size() - std::string_view("--x-s3").size());
  const size_t dashes = stem.rfind("--");
  if (dashes == std::string_view::npos) return {};  // the server reports the error
  std::string out("<CreateBucketConfiguration><Location><Name>");
  append_xml_escaped(out, stem.substr(dashes + 2));
  return out +=
         "</Name><Type>AvailabilityZone</Type></Location><Bucket><DataRedundancy>SingleAvailabilityZone</"
         "DataRedundancy>"
         "<Type>Directory</Type></Bucket></CreateBucketConfiguration>";
}

// True for calls that a directory bucket's session may make: object requests, and listings of objects.
bool goes_in_session(const S3Call& call) {
  if (!BucketSessions::is_directory(call.bucket)) return false;
  if (!call.key.empty()) return true;
  constexpr std::string_view listings[] = {"list-type", "uploads", "delete"};
  return std::ranges::any_of(
      call.query, [&](const auto& one) { return std::ranges::find(listings, one.first) != std::end(listings); });
}

// True for the errors of an expired session. The server did nothing.
bool ended(const ClientError& error) {
  return error.s3_code == "ExpiredToken" || error.s3_code == "InvalidToken" || error.s3_code == "InvalidAccessKeyId";
}

}  // namespace

PutReply put_reply(const net::HttpReply& reply) {
  PutReply out;
  out.etag = object_info(reply, {}).etag;
  out.version_id = std::string(reply.header("x-amz-version-id").value_or(""));
  out.object_size = parse_size(reply.header("x-amz-object-size").value_or(""));
  out.headers = said_headers(reply);
  return out;
}

Outcome<auth::Credentials> S3Http::open_session(const std::string& bucket, const std::stop_token& stop) {
  S3Call request{.method = "GET", .bucket = bucket, .query = {{"session", ""}}};
  request.stop = stop;
  OUT_ASSIGN(const net::HttpReply reply, call_signed(request, nullptr));
  return parse_session_xml(reply.body);
}

Outcome<net::HttpReply> S3Http::call(const S3Call& call) {
  // Credentials of a session that was opened elsewhere sign all requests.
  if (auth::is_bucket_token(options_.credentials.session_token)) return call_signed(call, &options_.credentials);
  if (options_.credentials.access_key.empty() || !goes_in_session(call)) return call_signed(call, nullptr);
  OUT_TRY(check_names(call));
  const auto open = [&] { return open_session(call.bucket, call.stop); };
  for (bool again = false;; again = true) {
    OUT_ASSIGN(const BucketSessions::Credentials session, sessions_.get(call.bucket, call.stop, open));
    auto reply = call_signed(call, session.get());
    if (reply || again || session == nullptr || !ended(reply.error())) return reply;
    sessions_.forget(call.bucket, session);
  }
}

Outcome<net::HttpReply> S3Http::call_signed(const S3Call& call, const auth::Credentials* session) {
  OUT_TRY(check_names(call));
  const std::string path = path_of(call);
  const std::string query = query_of(call);
  net::HttpRequest request;
  request.method = call.method;
  request.target = query.empty() ? path : path + "?" + query;
  request.headers = call.headers;
  request.headers.emplace_back("host", http_.host_header());
  request.body = call.body;
  request.into = call.into;
  request.status_suffices = call.status_suffices;
  request.replayable = call.replayable;
  request.stop = call.stop;
  request.meanwhile = call.meanwhile;
  if (!options_.credentials.access_key.empty()) {
    std::string hash(empty_sha256);
    if (call.unsigned_payload) {
      hash = unsigned_payload;
    } else if (!call.body.empty()) {
      const bool sign = options_.sign_payload && !http_.options().tls;
      hash = sign ? to_hex(verbena::as_bytes(sha256(call.body))) : std::string(unsigned_payload);
    }
    const auto done = auth::sign(session != nullptr ? *session : options_.credentials, options_.region,
                                 session != nullptr ? "s3express" : "s3", system_clock(), request.method, path, query,
                                 hash, request.headers);
    if (!done) return std::unexpected(from_error(done.error(), "http"));
  }
  // Added after signing: a proxy may replace it.
  if (const ThreadTrace* trace = thread_trace()) request.headers.emplace_back("traceparent", trace->traceparent);
  request.deadline = deadline_of(request, http_.options().stall_timeout);
  if (call.within) request.deadline = std::min(*request.deadline, deadline_in(*call.within));
  auto reply = http_.request(request);
  if (!reply) {
    ClientError error = from_error(reply.error(), "http");
    if (reply.error().code == Errc::too_large && call.into) {
      error.message = "the object does not fit the buffer of " + std::to_string(call.into->size()) + " bytes";
    } else if (reply.error().code == Errc::too_large) {
      error.code = ErrorCode::malformed_reply;
    } else if (reply.error().code == Errc::bad_config) {
      error.code = ErrorCode::local_error;
    }
    return std::unexpected(std::move(error));
  }
  if (reply->status / 100 != 2) {
    ClientError error = error_of(*reply, call);
    // The second of two requests changed nothing; the first may have been received.
    if (reply->repeated && request.changes() && error.code == ErrorCode::slow_down)
      error.code = ErrorCode::outcome_unknown;
    return std::unexpected(std::move(error));
  }
  return std::move(*reply);
}

Outcome<GetReply> S3Http::get(const std::string& bucket, const std::string& key, MutableBytes into,
                              const GetOptions& options) {
  S3Call request{.method = "GET", .bucket = bucket, .key = key, .headers = get_headers(options), .into = into};
  request.query = version_query(options.version_id);
  request.stop = options.cancel;
  if (options_.verify_checksums && !options.range) request.headers.emplace_back("x-amz-checksum-mode", "ENABLED");
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  GetReply out;
  out.info = object_info(reply, key);
  out.bytes = reply.body_bytes;
  if (options.range && reply.status != 206) {
    return fault(ErrorCode::malformed_reply, "the server ignored the range");
  }
  if (!options.range && options_.verify_checksums && !matches(checksum_of(reply), Bytes(into).first(out.bytes))) {
    return fault(ErrorCode::checksum_mismatch, "the bytes that arrived do not match the object's checksum");
  }
  out.transfer.door = Via::http;
  out.transfer.provider = provider();
  out.transfer.bytes = out.bytes;
  return out;
}

Outcome<PutReply> S3Http::put(const std::string& bucket, const std::string& key, Bytes from,
                              const PutOptions& options) {
  const bool conditional = !options.if_match.empty() || !options.if_none_match.empty() || options.append_at;
  S3Call request{.method = "PUT", .bucket = bucket, .key = key, .body = from, .replayable = !conditional};
  request.stop = options.cancel;
  OUT_ASSIGN(request.headers, put_headers(options));
  if (options.checksum.empty()) {
    request.headers.emplace_back("x-amz-checksum-crc32c", crc32c_base64(crc32c(from)));
  } else {
    OUT_ASSIGN(const KnownChecksum given, parse_checksum(options.checksum));
    request.headers.emplace_back(checksum_header(given.algorithm), given.base64);
  }
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  PutReply out = put_reply(reply);
  out.transfer.door = Via::http;
  out.transfer.provider = provider();
  out.transfer.bytes = from.size();
  return out;
}

Outcome<ObjectInfo> S3Http::head(const std::string& bucket, const std::string& key, const HeadOptions& options) {
  S3Call request{.method = "HEAD", .bucket = bucket, .key = key, .headers = {{"x-amz-checksum-mode", "ENABLED"}}};
  request.query = version_query(options.version_id);
  request.stop = options.cancel;
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  ObjectInfo info = object_info(reply, key);
  if (info.size > size_believed_max) return fault(ErrorCode::malformed_reply, "the server names an impossible size");
  return info;
}

Outcome<> S3Http::remove(const std::string& bucket, const std::string& key, const RemoveOptions& options) {
  if (key.empty()) return fault(ErrorCode::invalid_argument, "the key is empty");
  S3Call request{.method = "DELETE", .bucket = bucket, .key = key, .replayable = false, .stop = options.cancel};
  request.query = version_query(options.version_id);
  GetOptions condition;
  condition.if_match = options.if_match;
  request.headers = get_headers(condition);
  OUT_TRY(call(request));
  return {};
}

Outcome<> S3Http::rename(const std::string& bucket, const std::string& from, const std::string& to,
                         const RenameOptions& options) {
  if (from.empty() || to.empty()) return fault(ErrorCode::invalid_argument, "the key is empty");
  S3Call request{.method = "PUT",
                 .bucket = bucket,
                 .key = to,
                 .query = {{"renameObject", ""}},
                 .replayable = !options.token.empty(),
                 .stop = options.cancel};
  GetOptions target;
  target.if_match = options.if_match;
  target.if_none_match = options.if_none_match;
  request.headers = get_headers(target);
  // The bare key, except where it could be read as another form of the rename source.
  const std::string bucket_and_slash = std::string(bucket) + "/";
  const bool two_readings = from.starts_with('/') || from.starts_with(bucket_and_slash);
  const std::string source = two_readings ? "/" + bucket_and_slash + std::string(from) : std::string(from);
  request.headers.emplace_back("x-amz-rename-source", auth::uri_encode(source, true));
  if (!options.source_if_match.empty()) {
    const std::string tag = options.source_if_match == "*" ? "*" : "\"" + options.source_if_match + "\"";
    request.headers.emplace_back("x-amz-rename-source-if-match", tag);
  }
  if (!options.token.empty()) request.headers.emplace_back("x-amz-client-token", options.token);
  OUT_TRY(call(request));
  return {};
}

Outcome<ListPage> S3Http::list(const std::string& bucket, const ListOptions& options) {
  OUT_TRY(check_bucket_name(bucket));
  S3Call request{.method = "GET", .bucket = bucket, .query = {{"encoding-type", "url"}, {"list-type", "2"}}};
  request.stop = options.cancel;
  if (!options.continuation.empty()) request.query.emplace_back("continuation-token", options.continuation);
  if (!options.delimiter.empty()) request.query.emplace_back("delimiter", options.delimiter);
  request.query.emplace_back("max-keys", std::to_string(options.max_keys));
  if (!options.prefix.empty()) request.query.emplace_back("prefix", options.prefix);
  if (!options.after.empty()) request.query.emplace_back("start-after", options.after);
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  return parse_list_xml(reply.body);
}

Outcome<> S3Http::make_bucket(const std::string& bucket, BucketDurability durability, BucketEtags etags) {
  OUT_TRY(check_bucket_name(bucket));
  S3Call request{.method = "PUT", .bucket = bucket, .replayable = false};
  const std::string document = directory_document(bucket);
  request.body = as_bytes(document);
  if (durability == BucketDurability::memory) request.headers.emplace_back("x-verbena-durability", "memory");
  if (etags == BucketEtags::fast) request.headers.emplace_back("x-verbena-etag", "fast");
  OUT_TRY(call(request));
  return {};
}

Outcome<> S3Http::remove_bucket(const std::string& bucket) {
  OUT_TRY(check_bucket_name(bucket));
  OUT_TRY(call({.method = "DELETE", .bucket = bucket, .replayable = false}));
  return {};
}

Outcome<> S3Http::set_bound(const std::string& bucket, const BucketBound& bound) {
  OUT_TRY(check_bucket_name(bucket));
  const std::string document = bound_xml(bound);
  OUT_TRY(call({.method = "PUT", .bucket = bucket, .query = {{"verbena-bound", ""}}, .body = as_bytes(document)}));
  return {};
}

Outcome<std::optional<BucketBound>> S3Http::bound(const std::string& bucket) {
  OUT_TRY(check_bucket_name(bucket));
  OUT_ASSIGN(const net::HttpReply reply, call({.bucket = bucket, .query = {{"verbena-bound", ""}}}));
  return parse_bound_xml(reply.body);
}

Outcome<> S3Http::remove_bound(const std::string& bucket) {
  OUT_TRY(check_bucket_name(bucket));
  OUT_TRY(call({.method = "DELETE", .bucket = bucket, .query = {{"verbena-bound", ""}}}));
  return {};
}

Outcome<std::vector<BucketInfo>> S3Http::buckets() {
  constexpr int pages_max = 1000;  // as our server sends them: ten million buckets
  std::vector<BucketInfo> all;
  std::string after;
  for (int pages = 0; pages < pages_max; ++pages) {
    S3Call request{.method = "GET"};
    if (!after.empty()) request.query.emplace_back("continuation-token", after);
    OUT_ASSIGN(const net::HttpReply reply, call(request));
    OUT_ASSIGN(BucketPage page, parse_buckets_xml(reply.body));
    std::ranges::move(page.buckets, std::back_inserter(all));
    if (page.continuation.empty()) return all;
    after = std::move(page.continuation);
  }
  return fault(ErrorCode::malformed_reply, "The list of buckets has no end.");
}

Outcome<std::string> S3Http::create_upload(const std::string& bucket, const std::string& key,
                                           const PutOptions& options) {
  S3Call request{.method = "POST", .bucket = bucket, .key = key, .query = {{"uploads", ""}}, .replayable = false};
  request.stop = options.cancel;
  PutOptions unconditional = options;  // conditions belong to the completion
  unconditional.if_match.clear();
  unconditional.if_none_match.clear();
  OUT_ASSIGN(request.headers, put_headers(unconditional));
  request.headers.emplace_back("x-amz-checksum-algorithm", "CRC32C");
  request.headers.emplace_back("x-amz-checksum-type", "FULL_OBJECT");
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  return parse_initiate_upload_xml(reply.body);
}

S3Call part_call(const UploadPart& part) {
  return {.method = "PUT",
          .bucket = part.bucket,
          .key = part.key,
          .query = {{"partNumber", std::to_string(part.number)}, {"uploadId", part.upload_id}},
          .stop = part.stop};
}

Outcome<PutReply> S3Http::put_part(const UploadPart& part) {
  S3Call request = part_call(part);
  request.headers.emplace_back(checksum_header(part.checksum.algorithm), part.checksum.base64);
  request.body = part.from;
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  PutReply put = put_reply(reply);
  if (put.etag.empty()) return fault(ErrorCode::malformed_reply, "the server acknowledged a part without an ETag");
  return put;
}

Outcome<PutReply> S3Http::complete_upload(const std::string& bucket, const std::string& key,
                                          const std::string& upload_id, const std::vector<CompletedPart>& parts,
                                          uint32_t whole_crc32c, const PutOptions& options) {
  const std::string xml = complete_upload_xml(parts);
  S3Call request{.method = "POST",
                 .bucket = bucket,
                 .key = key,
                 .query = {{"uploadId", upload_id}},
                 .body = as_bytes(xml),
                 .replayable = false,
                 .stop = options.cancel};
  PutOptions conditions;
  conditions.if_match = options.if_match;
  conditions.if_none_match = options.if_none_match;
  OUT_ASSIGN(request.headers, put_headers(conditions));
  request.headers.emplace_back("content-type", "application/xml");
  request.headers.emplace_back("x-amz-checksum-crc32c", crc32c_base64(whole_crc32c));
  request.headers.emplace_back("x-amz-checksum-type", "FULL_OBJECT");
  OUT_ASSIGN(const net::HttpReply reply, call(request));
  PutReply out = put_reply(reply);
  OUT_ASSIGN(out.etag, parse_complete_upload_xml(reply.body));
  return out;
}

Outcome<> S3Http::abort_upload(const std::string& bucket, const std::string& key, const std::string& upload_id,
                               std::optional<std::chrono::milliseconds> within) {
  S3Call request{.method = "DELETE", .bucket = bucket, .key = key, .query = {{"uploadId", upload_id}}};
  request.within = within;
  OUT_TRY(call(request));
  return {};
}

}  // namespace verbena::client
