#include "cli/bucket_usage.h"

#include <fmt/core.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "auth/auth.h"
#include "base/bytes.h"
#include "base/checksum.h"
#include "base/log.h"
#include "cli/admin_call.h"
#include "cli/report.h"
#include "client/endpoint.h"
#include "net/http_client.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

struct UsageField {
  const char* header;
  uint64_t BucketUsage::* value;
};
constexpr UsageField usage_fields[] = {{"x-verbena-objects", &BucketUsage::objects},
                                       {"x-verbena-bytes", &BucketUsage::bytes},
                                       {"x-verbena-versions", &BucketUsage::versions},
                                       {"x-verbena-version-bytes", &BucketUsage::version_bytes},
                                       {"x-verbena-delete-markers", &BucketUsage::delete_markers},
                                       {"x-verbena-uploads", &BucketUsage::uploads},
                                       {"x-verbena-upload-bytes", &BucketUsage::upload_bytes}};

std::optional<uint64_t> header_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (ec != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

uint64_t usage_number(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

void show_usage_line(const Json& usage, const std::string& place, bool human, bool json) {
  const uint64_t objects = usage_number(usage, "objects"), bytes = usage_number(usage, "bytes");
  if (json) {
    Json line = usage;
    line.erase("buckets");
    line["place"] = place;
    fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{:>14}  {:>10}  {}\n", human ? format_size(bytes) : fmt::format("{}", bytes), objects,
               log::printable(place));
  }
}

}  // namespace

std::optional<BucketUsage> bucket_usage(const ClientOptions& options, const std::string& bucket) {
  const auto endpoint = client::parse_endpoint(options.endpoint);
  if (!endpoint) return std::nullopt;
  net::HttpOptions http{
      .host = endpoint->host, .port = endpoint->port, .tls = endpoint->tls, .ca_file = options.ca_file};
  http.insecure = options.insecure;
  const auto client = net::HttpClient::create(std::move(http));
  if (!client) return std::nullopt;
  net::HttpRequest request;
  request.method = "HEAD";
  request.target = "/" + auth::uri_encode(bucket, true);
  request.headers = {{"host", (*client)->host_header()}};
  if (!options.access_key.empty()) {
    auth::sign({options.access_key, options.secret_key, options.session_token}, options.region, "s3", system_clock(),
               request.method, request.target, "", to_hex(as_bytes(sha256(Bytes()))), request.headers);
  }
  const auto reply = (*client)->request(request);
  if (!reply || reply->status != 200) return std::nullopt;
  BucketUsage usage;
  for (const UsageField& field : usage_fields) {
    const auto header = reply->header(field.header);
    const auto value = header ? header_number(*header) : std::nullopt;
    if (!value) return std::nullopt;
    usage.*field.value = *value;
  }
  return usage;
}

int show_account_usage(const ClientFlags& flags, const std::string& account, bool human, bool json) {
  AdminTarget target;
  target.client = flags;
  const auto answer = admin_call(target, "usage", Json{{"name", account}}, account);
  if (!answer) return answer.error();
  const auto buckets = answer->find("buckets");
  if (buckets != answer->end() && buckets->is_array()) {
    for (const Json& bucket : *buckets) {
      const auto name = bucket.is_object() ? bucket.find("bucket") : bucket.end();
      if (name != bucket.end() && name->is_string())
        show_usage_line(bucket, "s3://" + name->get<std::string>(), human, json);
    }
  }
  show_usage_line(*answer, "account " + account, human, json);
  return exit_ok;
}

}  // namespace verbena::cli
