#include "store/rados/inspect/admin.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <list>
#include <map>

#include "store/rados/inspect/repair.h"
#include "store/rados/inspect/survey.h"

namespace verbena::store::rados {
namespace {

using Said = std::expected<void, std::string>;

ClusterOptions cluster_options(const Options& options) {
  return {.conf = options.conf,
          .user = options.user,
          .pool = options.pool,
          .index_pool = options.index_pool,
          .name_space = options.name_space,
          .timeout = options.timeout};
}

// A connection for commands, which needs no pool yet.
Said connect(librados::Rados& rados, const Options& options) {
  const auto said = [](int code, const std::string& what) -> Said {
    if (code >= 0) return {};
    return std::unexpected(what + ": " + std::strerror(-code));
  };
  const std::string seconds = std::to_string(options.timeout.count());
  if (auto done = said(rados.init(options.user.c_str()), "rados"); !done) return done;
  const char* conf = options.conf.empty() ? nullptr : options.conf.c_str();
  if (auto done = said(rados.conf_read_file(conf), conf == nullptr ? "no ceph.conf" : options.conf); !done) return done;
  for (const char* name : {"rados_osd_op_timeout", "rados_mon_op_timeout", "client_mount_timeout"}) {
    if (auto done = said(rados.conf_set(name, seconds.c_str()), name); !done) return done;
  }
  return said(rados.connect(), "the Ceph cluster does not let in client." + options.user);
}

// Names come from a configuration file: quotes and unprintable characters are not allowed in a command.
bool plain(const std::string& name) {
  return !name.empty() && name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
                              std::string::npos;
}

Said command(librados::Rados& rados, std::string text) {
  Buffer nothing, answer;
  std::string why;
  const int code = rados.mon_command(std::move(text), nothing, &answer, &why);
  if (code >= 0) return {};
  return std::unexpected(why.empty() ? std::string(std::strerror(-code)) : why);
}

class PoolMaker {
 public:
  PoolMaker(librados::Rados& rados, const PoolOptions& options) : rados_(rados), options_(options) {}

  Said make(const std::string& name, bool erasure_coded) {
    if (!plain(name)) return std::unexpected("'" + name + "' is no name of a pool");
    if (rados_.pool_lookup(name.c_str()) >= 0) {
      told_.push_back("pool " + name + " is there already: left as it is");
      return {};
    }
    auto made = erasure_coded ? make_coded(name) : make_copied(name);
    if (!made) return std::unexpected("pool " + name + ": " + made.error());
    return tell(R"("prefix":"osd pool application enable","pool":"{}","app":"verbena")", name);
  }
  std::vector<std::string> told() { return std::move(told_); }

 private:
  Said make_copied(const std::string& name) {
    const std::string rule = "verbena-" + options_.failure_domain;
    auto ruled = tell(R"("prefix":"osd crush rule create-replicated","name":"{}","root":"default","type":"{}")", rule,
                      options_.failure_domain);
    if (!ruled) return ruled;
    auto made =
        tell(R"("prefix":"osd pool create","pool":"{}","pg_num":{},"pool_type":"replicated","rule":"{}","size":{})",
             name, options_.placement_groups, rule, options_.copies);
    if (made) told_.push_back(fmt::format("pool {}: {} copies", name, options_.copies));
    return made;
  }
  Said make_coded(const std::string& name) {
    const std::string profile =
        fmt::format("verbena-{}-{}-{}", options_.data_shards, options_.code_shards, options_.failure_domain);
    auto profiled = tell(
        R"("prefix":"osd erasure-code-profile set","name":"{}","profile":["k={}","m={}","crush-failure-domain={}"])",
        profile, options_.data_shards, options_.code_shards, options_.failure_domain);
    if (!profiled) return profiled;
    auto made =
        tell(R"("prefix":"osd pool create","pool":"{}","pg_num":{},"pool_type":"erasure","erasure_code_profile":"{}")",
             name, options_.placement_groups, profile);
    if (made)
      told_.push_back(fmt::format("pool {}: erasure-coded {}+{}", name, options_.data_shards, options_.code_shards));
    return made;
  }

  // The text between the braces of a command.
  template <class... Args>
  Said tell(fmt::format_string<Args...> format, Args&&... args) {
    return command(rados_, "{" + fmt::format(format, std::forward<Args>(args)...) + "}");
  }

  librados::Rados& rados_;
  const PoolOptions& options_;
  std::vector<std::string> told_;
};

// A cluster connection with a registry, and a thread to run it.
class Looker {
 public:
  Looker(const Options& options, std::unique_ptr<Cluster> cluster) : engine_(options, std::move(cluster)) {
    engine_.thread = std::thread([this] { engine_.io.run(); });
  }
  ~Looker() { engine_.close(); }
  Engine& engine() { return engine_; }

