// `verbena bench`: every door, size and concurrency in one run.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/bytes.h"
#include "cli/bench/device.h"
#include "cli/bench/runner.h"
#include "cli/client_flags.h"
#include "cli/commands.h"
#include "cli/report.h"

namespace verbena::cli {
namespace {

struct BenchArguments {
  ClientFlags client;
  std::vector<std::string> sizes{"4KiB", "64KiB", "1MiB", "16MiB"};
  std::vector<std::string> doors{"http", "token", "native"};
  std::vector<std::string> providers{"local", "tcp"};
  std::vector<std::string> ops{"get", "put"};
  std::vector<std::string> concurrency{"1"};
  double seconds = 1;
  uint64_t count = 0;
  unsigned batch = 256;
  std::string object_size = "1GiB";
  std::string trace;
  std::string bucket, server_directory, durability = "memory", listen = "127.0.0.1", memory = "host";
  std::string certificate, key;
  unsigned keys = 1;
  bool json = false, checksums = false, unsigned_payload = false;
};

// A bucket of our own, emptied and removed at the end.
class BenchBucket {
 public:
  static Outcome<std::unique_ptr<BenchBucket>> make(const Client& client, std::string name,
                                                    BucketDurability durability) {
    const bool own = name.empty();
    if (own) {
      std::byte raw[6];
      fill_random(raw);
      name = "verbena-bench-" + to_hex(raw);
      if (auto made = client.make_bucket(name, durability); !made) return std::unexpected(made.error());
    }
    return std::unique_ptr<BenchBucket>(new BenchBucket(client, std::move(name), own));
  }
  ~BenchBucket() {
    if (!own_) return;
    auto emptied = client_.for_each(
        name_, "", [this](const ObjectInfo& info) { return client_.remove(name_, info.key).has_value(); });
    auto removed = client_.remove_bucket(name_);
    if (!emptied || !removed) report("s3://" + name_, "could not be removed again", exit_failure);
  }
  const std::string& name() const { return name_; }

 private:
  BenchBucket(Client client, std::string name, bool own)
      : client_(std::move(client)), name_(std::move(name)), own_(own) {}
  Client client_;
  std::string name_;
  bool own_;
};

struct Route {
  std::string door, provider;
};

std::vector<Route> routes_of(const BenchPlan& plan) {
  std::vector<Route> routes;
  for (const std::string& door : plan.doors) {
    if (door == "native") {
      for (const std::string& provider : plan.providers) routes.push_back({door, provider});
    } else if (door == "token") {
      for (const std::string& provider : plan.providers) {
        if (provider != "local") routes.push_back({door, provider});
      }
    } else {
      routes.push_back({door, "auto"});
    }
  }
  return routes;
}

// On a device: its ops, and what a user would do without them, beside each GET.
bool plan_device(BenchPlan& plan) {
  if (!plan.device) return true;
  const auto other = std::ranges::find_if_not(plan.ops, device_serves);
  if (other != plan.ops.end()) return report("--memory", "there is no " + *other + " on a device", exit_usage), false;
  if (std::ranges::find(plan.doors, "anonymous") != plan.doors.end())
    return report("--doors", "anonymous GETs are measured in host memory", exit_usage), false;
  const auto get = std::ranges::find(plan.ops, "get");
  if (get != plan.ops.end() && std::ranges::find(plan.ops, "get_copy") == plan.ops.end())
    plan.ops.insert(get + 1, "get_copy");
  return true;
}

std::optional<BenchPlan> plan_of(const BenchArguments& arguments) {
  BenchPlan plan;
  auto sizes = parse_sizes(arguments.sizes);
  if (!sizes) return report("--sizes", sizes.error(), exit_usage), std::nullopt;
  auto concurrency = parse_counts(arguments.concurrency);
  if (!concurrency) return report("--concurrency", concurrency.error(), exit_usage), std::nullopt;
  auto object_size = parse_size(arguments.object_size);
  if (!object_size || *object_size == 0) return report("--object-size", "is no size", exit_usage), std::nullopt;
  plan.object_size = *object_size;
  plan.sizes = std::move(*sizes);
  plan.concurrency = std::move(*concurrency);
  plan.doors = arguments.doors;
  plan.providers = arguments.providers;
  plan.ops = arguments.ops;
  plan.duration = std::chrono::milliseconds(static_cast<int64_t>(arguments.seconds * 1000));
  plan.count = arguments.count;
  plan.batch = arguments.batch;
  plan.keys = arguments.keys;
  plan.sign_payload = !arguments.unsigned_payload;
  plan.trace = arguments.trace;
  const bool traces = std::ranges::any_of(plan.ops, [](const std::string& op) { return op.starts_with("trace"); });
  if (traces && plan.trace.empty())
    return report("--trace", "trace and trace_many need a file", exit_usage), std::nullopt;
  plan.durability = arguments.durability == "sync" ? BucketDurability::sync : BucketDurability::memory;
  plan.checksums = arguments.checksums;
  const auto memory = parse_memory(arguments.memory);
  if (!memory) return report("--memory", memory.error(), exit_usage), std::nullopt;
  plan.device = *memory;
  if (!plan.device && std::ranges::find(plan.ops, "get_copy") != plan.ops.end())
    return report("--ops", "get_copy needs --memory cuda or rocm", exit_usage), std::nullopt;
  if (!plan_device(plan)) return std::nullopt;
  return plan;
}

class Printer {
 public:
  explicit Printer(bool json) : json_(json) {
    if (!json_) fmt::print("{}\n", bench_table_head());
  }
  void row(const BenchRow& row) {
    fmt::print("{}\n", json_ ? bench_json(row) : bench_table_line(row));
    std::fflush(stdout);
  }

