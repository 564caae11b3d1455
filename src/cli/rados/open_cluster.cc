#include "cli/rados/open_cluster.h"

#include "store/rados/rados_store.h"

namespace verbena::cli {
namespace {

using store::rados::RadosStore;

// The accounts of all servers of a cluster.
class AccountsInCluster final : public auth::SharedText {
 public:
  explicit AccountsInCluster(RadosStore& store) : store_(store) {}
  Result<std::optional<std::string>> read() override { return store_.read_accounts(); }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& text) override {
    return store_.replace_accounts(before, text);
  }

 private:
  RadosStore& store_;
};

// The ids of their master keys.
class KeyIdsInCluster final : public auth::SharedText {
 public:
  explicit KeyIdsInCluster(RadosStore& store) : store_(store) {}
  Result<std::optional<std::string>> read() override { return store_.read_key_ids(); }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& text) override {
    return store_.replace_key_ids(before, text);
  }

 private:
  RadosStore& store_;
};

// These keys, each sealed under an earlier one.
class SealedKeysInCluster final : public auth::SharedText {
 public:
  explicit SealedKeysInCluster(RadosStore& store) : store_(store) {}
  Result<std::optional<std::string>> read() override { return store_.read_sealed_keys(); }
  Result<bool> replace(const std::optional<std::string>& before, const std::string& text) override {
    return store_.replace_sealed_keys(before, text);
  }

 private:
  RadosStore& store_;
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
  engine.accounts = std::make_unique<AccountsInCluster>(store);
  engine.key_ids = std::make_unique<KeyIdsInCluster>(store);
  engine.sealed_keys = std::make_unique<SealedKeysInCluster>(store);
  engine.feeds = &store;
  engine.shared_keys = &store;
  engine.may_keep = [&store](std::string_view bucket) { return store.may_keep(bucket); };
  engine.on_duty = [&store] { return store.leader_term(); };
  engine.store = std::move(*opened);
  return engine;
}

}  // namespace verbena::cli
