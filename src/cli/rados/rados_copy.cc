#include "cli/rados/rados_copy.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "base/clock.h"
#include "base/config.h"
#include "base/log.h"
#include "cli/exit_code.h"
#include "server/data_directory.h"
#include "store/local/local_store.h"
#include "store/logic/transfer.h"
#include "store/rados/inspect/admin.h"

namespace verbena::cli {
namespace {

using server::DataDirectory;
using store::TransferCounts;
using store::local::LocalStore;
using store::rados::RadosStore;

constexpr size_t arena_bytes = 512 * MiB;
constexpr unsigned threads = 8;
constexpr size_t queue_max = 4096;
constexpr uint64_t accounts_bytes_max = 64 * MiB;
constexpr uint64_t key_ids_bytes_max = 64 * KiB;
constexpr std::chrono::seconds tell_every{2};

int copy_failed(const std::string& message, int code = exit_failure) {
  std::fprintf(stderr, "verbena: %s\n", message.c_str());
  return code;
}

// Both stores and their surroundings.
struct Stores {
  std::unique_ptr<memory::Arena> arena;
  std::optional<BlockingPool> pool;
  std::unique_ptr<LocalStore> local;
  std::unique_ptr<RadosStore> rados;
};

std::optional<std::string> open_local(Stores& stores, const std::filesystem::path& directory, uint64_t ids_above = 0) {
  std::string trouble;
  store::local::Options options;
  options.directory = directory;
  options.arena = stores.arena.get();
  options.pool = &*stores.pool;
  options.trouble = &trouble;
  options.ids_above = ids_above;
  auto opened = LocalStore::open(options);
  if (!opened) {
    return "cannot open the store in " + directory.string() + ": " +
           (trouble.empty() ? describe(opened.error()) : trouble);
  }
  stores.local = std::move(*opened);
  return std::nullopt;
}

// A server of the store would show half of the copy, or change the source. Checked after this process has registered
// its own watch: of two copies started together, one finds the other. Servers do not check for copies.
std::optional<std::string> check_nobody_serves(const store::rados::Options& options) {
  constexpr uint64_t this_one = 1;
  const auto status = store::rados::cluster_status(options);
  if (!status) return status.error();
  if (status->watchers <= this_one) return std::nullopt;
  return std::to_string(status->watchers - this_one) +
         " servers run over the store in the cluster (a killed one counts for half a "
         "minute). Stop them first";
}

std::optional<std::string> open_cluster(Stores& stores, store::rados::Options options) {
  auto arena = memory::Arena::create(arena_bytes);
  if (!arena) return "memory: " + describe(arena.error());
  stores.arena = std::move(*arena);
  stores.pool.emplace(threads, queue_max);
  options.arena = stores.arena.get();
  options.whole_only = true;
  auto connected = RadosStore::connect(options);
  if (!connected) return "cannot open the store in the Ceph cluster: " + connected.error();
  stores.rados = std::move(*connected);
  return check_nobody_serves(options);
}

void print_progress(const std::string& bucket, const TransferCounts& counts) {
  static auto told = SteadyClock::now();
  if (SteadyClock::now() - told < tell_every) return;
  told = SteadyClock::now();
  std::fprintf(stderr, "%s: %llu keys so far, %s\n", log::printable(bucket).c_str(),
               static_cast<unsigned long long>(counts.keys + counts.keys_there), format_size(counts.bytes).c_str());
}

// Runs it on this thread.
std::expected<TransferCounts, std::string> carry_out(store::Transfer transfer) {
  boost::asio::io_context io;
  auto future = boost::asio::co_spawn(io, transfer.run(), boost::asio::use_future);
  io.run();
  auto done = future.get();
  if (!done) return std::unexpected(log::printable(transfer.where()) + ": " + describe(done.error()));
  return *done;
}

void print_counts(const TransferCounts& counts) {
  const auto number = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf("copied %llu buckets: %llu keys with %llu versions and %llu unfinished uploads, %s\n",
              number(counts.buckets), number(counts.keys), number(counts.versions), number(counts.uploads),
              format_size(counts.bytes).c_str());
  if (counts.keys_there != 0) std::printf("%llu keys were there already\n", number(counts.keys_there));
  if (counts.buckets_there != 0) {
    std::printf("%llu buckets were copied earlier, and left as they are\n", number(counts.buckets_there));
  }
}

std::optional<std::string> bring_accounts(RadosStore& rados, const DataDirectory& directory) {
  auto text =
      store::local::read_small_file(store::local::real_file_system(), directory.identities(), accounts_bytes_max);
  if (!text && text.error() == Errc::not_found) return std::nullopt;
  if (!text) return "the accounts: " + describe(text.error());
  auto there = rados.read_accounts();
  if (!there) return "the accounts of the cluster: " + describe(there.error());
  if (*there && **there != *text) {
    std::printf("The cluster has accounts already: those of %s are not copied.\n", directory.path().c_str());
    return std::nullopt;
  }
  if (*there) return std::nullopt;
  auto replaced = rados.replace_accounts(std::nullopt, *text);
  if (!replaced) return "the accounts of the cluster: " + describe(replaced.error());
  std::printf("accounts, users and keys are in the cluster; servers need the master keys in %s\n",
              directory.master_keys().c_str());
  return std::nullopt;
}

// Encrypted data of the directory needs its keys: servers without them must not start (auth/keyring.h).
std::optional<std::string> bring_key_ids(RadosStore& rados, const DataDirectory& directory) {
  auto noted =
      store::local::read_small_file(store::local::real_file_system(), directory.master_key_ids(), key_ids_bytes_max);
  if (!noted && noted.error() == Errc::not_found) return std::nullopt;
  auto there = noted ? rados.read_key_ids() : std::unexpected(noted.error());
  if (!there) return "the ids of the master keys: " + describe(there.error());
  std::set<std::string> ids;
  std::istringstream lines(there->value_or("") + *noted);
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty() && line.front() != '#') ids.insert(line);
  }
  std::string text;
  for (const std::string& id : ids) text += id + "\n";
  if (text.empty() || *there == text) return std::nullopt;
  const auto replaced = rados.replace_key_ids(*there, text);
  if (!replaced) return "the ids of the master keys: " + describe(replaced.error());
  if (!*replaced) return "the ids of the master keys: a server runs over the store in the cluster";
  return std::nullopt;
}