 private:
  Engine engine_;
};

std::string said(const Error& error) {
  return error == Errc::not_found ? "there is no store in these pools" : describe(error);
}

Task<Result<void>> count_kept(Registry& registry, ClusterStatus& status) {
  VB_CO_ASSIGN(const auto holders, co_await registry.all(std::string(servers_object), "k"));
  for (const auto& [row, state] : holders) {
    if (state != live_holder) continue;
    ++status.holders;
    struct Reply {
      Buffer kept;
      int code = 0;
    };
    auto reply = std::make_shared<Reply>();
    librados::ObjectReadOperation op;
    op.getxattr(leases_attribute, &reply->kept, &reply->code);
    const uint64_t holder = keys::parse_number(row.substr(1)).value_or(0);
    const int code =
        co_await registry.cluster().read(Cluster::Pool::index, holder_object(holder), std::move(op), reply);
    if (code == -ENOENT || code == -ENODATA) continue;  // just removed, or just created
    if (code < 0) co_return std::unexpected(to_error(code, "rados: lease holder"));
    status.kept_objects += keys::parse_number(to_text(reply->kept)).value_or(0);
  }
  co_return Result<void>{};
}

Task<Result<void>> count_rows(Registry& registry, ClusterStatus& status) {
  VB_CO_ASSIGN(auto rows, co_await registry.all(std::string(root_object), "b"));
  for (const auto& [name, value] : rows) {
    auto state = co_await registry.load(keys::parse_number(value).value_or(0));
    if (!state && state.error() == Errc::no_such_bucket) continue;
    if (!state) co_return std::unexpected(state.error());
    ++status.buckets;
    for (const Tablet& tablet : (*state)->tablets) {
      ++status.tablets;
      const std::string object = tablet.object;
      VB_CO_ASSIGN(auto dead, co_await registry.all(object, "!"));
      status.waiting_blobs += dead.size();
    }
  }
  VB_CO_ASSIGN(auto signs, co_await registry.all(std::string(servers_object), "s"));
  status.servers = signs.size();
  co_return co_await count_kept(registry, status);
}

}  // namespace

std::expected<std::vector<std::string>, std::string> make_pools(const Options& options, const PoolOptions& pools) {
  if (!plain(pools.failure_domain)) return std::unexpected("the failure domain is no name");
  librados::Rados rados;
  if (auto done = connect(rados, options); !done) return std::unexpected(done.error());
  PoolMaker maker(rados, pools);
  auto made = maker.make(options.index_pool, false);
  if (made) made = maker.make(options.pool, pools.data_shards != 0);
  rados.shutdown();
  if (!made) return std::unexpected(made.error());
  return maker.told();
}

std::expected<ClusterStatus, std::string> cluster_status(const Options& options) {
  auto connected = Cluster::connect(cluster_options(options));
  if (!connected) return std::unexpected(connected.error());
  Looker looker(options, std::move(*connected));
  Cluster& cluster = *looker.engine().cluster;
  ClusterStatus status;
  librados::cluster_stat_t all{};
  if (const int code = cluster.handle().cluster_stat(all); code < 0) {
    return std::unexpected("the cluster does not say how full it is: " + std::string(std::strerror(-code)));
  }
  cluster.handle().cluster_fsid(&status.fsid);
  status.bytes = all.kb * KiB;
  status.bytes_free = all.kb_avail * KiB;
  std::list<std::string> names = {options.index_pool};
  if (options.pool != options.index_pool) names.push_back(options.pool);
  librados::stats_map stats;
  if (cluster.handle().get_pool_stats(names, stats) >= 0) {
    for (const auto& [name, stat] : stats) status.pools.push_back({name, stat.num_objects, stat.num_bytes});
  }
  std::list<obj_watch_t> watchers;
  const int listed = cluster.context(Cluster::Pool::index).list_watchers(std::string(root_object), &watchers);
  if (listed == -ENOENT) return status;  // no server has ever run
  if (listed < 0) return std::unexpected("the index pool does not answer: " + std::string(std::strerror(-listed)));
  status.watchers = watchers.size();
  if (auto counted = looker.engine().run(count_rows(looker.engine().registry, status)); !counted) {
    return std::unexpected(describe(counted.error()));
  }
  return status;
}

std::expected<Repaired, std::string> repair_store(const Options& options) {
  auto connected = Cluster::connect(cluster_options(options));
  if (!connected) return std::unexpected(connected.error());
  Looker looker(options, std::move(*connected));
  auto repaired = Repair(looker.engine()).run();
  if (!repaired) return std::unexpected(said(repaired.error()));
  return *repaired;
}

std::expected<Survey, std::string> check_store(const Options& options) {
  auto connected = Cluster::connect(cluster_options(options));
  if (!connected) return std::unexpected(connected.error());
  Looker looker(options, std::move(*connected));
  auto survey = survey_store(looker.engine());
  if (!survey) return std::unexpected(said(survey.error()));
  return std::move(*survey);
}

}  // namespace verbena::store::rados
