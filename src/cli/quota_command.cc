// `verbena quota`: limits of storage and of requests per second for an account, a user or a bucket.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "cli/admin_call.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;

struct QuotaArguments {
  AdminTarget target;
  bool json = false;
  std::string name, bytes, bandwidth;
  std::optional<uint64_t> objects, requests;
};
using QuotaArgumentsPtr = std::shared_ptr<QuotaArguments>;

// {"bucket": ...} or {"name": ...}; nullopt, after reporting it, when it is neither.
std::optional<Json> subject_of(const QuotaArguments& arguments) {
  const std::string& name = arguments.name;
  if (!name.starts_with("s3://")) return Json{{"name", name}};
  if (!arguments.target.data.empty()) {
    report(name, "only a running server knows the quota of a bucket: leave --data out", exit_usage);
    return std::nullopt;
  }
  const auto address = parse_s3_address(name);
  if (address && address->key.empty()) return Json{{"bucket", address->bucket}};
  report(name, address ? "a quota is for a bucket, not for a prefix" : address.error(), exit_usage);
  return std::nullopt;
}

uint64_t member_number(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number_unsigned() ? found->get<uint64_t>() : 0;
}

void print_line(const Json& json) { fmt::print("{}\n", json.dump(-1, ' ', false, Json::error_handler_t::replace)); }

// "objects        12 of 100". `usage`: null if unknown.
void show_quota(const Json& quota, const Json& usage) {
  const auto limit = [&](const char* name, const std::function<std::string(uint64_t)>& text) {
    return quota.contains(name) ? text(member_number(quota, name)) : std::string("no limit");
  };
  const auto plain = [](uint64_t n) { return std::to_string(n); };
  const auto size = [](uint64_t n) { return format_size(n); };
  if (usage.is_object()) {
    const uint64_t objects = member_number(usage, "objects") + member_number(usage, "versions") +
                             member_number(usage, "delete_markers") + member_number(usage, "uploads");
    const uint64_t bytes =
        member_number(usage, "bytes") + member_number(usage, "version_bytes") + member_number(usage, "upload_bytes");
    fmt::print("{:<15} {}, {} in use\n", "bytes", limit("bytes", size), format_size(bytes));
    fmt::print("{:<15} {}, {} in use\n", "objects", limit("objects", plain), objects);
  } else {
    fmt::print("{:<15} {}\n{:<15} {}\n", "bytes", limit("bytes", size), "objects", limit("objects", plain));
  }
  fmt::print("{:<15} {}\n", "requests/s", limit("requests_per_second", plain));
  fmt::print("{:<15} {}\n", "bytes/s", limit("bytes_per_second", size));
}

// False, after reporting it: not a size.
bool add_size(const std::string& text, const char* name, const char* option, Json& quota) {
  if (text.empty()) return true;
  const auto size = parse_size(text);
  if (!size) {
    report(option, "\"" + text + "\" is no size, as 10GiB is", exit_usage);
    return false;
  }
  quota[name] = *size;
  return true;
}

int run_quota_set(const QuotaArguments& arguments) {
  auto request = subject_of(arguments);
  Json quota = Json::object();
  if (!request || !add_size(arguments.bytes, "bytes", "--bytes", quota) ||
      !add_size(arguments.bandwidth, "bytes_per_second", "--bandwidth", quota)) {
    return exit_usage;
  }
  if (arguments.objects) quota["objects"] = *arguments.objects;
  if (arguments.requests) quota["requests_per_second"] = *arguments.requests;
  if (quota.empty()) {
    return report(arguments.name, "name at least one limit; `verbena quota clear` removes all", exit_usage);
  }
  (*request)["quota"] = quota;
  const auto answer = admin_call(arguments.target, "quota-set", *request, arguments.name);
  if (!answer) return answer.error();
  if (arguments.json) {
    print_line(*answer);
  } else {
    show_quota(answer->value("quota", Json::object()), nullptr);
  }
  return exit_ok;
}

int run_quota_show(const QuotaArguments& arguments) {
  const auto request = subject_of(arguments);
  if (!request) return exit_usage;
  auto answer = admin_call(arguments.target, "quota-get", *request, arguments.name);
  if (!answer) return answer.error();
  // A user's objects belong to its account.
  const bool user = request->contains("name") && arguments.name.find('/') != std::string::npos;
  Json usage;
  if (!user && arguments.target.data.empty()) {
    auto told = admin_call(arguments.target, "usage", *request, arguments.name);
    if (!told) return told.error();
    usage = std::move(*told);
    usage.erase("buckets");
  }
  if (arguments.json) {
    if (usage.is_object()) (*answer)["usage"] = usage;
    print_line(*answer);
  } else {
    show_quota(answer->value("quota", Json::object()), usage);
  }
  return exit_ok;
}

int run_quota_clear(const QuotaArguments& arguments) {
  const auto request = subject_of(arguments);
  if (!request) return exit_usage;
  const auto answer = admin_call(arguments.target, "quota-rm", *request, arguments.name);
  if (!answer) return answer.error();
  if (arguments.json) print_line(*answer);
  return exit_ok;
}

CLI::App* quota_leaf(CLI::App& parent, const char* name, const char* what, const QuotaArgumentsPtr& arguments,
                     int (*serve)(const QuotaArguments&), int& exit_code) {
  CLI::App* command = parent.add_subcommand(name, what);
  command->add_option("NAME", arguments->name, "ACCOUNT, ACCOUNT/USER or s3://BUCKET")->required();
  arguments->target.client.add_server_to(*command);
  command
      ->add_option("--data", arguments->target.data,
                   "for accounts and users: work on the data directory of a stopped server instead")
      ->type_name("DIR");
  command->add_option("--key-file", arguments->target.key_file, "with --data: encryption.key_file, if it has one")
      ->envname("VERBENA_ENCRYPTION_KEY_FILE")
      ->type_name("FILE");
  command->add_flag("--json", arguments->json, "the answer as one line of JSON");
  command->callback([arguments, serve, &exit_code] { exit_code = serve(*arguments); });
  return command;
}

}  // namespace

void add_quota_command(CLI::App& app, int& exit_code) {
  CLI::App* quota = app.add_subcommand("quota", "Limit what accounts, users and buckets store and request");
  quota->require_subcommand(1);
  quota->footer("All of these need the server's root keys.");
  const auto set = std::make_shared<QuotaArguments>();
  CLI::App* command =
      quota_leaf(*quota, "set", "set all limits; a limit that is not named is removed", set, run_quota_set, exit_code);
  command->add_option("--bytes", set->bytes, "bytes that are stored: objects, old versions, parts of uploads")
      ->type_name("SIZE");
  command
      ->add_option("--objects", set->objects, "objects that are stored, with old versions, delete markers and uploads")
      ->type_name("N");
  command->add_option("--requests", set->requests, "requests a second")->type_name("N");
  command->add_option("--bandwidth", set->bandwidth, "bytes of objects per second, in and out")->type_name("SIZE");
  quota_leaf(*quota, "show", "show the limits and the usage", std::make_shared<QuotaArguments>(), run_quota_show,
             exit_code);
  quota_leaf(*quota, "clear", "remove all limits", std::make_shared<QuotaArguments>(), run_quota_clear, exit_code);
}

}  // namespace verbena::cli