std::optional<std::string> take_accounts(RadosStore& rados, const DataDirectory& directory) {
  auto text = rados.read_accounts();
  if (!text) return "the accounts of the cluster: " + describe(text.error());
  if (!*text) return std::nullopt;
  auto& fs = store::local::real_file_system();
  if (auto written = store::local::replace_file(fs, directory.identities(), **text); !written) {
    return "the accounts: " + describe(written.error());
  }
  std::printf("accounts, users and keys are copied; reading them needs the master keys of the cluster's servers\n");
  return std::nullopt;
}

bool is_empty_or_missing(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return !error;
  return std::filesystem::is_directory(path, error) && std::filesystem::is_empty(path, error) && !error;
}

// Renames the directory: one with the final name is complete.
std::optional<std::string> give_name(const std::filesystem::path& partial, const std::filesystem::path& directory) {
  auto& fs = store::local::real_file_system();
  auto named = fs.rename(partial, directory);
  if (named) named = fs.sync_directory(directory.has_parent_path() ? directory.parent_path() : ".");
  if (!named) return "cannot rename " + partial.string() + ": " + describe(named.error());
  return std::nullopt;
}

}  // namespace

int copy_into_cluster(const store::rados::Options& options, const std::string& path) {
  log::set_level(log::Level::warn);
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::path(path) / "VERSION", error)) {
    return copy_failed(path + ": there is no store", exit_not_found);
  }
  auto directory = DataDirectory::open(path);
  if (!directory) return copy_failed(directory.error());
  Stores stores;
  if (auto wrong = open_cluster(stores, options)) return copy_failed(*wrong);
  if (auto wrong = open_local(stores, directory->path())) return copy_failed(*wrong);
  const auto counts = carry_out({*stores.local, *stores.rados, {.keeps_bounds = false, .tell = print_progress}});
  if (!counts) return copy_failed(counts.error());
  if (auto wrong = bring_accounts(*stores.rados, *directory)) return copy_failed(*wrong);
  if (auto wrong = bring_key_ids(*stores.rados, *directory)) return copy_failed(*wrong);
  print_counts(*counts);
  return exit_ok;
}

int copy_out_of_cluster(const store::rados::Options& options, const std::string& path) {
  log::set_level(log::Level::warn);
  std::filesystem::path wanted(path);
  if (!wanted.has_filename()) wanted = wanted.parent_path();  // it ended in a slash
  if (!is_empty_or_missing(wanted)) return copy_failed(path + " is there, and not empty");
  Stores stores;
  if (auto wrong = open_cluster(stores, options)) return copy_failed(*wrong);
  const std::filesystem::path partial = wanted.string() + ".partial";
  auto directory = DataDirectory::open(partial);
  if (!directory) return copy_failed(directory.error());
  if (auto wrong = open_local(stores, partial)) return copy_failed(*wrong);
  const auto counts = carry_out({*stores.rados, *stores.local, {.look_again = true, .tell = print_progress}});
  if (!counts) return copy_failed(counts.error());
  // When it is opened again, its new ids are greater than the copied ones.
  stores.local.reset();
  if (auto wrong = open_local(stores, partial, counts->id_max)) return copy_failed(*wrong);
  stores.local.reset();
  if (auto wrong = take_accounts(*stores.rados, *directory)) return copy_failed(*wrong);
  if (auto wrong = give_name(partial, wanted)) return copy_failed(*wrong);
  print_counts(*counts);
  return exit_ok;
}

}  // namespace verbena::cli
