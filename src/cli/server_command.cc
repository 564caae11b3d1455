#include "cli/server_command.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <optional>

#include "auth/keyring.h"
#include "base/config.h"
#include "cli/configuration.h"
#include "cli/exec_rados.h"
#include "cli/exit_code.h"
#include "cli/rados_engine.h"
#include "cli/ready_line.h"
#include "cli/run_program.h"
#include "server/data_directory.h"
#include "server/secret_files.h"
#include "server/server.h"
#include "server/service_manager.h"

namespace verbena::cli {
namespace {

struct Flags {
  std::string directory;  // empty: in memory
  bool memory = false;
  std::string memory_max;
  std::string http, rdma, region, config_path, engine;
  std::vector<std::string> set;
  server::FirstContents contents;
  bool print_ready = false;
  bool accept_data_loss = false;
};

int fail_with(const std::string& message, int code = exit_failure) {
  std::fprintf(stderr, "verbena: %s\n", message.c_str());
  return code;
}

// "ADDR:PORT", "[V6]:PORT", ":PORT" or "PORT".
ConfigResult apply_endpoint(Config& config, const std::string& section, const std::string& text) {
  const size_t colon = text.rfind(':');
  std::string address = colon == std::string::npos ? "" : text.substr(0, colon);
  if (address.size() >= 2 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (!address.empty()) {
    if (auto done = apply_value(config, section + ".address", address); !done) return done;
  }
  auto done = apply_value(config, section + ".port", port);
  if (!done) return std::unexpected("--" + section + " " + text + ": wants ADDRESS:PORT (" + done.error() + ")");
  return done;
}

std::expected<Config, std::string> read_config(const Flags& flags) {
  auto read = read_file_and_environment(flags.config_path);
  if (!read) return std::unexpected(read.error());
  Config config = std::move(*read);
  for (const auto& [section, text] : {std::pair{"http", flags.http}, std::pair{"rdma", flags.rdma}}) {
    if (text.empty()) continue;
    if (auto done = apply_endpoint(config, section, text); !done) return std::unexpected(done.error());
  }
  if (auto done = apply_assignments(config, flags.set); !done) return std::unexpected(done.error());
  if (!flags.engine.empty()) {
    if (auto done = apply_value(config, "engine", flags.engine); !done)
      return std::unexpected("--engine " + done.error());
  }
  if (!flags.region.empty()) {
    if (auto done = apply_value(config, "region", flags.region); !done)
      return std::unexpected("--region " + done.error());
  }
  if (flags.accept_data_loss) {
    if (auto done = apply_value(config, "accept_data_loss", "true"); !done) return std::unexpected(done.error());
  }
  if (auto done = check(config); !done) return std::unexpected(done.error());
  return config;
}

void print_tokens(const server::Endpoints& endpoints) {
  if (endpoints.tokens == "tcp") {
    std::printf("  tokens  tcp  (libfabric's: any peer can crash the server)\n\n");
  } else if (!endpoints.tokens.empty()) {
    std::printf("  tokens  %s\n\n", endpoints.tokens.c_str());
  } else {
    std::printf(
        "  tokens  declined: no RDMA device serves them. To try them where all peers are trusted, since any peer can "
        "then\n"
        "          crash the server: --set rdma.token_provider=tcp, and for clients on this host\n"
        "          --set rdma.token_networks=127.0.0.0/8\n\n");
  }
}

void print_keys(const server::RootKeys& keys, const std::string& directory) {
  if (keys.from == server::RootKeys::From::environment) {
    std::printf("  The root keys are VERBENA_ROOT_ACCESS_KEY and VERBENA_ROOT_SECRET_KEY.\n\n");
    return;
  }
  if (keys.from == server::RootKeys::From::file) {
    std::printf("  The root keys are in %s/credentials:\n\n", directory.c_str());
    std::printf("  export AWS_ACCESS_KEY_ID=$(sed -n 1p %s/credentials)\n", directory.c_str());
    std::printf("  export AWS_SECRET_ACCESS_KEY=$(sed -n 2p %s/credentials)\n\n", directory.c_str());
    return;
  }
  const std::string kept =
      directory.empty() ? "for as long as this server runs" : "kept in " + directory + "/credentials";
  std::printf("  New root keys, shown once and %s:\n\n", kept.c_str());
  std::printf("  export AWS_ACCESS_KEY_ID=%s\n  export AWS_SECRET_ACCESS_KEY=%s\n\n",
              keys.credentials.access_key.c_str(), keys.credentials.secret_key.c_str());
}

// The endpoints' lines have a fixed form: scripts read them.
void print_welcome(const server::Endpoints& endpoints, const server::RootKeys& keys, const std::string& directory,
                   const Config& config) {
  std::string providers;
  for (const auto& provider : endpoints.providers) providers += (providers.empty() ? "" : ", ") + provider;
  const std::string where = directory.empty()                      ? "all in memory: gone when it stops"
                            : config.engine == EngineChoice::rados ? "data in Ceph's pool " + config.rados.pool
                                                                   : "data in " + directory;
  std::printf("Verbena %s, %s\n\n", VERBENA_VERSION, where.c_str());
  std::printf("  S3      %s\n", endpoints.http.c_str());
  std::printf("  admin   %s\n", endpoints.admin.empty() ? "off" : endpoints.admin.c_str());
  std::printf("  native  %s%s\n", endpoints.native.empty() ? "off" : endpoints.native.c_str(),
              providers.empty() ? "" : ("  (" + providers + ")").c_str());
  if (endpoints.native.empty()) {
    std::printf("\n");
  } else {
    print_tokens(endpoints);
  }
  print_keys(keys, directory);
  const std::string options =
      (endpoints.http == "http://127.0.0.1:9000" ? "" : " --endpoint " + endpoints.http) +
      (endpoints.native == "127.0.0.1:9100" || endpoints.native.empty() ? "" : " --native " + endpoints.native);
  std::printf("  A first thing to try:\n\n");
  std::printf("  verbena mb s3://demo%s\n", options.c_str());
  std::printf("  echo hello | verbena put - s3://demo/hello%s\n", options.c_str());
  std::printf("  verbena get s3://demo/hello - --verbose%s\n", options.c_str());
  std::printf("  aws --endpoint-url %s s3 ls s3://demo\n\n", endpoints.http.c_str());
  std::printf("Ctrl-C stops the server.\n");
  std::fflush(stdout);
}

// Flushed, since the reader of this line may be waiting on a pipe.
void print_out(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

// Each connection and each volume is an open file; the soft limit of a login shell (1024) is for select().
void raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);  // best effort: accept() reports it when it runs out
}

std::expected<server::RootKeys, std::string> find_keys(const Flags& flags) {
  if (flags.memory) return server::root_keys_in_memory();
  auto directory = server::DataDirectory::open(flags.directory);
  if (!directory) return std::unexpected(directory.error());
  return server::root_keys(*directory);
}

// The limit of objects in memory: --memory-max, or half of the machine's memory.
std::expected<uint64_t, std::string> memory_limit(const Flags& flags) {
  if (flags.memory_max.empty()) {
    return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) / 2 * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  const auto size = parse_size(flags.memory_max);
  if (!size || *size == 0) return std::unexpected("--memory-max needs a size such as 4GiB");
  return *size;
}

// Reloads on SIGHUP and notifies the watchdog, until a signal that ends the server, which is returned.
int wait_for_end(server::Server& server, const server::ServiceManager& manager, const sigset_t& signals) {
  const auto& endpoints = server.endpoints();
  const std::string status =
      "S3 " + endpoints.http + ", native " + (endpoints.native.empty() ? "off" : endpoints.native);
  manager.ready(status);
  // Three notifications per interval; without one from a core the watchdog should end the process.
  const auto tick = manager.watchdog().value_or(std::chrono::hours(1)) / 3;
  for (;;) {
    const timespec wait{.tv_sec = tick.count() / 1'000'000, .tv_nsec = tick.count() % 1'000'000 * 1000};
    const int received = sigtimedwait(&signals, nullptr, &wait);
    if (received == SIGHUP) {
      manager.reloading();
      server.reload();
      manager.ready(status);
    } else if (received > 0) {
      return received;
    }
    if (!manager.watchdog()) continue;
    if (server.answers(std::chrono::duration_cast<std::chrono::milliseconds>(tick))) {
      manager.alive();
    } else {
      log::error("server: a core did not answer within {} ms: the watchdog gets no sign of life", tick.count() / 1000);
    }
  }
}

// Before anything is opened, and before secrets from files are put into the environment, which is passed on.
std::optional<std::string> exec_rados_if_needed(const Flags& flags, const Program& program) {
  if (program.rados != nullptr) return std::nullopt;
  const auto config = read_config(flags);
  if (!config || config->engine != EngineChoice::rados) return std::nullopt;  // errors are reported later
  return exec_rados(program.arguments);
}

int serve(const Flags& flags, const Program& program) {
  if (flags.memory != flags.directory.empty()) {
    return fail_with("server needs a directory or --memory, and not both", exit_usage);
  }
  if (!flags.memory) {
    if (const auto failed = exec_rados_if_needed(flags, program)) return fail_with(*failed, exit_usage);
  }
  if (auto done = server::take_secret_files(); !done) return fail_with(done.error(), exit_usage);
  auto config = read_config(flags);
  if (!config) return fail_with(config.error(), exit_usage);
  if (flags.memory && config->engine != EngineChoice::local) {
    return fail_with("--memory contradicts engine, which names another place for objects", exit_usage);
  }
  const auto memory_max = memory_limit(flags);
  if (!memory_max) return fail_with(memory_max.error(), exit_usage);
  // Blocked before any thread starts, so that every thread inherits it and only sigwait() below sees them.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);
  raise_open_files_limit();

  auto keys = find_keys(flags);
  if (!keys) return fail_with(keys.error());
  const server::OpenCluster open_cluster = program.rados == nullptr ? nullptr : program.rados->open;
  auto started = flags.memory
                     ? server::Server::start_in_memory(*config, *memory_max, keys->credentials, flags.contents)
                     : server::Server::start(*config, flags.directory, keys->credentials, flags.contents, open_cluster);
  if (!started) return fail_with(started.error());
  if (flags.print_ready) {
    print_out(ready_line((*started)->endpoints(), *keys, config->region));
  } else {
    print_welcome((*started)->endpoints(), *keys, flags.directory, *config);
  }

  const auto manager = server::ServiceManager::from_environment();
  const int received = wait_for_end(**started, manager, ends);
  log::info("server: {} received, stopping", received == SIGINT ? "SIGINT" : "SIGTERM");
  manager.stopping();
  // A second signal ends the process at once, without waiting for requests in flight.
  pthread_sigmask(SIG_UNBLOCK, &ends, nullptr);
  (*started)->stop();
  return exit_ok;
}

int rotate(const Flags& flags) {
  auto config = read_config(flags);
  if (!config) return fail_with(config.error(), exit_usage);
  const auto path = server::key_file(*config, flags.directory);
  auto id = auth::KeyRing::rotate(path);
  if (!id) return fail_with(id.error());
  std::printf("%s: master key %s added. A running server reads it on SIGHUP. Keep a copy of the file.\n", path.c_str(),
              id->c_str());
  return exit_ok;
}

}  // namespace

void add_master_key_command(CLI::App& app, int& exit_code) {
  auto* command =
      app.add_subcommand("master-key", "Manage the master keys, under which the server encrypts other keys");
  command->require_subcommand(1);
  auto* add = command->add_subcommand("rotate", "Add a master key, under which everything new is encrypted");
  auto flags = std::make_shared<Flags>();
  add->add_option("DIR", flags->directory, "the server's data directory")->required();
  add->add_option("--config", flags->config_path, "the server's YAML file")->type_name("FILE");
  add->add_option("--set", flags->set, "set one configuration key, above file and environment")->type_name("KEY=VALUE");
  add->footer("What older keys have encrypted stays readable: the file keeps all keys.");
  add->callback([flags, &exit_code] { exit_code = rotate(*flags); });
}

void add_server_command(CLI::App& app, int& exit_code, const Program& program) {
  auto* command =
      app.add_subcommand("server", "Serve a directory, or memory, over S3, RDMA tokens and the native door");
  auto flags = std::make_shared<Flags>();
  command->add_option("DIR", flags->directory, "where objects are kept; made if missing");
  auto* memory = command->add_flag("--memory", flags->memory, "keep everything in memory: gone when the server stops");
  command->add_option("--memory-max", flags->memory_max, "memory for objects at most (default: half of the machine's)")
      ->type_name("SIZE")
      ->needs(memory);
  command->add_option("--http", flags->http, "address of the S3 door (default 127.0.0.1:9000)")->type_name("ADDR:PORT");
  command->add_option("--rdma", flags->rdma, "address of the native door (default 127.0.0.1:9100)")
      ->type_name("ADDR:PORT");
  command
      ->add_option("--engine", flags->engine,
                   "where objects are kept: local (DIR) or rados (a Ceph cluster, by the package verbena-rados; DIR "
                   "then has only the keys)")
      ->type_name("NAME");
  command->add_option("--region", flags->region, "the region that the server reports (default us-east-1)");
  command->add_option("--bucket", flags->contents.buckets, "make this bucket if it is missing; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  command
      ->add_option("--seed", flags->contents.seed,
                   "with --memory: store the files of this folder as objects at the start, FOLDER/BUCKET/KEY")
      ->type_name("FOLDER")
      ->needs(memory);
  command->add_flag("--print-ready", flags->print_ready,
                    "when all doors are open, print addresses and ports as one line of JSON, and nothing else");
  command->add_option("--config", flags->config_path, "YAML file; docs/configuration.md names every key")
      ->type_name("FILE");
  command->add_option("--set", flags->set, "set one configuration key, above file and environment")
      ->type_name("KEY=VALUE");
  command->add_flag("--accept-data-loss", flags->accept_data_loss,
                    "start although acknowledged changes are damaged or missing, with what can be read (run `verbena "
                    "fsck DIR` first)");
  command->footer(
      "Flags override VERBENA_* environment variables (VERBENA_RDMA_PORT for rdma.port), which override the file.\n"
      "SIGHUP reads the master keys again and reopens the access log. Under systemd (Type=notify) it says when it is "
      "ready\n"
      "and serves the watchdog.\n"
      "Root keys: VERBENA_ROOT_ACCESS_KEY and VERBENA_ROOT_SECRET_KEY, or the same with _FILE for files that hold "
      "them,\n"
      "else made at the first start and kept in DIR.\n"
      "Exit codes: 0 stopped by SIGTERM or SIGINT; 1 could not start (the line before says why; nothing was changed);\n"
      "2 wrong configuration, flags or secrets.");
  command->callback([flags, program, &exit_code] { exit_code = serve(*flags, program); });
}

}  // namespace verbena::cli