 private:
  bool json_;
};

Outcome<BenchRow> measure_op(const Client& client, const ClientOptions& options, const BenchServer& server,
                             const std::string& bucket, const std::string& op, uint64_t size, unsigned concurrency,
                             const BenchPlan& plan) {
  if (plan.device) return measure_on_device(client, server, bucket, options.via, op, size, concurrency, plan);
  if (op.starts_with("trace")) return measure_trace(client, server, bucket, options.via, op, plan);
  if (op == "get_beside_many") return measure_beside_many(options, bucket, size, concurrency, plan);
  if (op == "watch") return measure_watch(options, bucket, size, plan);
  const bool many = op.ends_with("_many") || op == "head";
  const auto& how = op.starts_with("range") ? measure_ranges : many ? measure_many : measure;
  return how(client, server, bucket, options.via, op, size, concurrency, plan);
}

// All rows of one door and provider. Returns the exit code.
int run_route(const Route& route, const BenchServer& server, const std::string& bucket, const BenchPlan& plan,
              Printer& printer) {
  ClientOptions options = server.options();
  options.via = *parse_via(route.door);
  options.provider = route.provider;
  options.verify_checksums = plan.checksums;
  options.sign_payload = plan.sign_payload;
  options.multipart_threshold = 5 * GiB;  // one object, one transfer
  const std::string name = route.provider == "auto" ? route.door : route.door + " (" + route.provider + ")";
  auto client = Client::connect(options);
  if (!client) return report(name, client.error());
  int worst = exit_ok;
  for (const std::string& op : plan.ops) {
    for (const uint64_t size : plan.sizes) {
      for (const unsigned concurrency : plan.concurrency) {
        auto row = measure_op(*client, options, server, bucket, op, size, concurrency, plan);
        if (!row) {
          worst = report(name + " " + op + " " + format_size(size), row.error());
          continue;
        }
        row->provider =
            route.door == "http" ? (options.endpoint.starts_with("https") ? "https" : "http") : route.provider;
        printer.row(*row);
      }
    }
  }
  return worst;
}

// Unsigned GETs, in a separate bucket: its policy would be evaluated for the other doors, too.
int run_anonymous(const Client& client, const BenchServer& server, const BenchPlan& plan, Printer& printer) {
  const auto is_anonymous = [](const std::string& op) { return op == "get" || op == "get_new"; };
  if (std::ranges::none_of(plan.ops, is_anonymous)) return exit_ok;
  auto bucket = BenchBucket::make(client, {}, plan.durability);
  if (!bucket) return report("anonymous", bucket.error());
  const std::string& name = (*bucket)->name();
  if (auto open = let_everyone_read(server.options(), name); !open) return report("anonymous", open.error());
  int worst = exit_ok;
  for (const std::string& op : plan.ops) {
    if (!is_anonymous(op)) continue;
    for (const uint64_t size : plan.sizes) {
      for (const unsigned concurrency : plan.concurrency) {
        const auto row = measure_anonymous(client, server, name, op, size, concurrency, plan);
        if (row) {
          printer.row(*row);
        } else {
          worst = report("anonymous " + op + " " + format_size(size), row.error());
        }
      }
    }
  }
  return worst;
}

// On loopback the server opens every provider that works; at another address the measured provider must exist.
std::string fabric_providers(const BenchArguments& arguments) {
  std::string list;
  if (arguments.listen == "127.0.0.1") return list;
  for (const std::string& provider : arguments.providers) list += (list.empty() ? "" : ",") + provider;
  return list;
}

// Its own, or the one that --endpoint names. Null, and the reason is reported: none.
std::unique_ptr<BenchServer> server_of(const BenchArguments& arguments, std::optional<bool> gpudirect) {
  if (!arguments.client.endpoint.empty()) {
    auto options = arguments.client.options();
    return options ? BenchServer::at(std::move(*options)) : nullptr;
  }
  auto started = BenchServer::start({.directory = arguments.server_directory,
                                     .address = arguments.listen,
                                     .providers = fabric_providers(arguments),
                                     .gpudirect = gpudirect,
                                     .certificate = arguments.certificate,
                                     .key = arguments.key});
  if (started) return std::move(*started);
  report("bench", started.error(), exit_failure);
  return nullptr;
}

// The rows of these routes. Returns the exit code.
int run_routes(const BenchServer& server, std::span<const Route> routes, const BenchArguments& arguments,
               const BenchPlan& plan, Printer& printer, bool direct) {
  ClientOptions plain = server.options();
  plain.via = Via::http;
  auto client = Client::connect(plain);
  if (!client) return report(plain.endpoint, client.error());
  auto bucket = BenchBucket::make(*client, arguments.bucket, plan.durability);
  if (!bucket) return report("bench", bucket.error());
  if (direct) wait_for_direct(server, (*bucket)->name(), *plan.device);
  int worst = exit_ok;
  for (const Route& route : routes) {
    const int code = route.door == "anonymous" ? run_anonymous(*client, server, plan, printer)
                                               : run_route(route, server, (*bucket)->name(), plan, printer);
    if (code != exit_ok) worst = code;
  }
  return worst;
}

int run_bench(const BenchArguments& arguments) {
  const auto plan = plan_of(arguments);
  if (!plan) return exit_usage;
  const std::vector<Route> routes = routes_of(*plan);
  const auto local = std::ranges::find(routes, "local", &Route::provider);
  const bool own = arguments.client.endpoint.empty();
  // On a device, the native door's `local` is measured by a server of its own with GPUs that copy for it, then by one
  // without; the other doors by the first.
  const bool both = own && plan->device && local != routes.end();
  auto server = server_of(arguments, both ? std::optional(true) : std::nullopt);
  if (!server) return own ? exit_failure : exit_usage;
  if (!arguments.json) {
    fmt::print("{} bucket, {} per row, against {}\n\n", arguments.durability,
               plan->count > 0 ? fmt::format("{} operations per caller", plan->count)
                               : fmt::format("{:.1f} s", arguments.seconds),
               own ? "a server of its own on this machine" : server->options().endpoint);
  }
  Printer printer(arguments.json);
  int worst = run_routes(*server, routes, arguments, *plan, printer, both);
  if (!both) return worst;
  server.reset();  // the other one may use its folder
  server = server_of(arguments, false);
  if (!server) return exit_failure;
  const int code = run_routes(*server, {&*local, 1}, arguments, *plan, printer, false);
  return code != exit_ok ? code : worst;
}

}  // namespace

void add_bench_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("bench", "Measure latency and throughput of every door");
  auto arguments = std::make_shared<BenchArguments>();
  arguments->client.add_server_to(*command);
  command->add_option("--sizes", arguments->sizes, "object sizes")->delimiter(',')->capture_default_str();
  command->add_option("--doors", arguments->doors, "http, anonymous (GET over HTTP, not signed), token, native")
      ->delimiter(',')
      ->check(CLI::IsMember({"http", "anonymous", "token", "native"}))
      ->capture_default_str();
  command->add_option("--providers", arguments->providers, "fabrics of the native and token doors")
      ->delimiter(',')
      ->capture_default_str();
  command
      ->add_option(
          "--ops", arguments->ops,
          "get, put, head; put_md5: a PUT whose ETag is the MD5 of its bytes, as always over HTTP; "
          "get_many, head_many, put_many: as many objects as --batch in a call; get_beside_many: "
          "single GETs while another client asks for such batches; watch: from the time in a PUT's object (in "
          "a durable bucket before the log is synced) until a watching client has the message; trace, "
          "trace_many: the lines of --trace, object by object or a "
          "batch a line; get_new: anonymous GETs, each over a connection of its own; range: random ranges of a large "
          "object; ranges: as many as --concurrency in one "
          "request; get_copy: with --memory cuda or rocm, a GET into host memory and the driver's copy of it, also "
          "measured beside get")
      ->delimiter(',')
      ->check(CLI::IsMember({"get", "put", "put_md5", "head", "range", "ranges", "get_many", "head_many", "put_many",
                             "get_new", "get_beside_many", "watch", "trace", "trace_many", "get_copy"}))
      ->capture_default_str();
  command->add_option("--object-size", arguments->object_size, "size of the object that range and ranges read")
      ->type_name("SIZE")
      ->capture_default_str();
  command->add_option("--concurrency", arguments->concurrency, "callers at once")
      ->delimiter(',')
      ->capture_default_str();
  command->add_option("--duration", arguments->seconds, "seconds per row")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "objects in a call of get_many, head_many and put_many")
      ->check(CLI::Range(1u, 4096u))
      ->capture_default_str();
  command->add_option("--keys", arguments->keys, "objects of each caller, in turn, of the single GETs and PUTs")
      ->check(CLI::Range(1u, 1'000'000u))
      ->capture_default_str();
  command->add_option("--trace", arguments->trace, "the trace that trace and trace_many replay (bench/kv_cache.trace)")
      ->type_name("FILE");
  command->add_option("--count", arguments->count, "operations per caller instead of --duration");
  command
      ->add_option("--memory", arguments->memory,
                   "where the bytes begin and end: host, cuda (device 0), cuda:N, rocm or rocm:N; each row then says "
                   "which way they went (docs/gpu.md)")
      ->capture_default_str();
  command->add_option("--bucket", arguments->bucket,
                      "an existing bucket (default: one of its own, removed at the end)");
  command->add_option("--durability", arguments->durability, "durability of its own bucket: memory or sync")
      ->check(CLI::IsMember({"memory", "sync"}))
      ->capture_default_str();
  command
      ->add_option("--server", arguments->server_directory,
                   "folder for the server that it starts (default: a temporary one)")
      ->type_name("DIR");
  command
      ->add_option("--listen", arguments->listen,
                   "where its own server listens; the address of an RDMA device, to measure verbs")
      ->type_name("ADDRESS")
      ->capture_default_str();
  auto* certificate =
      command
          ->add_option("--tls-certificate", arguments->certificate,
                       "its own server has HTTPS with this certificate, which the client does not verify")
          ->type_name("FILE");
  command->add_option("--tls-key", arguments->key, "the certificate's key")->type_name("FILE")->needs(certificate);
  command->add_flag("--unsigned-payload", arguments->unsigned_payload,
                    "PUTs over http are signed without their bytes, so that the client does not hash them");
  command->add_flag("--checksums", arguments->checksums, "also verify object checksums inside the timed section");
  command->add_flag("--json", arguments->json, "one JSON object per row");
  command->footer(
      "Without --endpoint it starts `verbena server` on a temporary folder and free ports, and stops it at the "
      "end. With --memory it does so twice where the native door's `local` is measured: with gpudirect.enabled, and "
      "for `local` also without.\nBytes are verified by checksum before and after each timed section. "
      "server_cpu_s_per_gb is CPU seconds of that\n"
      "server's process per 10^9 bytes; it is null for a server that was running already.");
  command->callback([arguments, &exit_code] { exit_code = run_bench(*arguments); });
}

}  // namespace verbena::cli
