// `verbena bound`: the bound of a bucket that evicts.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/bytes.h"
#include "cli/client_flags.h"
#include "cli/commands.h"
#include "cli/report.h"
#include "cli/s3_address.h"

namespace verbena::cli {
namespace {

struct BoundArguments {
  ClientFlags client;
  std::string address, bytes;
  BucketBound bound;
  bool json = false;
};
using BoundArgumentsPtr = std::shared_ptr<BoundArguments>;

// nullopt, after reporting it, when it is no bucket.
std::optional<std::string> bucket_of(const BoundArguments& arguments) {
  const auto address = parse_s3_address(arguments.address);
  if (address && address->key.empty()) return address->bucket;
  report(arguments.address, address ? "a bound is for a bucket, not for a prefix" : address.error(), exit_usage);
  return std::nullopt;
}

void show_bound(const std::optional<BucketBound>& bound, bool json) {
  if (json) {
    auto out = nlohmann::json::object();
    if (bound && bound->bytes_max != 0) out["bytes_max"] = bound->bytes_max;
    if (bound && bound->objects_max != 0) out["objects_max"] = bound->objects_max;
    if (bound) out["policy"] = bound->policy;
    if (bound) out["renew_on_read"] = bound->renew_on_read;
    if (bound) out["keep_suffix"] = bound->keep_suffix;
    fmt::print("{}\n", out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  } else if (!bound) {
    fmt::print("no bound\n");
  } else {
    const auto limit = [](uint64_t of, const std::string& text) { return of == 0 ? "no limit" : text; };
    fmt::print("{:<15} {}\n", "bytes", limit(bound->bytes_max, format_size(bound->bytes_max)));
    fmt::print("{:<15} {}\n", "objects", limit(bound->objects_max, std::to_string(bound->objects_max)));
    fmt::print("{:<15} {}\n{:<15} {}\n", "policy", bound->policy, "renew on read", bound->renew_on_read ? "yes" : "no");
    fmt::print("{:<15} {}\n", "kept", bound->keep_suffix.empty() ? "none" : "*" + bound->keep_suffix);
  }
}

int set_bound(const Client& client, const std::string& bucket, const BoundArguments& arguments) {
  BucketBound bound = arguments.bound;
  if (!arguments.bytes.empty()) {
    const auto size = parse_size(arguments.bytes);
    if (!size) return report("--bytes", "\"" + arguments.bytes + "\" is no size, as 10GiB is", exit_usage);
    bound.bytes_max = *size;
  }
  if (bound.bytes_max == 0 && bound.objects_max == 0 && !bound.renew_on_read) {
    return report(arguments.address,
                  "name --bytes, --objects or --renew-on-read; `verbena bound clear` removes a bound", exit_usage);
  }
  const auto done = client.set_bound(bucket, bound);
  return done ? exit_ok : report(arguments.address, done.error());
}

int show_bound_of(const Client& client, const std::string& bucket, const BoundArguments& arguments) {
  const auto bound = client.bound(bucket);
  if (!bound) return report(arguments.address, bound.error());
  show_bound(*bound, arguments.json);
  return exit_ok;
}

int clear_bound(const Client& client, const std::string& bucket, const BoundArguments& arguments) {
  const auto done = client.remove_bound(bucket);
  return done ? exit_ok : report(arguments.address, done.error());
}

using ServeBound = int (*)(const Client& client, const std::string& bucket, const BoundArguments& arguments);

int run_bound(const BoundArguments& arguments, ServeBound serve) {
  const auto bucket = bucket_of(arguments);
  if (!bucket) return exit_usage;
  int exit_code = exit_ok;
  const auto client = arguments.client.connect(exit_code);
  return client ? serve(*client, *bucket, arguments) : exit_code;
}

CLI::App* bound_leaf(CLI::App& parent, const char* name, const char* what, const BoundArgumentsPtr& arguments,
                     ServeBound serve, int& exit_code) {
  CLI::App* command = parent.add_subcommand(name, what);
  command->add_option("S3", arguments->address, "s3://BUCKET")->required();
  arguments->client.add_to(*command);
  command->callback([arguments, serve, &exit_code] { exit_code = run_bound(*arguments, serve); });
  return command;
}

}  // namespace

void add_bound_command(CLI::App& app, int& exit_code) {
  CLI::App* bound = app.add_subcommand("bound", "Bound what a bucket holds: it evicts instead of refusing writes");
  bound->require_subcommand(1);
  const auto set = std::make_shared<BoundArguments>();
  CLI::App* command = bound_leaf(*bound, "set", "set the bound; it replaces the one before", set, set_bound, exit_code);
  command->add_option("--bytes", set->bytes, "bytes of the objects that it holds at most")->type_name("SIZE");
  command->add_option("--objects", set->bound.objects_max, "objects that it holds at most")->type_name("N");
  command
      ->add_option(
          "--policy", set->bound.policy,
          "what is evicted first. s3-fifo: what was not read since it came; lru: what was not read for longest; "
          "ttl: what ends next")
      ->check(CLI::IsMember({"s3-fifo", "lru", "ttl"}))
      ->capture_default_str();
  command
      ->add_option("--keep-suffix", set->bound.keep_suffix,
                   "objects whose keys end with it are not evicted, while they are few; an empty one: all are")
      ->type_name("TEXT")
      ->capture_default_str();
  command->add_flag("--renew-on-read", set->bound.renew_on_read, "a read starts the TTL of its object again");
  const auto show = std::make_shared<BoundArguments>();
  command = bound_leaf(*bound, "show", "show the bound", show, show_bound_of, exit_code);
  command->add_flag("--json", show->json, "one JSON object");
  bound_leaf(*bound, "clear", "remove the bound; what it holds stays", std::make_shared<BoundArguments>(), clear_bound,
             exit_code);
}

}  // namespace verbena::cli
