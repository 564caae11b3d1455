// The commands of `verbena rados`.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/config.h"
#include "base/log.h"
#include "cli/configuration.h"
#include "cli/exit_code.h"
#include "cli/rados/engine.h"
#include "cli/rados/open_cluster.h"
#include "cli/rados/rados_copy.h"
#include "store/rados/inspect/admin.h"

namespace verbena::cli {
namespace {

using Json = nlohmann::json;
using store::rados::Repaired;
using store::rados::Survey;

int rados_failed(const std::string& message, int code = exit_failure) {
  std::fprintf(stderr, "verbena: %s\n", message.c_str());
  return code;
}

// File, environment and --set, as the server's.
std::expected<store::rados::Options, std::string> read_options(const RadosFlags& flags) {
  auto read = read_file_and_environment(flags.config_path);
  if (!read) return std::unexpected(read.error());
  Config config = std::move(*read);
  if (auto done = apply_assignments(config, flags.set); !done) return std::unexpected(done.error());
  return store::rados::Options{.conf = config.rados.conf,
                               .user = config.rados.user,
                               .pool = config.rados.pool,
                               .index_pool = config.rados.index_pool,
                               .name_space = config.rados.name_space,
                               .timeout = config.rados.timeout};
}

bool parse_shards(const std::string& text, store::rados::PoolOptions& into) {
  unsigned data = 0, code = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%2u+%2u%c", &data, &code, &rest) != 2) return false;
  into.data_shards = data;
  into.code_shards = code;
  return data >= 1 && code >= 1;
}

int init(const RadosFlags& flags) {
  auto options = read_options(flags);
  if (!options) return rados_failed(options.error(), exit_usage);
  store::rados::PoolOptions pools{.placement_groups = flags.placement_groups, .copies = flags.copies};
  pools.failure_domain = flags.failure_domain;
  if (!flags.erasure.empty() && !parse_shards(flags.erasure, pools)) {
    return rados_failed("--erasure wants K+M, such as 4+2", exit_usage);
  }
  auto made = store::rados::make_pools(*options, pools);
  if (!made) return rados_failed(made.error());
  for (const auto& sentence : *made) std::printf("%s\n", sentence.c_str());
  return exit_ok;
}

int show_status(const RadosFlags& flags) {
  auto options = read_options(flags);
  if (!options) return rados_failed(options.error(), exit_usage);
  auto status = store::rados::cluster_status(*options);
  if (!status) return rados_failed(status.error(), exit_connection);
  if (flags.json) {
    Json pools = Json::array();
    for (const auto& pool : status->pools) {
      pools.push_back({{"name", pool.name}, {"objects", pool.objects}, {"bytes", pool.bytes}});
    }
    const Json all = {{"fsid", status->fsid},
                      {"bytes", status->bytes},
                      {"bytes_free", status->bytes_free},
                      {"pools", pools},
                      {"servers", status->servers},
                      {"watchers", status->watchers},
                      {"keepers", status->holders},
                      {"kept_objects", status->kept_objects},
                      {"buckets", status->buckets},
                      {"tablets", status->tablets},
                      {"waiting_blobs", status->waiting_blobs}};
    std::printf("%s\n", all.dump(2).c_str());
    return exit_ok;
  }
  std::printf("cluster %s: %s, %s free\n", status->fsid.c_str(), format_size(status->bytes).c_str(),
              format_size(status->bytes_free).c_str());
  for (const auto& pool : status->pools) {
    std::printf("pool %s: %llu objects, %s\n", pool.name.c_str(), static_cast<unsigned long long>(pool.objects),
                format_size(pool.bytes).c_str());
  }
  std::printf("%llu servers are connected, %llu are registered\n", static_cast<unsigned long long>(status->watchers),
              static_cast<unsigned long long>(status->servers));
  std::printf("%llu servers hold read leases on hot objects and answer for them from memory: %llu objects\n",
              static_cast<unsigned long long>(status->holders), static_cast<unsigned long long>(status->kept_objects));
  std::printf("%llu buckets in %llu tablets, %llu blobs wait to be removed\n",
              static_cast<unsigned long long>(status->buckets), static_cast<unsigned long long>(status->tablets),
              static_cast<unsigned long long>(status->waiting_blobs));
  return exit_ok;
}

Json to_json(const Repaired& repaired) {
  return {{"stripes", repaired.stripes},
          {"bytes", repaired.bytes},
          {"tablets", repaired.tablets},
          {"stripes_of_living", repaired.stripes_of_living},
          {"servers_given_up", repaired.servers_given_up}};
}

void print(const Repaired& repaired) {
  std::printf("removed %llu stripes that belonged to no object: %s\n",
              static_cast<unsigned long long>(repaired.stripes), format_size(repaired.bytes).c_str());
  if (repaired.tablets != 0) {
    std::printf("removed %llu tablets that belonged to no bucket\n", static_cast<unsigned long long>(repaired.tablets));
  }
  if (repaired.servers_given_up != 0) {
    std::printf("%llu servers were silent for half a minute: their unfinished changes were abandoned\n",
                static_cast<unsigned long long>(repaired.servers_given_up));
  }
  if (repaired.stripes_of_living != 0) {
    std::printf("%llu stripes are left: the servers that wrote them are alive, and may be about to use them\n",
                static_cast<unsigned long long>(repaired.stripes_of_living));
  }
}

Json to_json(const Survey& survey) {
  return {{"sound", survey.lost_count == 0},
          {"lost", survey.lost},
          {"lost_count", survey.lost_count},
          {"unnamed_stripes", survey.unnamed_stripes},
          {"waiting_blobs", survey.waiting_blobs},
          {"buckets", survey.buckets},
          {"tablets", survey.tablets},
          {"objects", survey.objects},
          {"old_versions", survey.versions},
          {"parts", survey.parts},
          {"small_blobs", survey.small_blobs},
          {"stripes", survey.stripes},
          {"bytes", survey.stripe_bytes + survey.small_bytes}};
}

int check_rados(const RadosFlags& flags) {
  auto options = read_options(flags);
  if (!options) return rados_failed(options.error(), exit_usage);
  std::optional<Repaired> repaired;
  if (flags.repair) {
    auto done = store::rados::repair_store(*options);
    if (!done) return rados_failed(done.error());
    repaired = *done;
  }
  auto survey = store::rados::check_store(*options);
  if (!survey) return rados_failed(survey.error());
  const bool lost = survey->lost_count != 0;
  if (flags.json) {
    Json all = to_json(*survey);
    if (repaired) all["removed"] = to_json(*repaired);
    const auto text = all.dump(2, ' ', false, Json::error_handler_t::replace);  // a key may be invalid UTF-8
    std::printf("%s\n", text.c_str());
    return lost ? exit_damaged : exit_ok;
  }
  if (repaired) print(*repaired);
  for (const auto& name : survey->lost) std::printf("lost: %s\n", log::printable(name).c_str());
  std::printf(
      "%llu buckets, %llu objects, %llu older versions, %llu parts of uploads: %s in %llu stripes and %llu rows\n",
      static_cast<unsigned long long>(survey->buckets), static_cast<unsigned long long>(survey->objects),
      static_cast<unsigned long long>(survey->versions), static_cast<unsigned long long>(survey->parts),
      format_size(survey->stripe_bytes + survey->small_bytes).c_str(), static_cast<unsigned long long>(survey->stripes),
      static_cast<unsigned long long>(survey->small_blobs));
  if (survey->unnamed_stripes != 0) {
    std::printf("%llu stripes belong to no object, or are being written. That costs space; nothing is lost.\n",
                static_cast<unsigned long long>(survey->unnamed_stripes));
  }
  std::printf(lost ? "DAMAGED: %llu objects lack bytes.\n" : "sound\n",
              static_cast<unsigned long long>(survey->lost_count));
  return lost ? exit_damaged : exit_ok;
}

int import_directory(const RadosFlags& flags) {
  auto options = read_options(flags);
  if (!options) return rados_failed(options.error(), exit_usage);
  return copy_into_cluster(*options, flags.directory);
}

int export_directory(const RadosFlags& flags) {
  auto options = read_options(flags);
  if (!options) return rados_failed(options.error(), exit_usage);
  return copy_out_of_cluster(*options, flags.directory);
}

}  // namespace

RadosEngine rados_engine() {
  return {.open = open_cluster,
          .init = init,
          .status = show_status,
          .check = check_rados,
          .import_directory = import_directory,
          .export_directory = export_directory};
}

}  // namespace verbena::cli
