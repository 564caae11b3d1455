#include "cli/rados/open_cluster.h"

#include "store/rados/rados_store.h"

namespace verbena::cli {
namespace {

using store::rados::RadosStore;

// One of the texts that all servers of a cluster share: its reading and its replacement by the store.
class TextInCluster final : public auth::SharedText {
 public:
  using Read = Result<std::optional<std::string>> (RadosStore::*)();
  using Replace = Result<bool> (RadosStore::*)(const std::optional<std::string>& before, const std::string& text);
  TextInCluster(RadosStore& store, Read read, Replace replace) : store_(store), read_(read), replace_(replace) {}
  Result<std::optional<std::string>> read() override { return (store_.*read_)(); }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& text) override {
    return (store_.*replace_)(before, text);
  }

 private:
  RadosStore& store_;
  const Read read_;
  const Replace replace_;
};

}  // namespace

std::expected<server::ClusterEngine, std::string> open_cluster(const Config& config, memory::Arena& arena,
                                                               server::ClusterListener listener) {
  store::rados::Options options{.conf = config.rados.conf,
                                .user = config.rados.user,
                                .pool = config.rados.pool,
                                .index_pool = config.rados.index_pool,
                                .name_space = config.rados.name_space,
                                .timeout = config.rados.timeout,
                                .split_rows = config.rados.split_rows,
                                .read_leases = config.rados.keep,
                                .arena = &arena};
  options.on_change = std::move(listener.on_change);
  options.on_accounts = std::move(listener.on_accounts);
  options.on_keys = std::move(listener.on_keys);
  auto opened = RadosStore::connect(options);
  if (!opened) return std::unexpected("cannot open the store in the Ceph cluster: " + opened.error());
  RadosStore& store = **opened;
  server::ClusterEngine engine;
  engine.accounts = std::make_unique<TextInCluster>(store, &RadosStore::read_accounts, &RadosStore::replace_accounts);
  engine.key_ids = std::make_unique<TextInCluster>(store, &RadosStore::read_key_ids, &RadosStore::replace_key_ids);
  engine.sealed_keys =
      std::make_unique<TextInCluster>(store, &RadosStore::read_sealed_keys, &RadosStore::replace_sealed_keys);
  engine.feeds = &store;
  engine.shared_keys = &store;
  engine.may_keep = [&store](std::string_view bucket) { return store.may_keep(bucket); };
  engine.on_duty = [&store] { return store.leader_term(); };
  engine.store = std::move(*opened);
  return engine;
}

}  // namespace verbena::cli
