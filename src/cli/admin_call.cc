#include "cli/admin_call.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "auth/identity_store.h"
#include "base/checksum.h"
#include "base/log.h"
#include "cli/report.h"
#include "client/endpoint.h"
#include "client/outcome.h"
#include "iam/admin.h"
#include "net/http_client.h"
#include "server/data_directory.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds busy_pause_first{250}, busy_pause_max{2000};

struct Answer {
  int status = 0;
  std::string body;
};

std::unexpected<int> stop(const std::string& subject, std::string_view problem, ExitCode code) {
  return std::unexpected(static_cast<int>(report(subject, problem, code)));
}

std::expected<Answer, int> ask_server(const ClientFlags& flags, const std::string& call, const std::string& body) {
  const auto options = flags.options();
  if (!options) return std::unexpected(static_cast<int>(exit_usage));
  const auto endpoint = client::parse_endpoint(options->endpoint);
  if (!endpoint) return std::unexpected(static_cast<int>(report(options->endpoint, endpoint.error())));
  net::HttpOptions http{
      .host = endpoint->host, .port = endpoint->port, .tls = endpoint->tls, .ca_file = options->ca_file};
  http.insecure = options->insecure;
  auto client = net::HttpClient::create(std::move(http));
  if (!client) return stop(options->endpoint, describe(client.error()), exit_failure);
  net::HttpRequest request;
  request.method = "POST";
  request.target = "/-/admin/" + call;
  request.headers = {{"host", (*client)->host_header()}, {"content-type", "application/json"}};
  request.body = as_bytes(body);
  if (!options->access_key.empty()) {
    auth::sign({options->access_key, options->secret_key, options->session_token}, options->region, "s3",
               system_clock(), request.method, request.target, "", to_hex(as_bytes(sha256(request.body))),
               request.headers);
  }
  const auto reply = (*client)->request(request);
  if (!reply) {
    return std::unexpected(static_cast<int>(report(options->endpoint, client::from_error(reply.error(), "http"))));
  }
  return Answer{reply->status, reply->body};
}

// Holds the directory's lock, so that no server can open it.
std::expected<Answer, int> ask_directory(const AdminTarget& target, const std::string& call, const std::string& body,
                                         const std::string& subject) {
  const std::string& path = target.data;
  if (iam::removes_accounts(call) && subject.find('/') == std::string::npos) {
    return stop(subject, "only a running server knows whether the account still owns buckets; leave --data out",
                exit_usage);
  }
  const auto directory = server::DataDirectory::open(path);
  if (!directory) return stop(path, directory.error(), exit_failure);
  const auto root = server::root_keys(*directory);
  if (!root) return stop(path, root.error(), exit_failure);
  const auto key_file = target.key_file.empty() ? directory->master_keys() : std::filesystem::path(target.key_file);
  const auto keys = auth::KeyRing::open(key_file, directory->master_key_ids());
  if (!keys) return stop(path, keys.error(), exit_failure);
  const auto store = auth::IdentityStore::open(directory->identities(), **keys, root->credentials);
  if (!store) return stop(path, store.error(), exit_failure);
  s3::Response response;
  iam::answer_admin(**store, system_clock(), call, body, {}, response);
  return Answer{response.status, std::move(response.body)};
}

ExitCode exit_code_of(int status, const std::string& code) {
  if (code == "EntityAlreadyExists" || code == "DeleteConflict" || code == "LimitExceeded") return exit_conflict;
  if (code == "NoSuchEntity") return exit_not_found;
  if (status == 401 || status == 403) return exit_access_denied;
  return status >= 500 ? exit_failure : exit_usage;
}

}  // namespace

std::expected<Json, int> admin_call(const AdminTarget& target, const std::string& call, const Json& arguments,
                                    const std::string& subject, unsigned tries_max) {
  if (arguments.dump(-1, ' ', false, Json::error_handler_t::replace).size() > 64 * KiB) {
    return stop(subject, "the request is larger than 64 KiB", exit_usage);
  }
  const std::string body = arguments.dump(-1, ' ', false, Json::error_handler_t::replace);
  const auto ask = [&] {
    return target.data.empty() ? ask_server(target.client, call, body) : ask_directory(target, call, body, subject);
  };
  auto answer = ask();
  auto pause = busy_pause_first;
  for (unsigned tries = 1; answer && answer->status == 503 && tries < tries_max; ++tries) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, busy_pause_max);
    answer = ask();
  }
  if (!answer) return std::unexpected(answer.error());
  Json json = Json::parse(answer->body, nullptr, /*allow_exceptions=*/false);
  if (answer->status == 200 && json.is_object()) return json;
  const Json none = Json::object();
  const Json& error = json.is_object() && json.contains("error") && json["error"].is_object() ? json["error"] : none;
  const std::string code = error.value("code", Json("")).is_string() ? error.value("code", "") : "";
  std::string message = error.value("message", Json("")).is_string() ? error.value("message", "") : "";
  if (message.empty()) message = "the server answered with status " + std::to_string(answer->status);
  if (error.empty()) message += ", and not as Verbena does: is this its S3 endpoint?";
  return stop(subject, log::printable(message, 1000), exit_code_of(answer->status, code));
}

}  // namespace verbena::cli
