// The engine over RADOS, on a cluster that the environment names; each rig has a namespace of its own there.
#pragma once

#include <cstdlib>
#include <iostream>

#include "base/test_core.h"
#include "store/conformance/rig.h"
#include "store/hot_store.h"
#include "store/rados/cluster/cluster.h"
#include "store/rados/rados_store.h"

namespace verbena::store::conformance {

class RadosRig : public Rig {
 public:
  static bool has_cluster() { return std::getenv("VERBENA_TEST_CEPH_CONF") != nullptr; }

  RadosRig() {
    const auto of = [](const char* name) { return std::string(std::getenv(name)); };
    std::byte random[8];
    fill_random(random);
    options.conf = of("VERBENA_TEST_CEPH_CONF");
    options.pool = of("VERBENA_TEST_CEPH_POOL");
    options.index_pool = of("VERBENA_TEST_CEPH_INDEX_POOL");
    options.name_space = "rig-" + to_hex(random);
    options.arena = arena_.get();
    options.clock = &clock_;
  }
  ~RadosRig() override {
    store_.reset();
    clean();
  }
  void open() override {
    store_.reset();
    auto opened = rados::RadosStore::connect(options);
    if (!opened) ADD_FAILURE() << opened.error();
    store_ = std::move(*opened);
    // Only the leader, which delivers events, sees them in their current state.
    EXPECT_TRUE(eventually([this] { return store_->leader_term(); }));
  }
  void reopen() override { open(); }
  void crash(uint64_t) override { open(); }
  Store& engine() override { return *store_; }
  uint64_t live_bytes() override {
    settle();
    const auto survey = store_->survey();
    EXPECT_TRUE(survey);
    return survey ? survey->stripe_bytes + survey->small_bytes : UINT64_MAX;
  }
  bool leaks() override {
    const bool settled = settle();
    const auto survey = store_->survey();
    const bool leaks = !survey || survey->lost_count != 0 || survey->unnamed_stripes != 0 || survey->waiting_blobs != 0;
    if (leaks && survey) {
      std::cerr << "lost: " << survey->lost_count << ", unnamed stripes: " << survey->unnamed_stripes
                << ", still to be removed: " << survey->waiting_blobs << (settled ? "" : "; not settled in time")
                << '\n';
    }
    return leaks;
  }
  rados::RadosStore& store() { return *store_; }

  rados::Options options;

 private:
  // Waits until removed bytes are gone; a reader may delay that.
  bool settle() {
    return eventually([this] { return store_->settled(); });
  }
  // The cluster lives in memory.
  void clean() const {
    auto cluster = rados::Cluster::connect({.conf = options.conf,
                                            .user = options.user,
                                            .pool = options.pool,
                                            .index_pool = options.index_pool,
                                            .name_space = options.name_space});
    if (!cluster) return;
    for (const auto pool : {rados::Cluster::Pool::index, rados::Cluster::Pool::data}) {
      librados::IoCtx& context = (*cluster)->context(pool);
      std::vector<std::string> names;
      for (auto it = context.nobjects_begin(); it != context.nobjects_end(); ++it) names.push_back(it->get_oid());
      for (const std::string& name : names) context.remove(name);
    }
  }

  std::unique_ptr<rados::RadosStore> store_;
};

// Its tablets are split all the time.
class SplittingRadosRig final : public RadosRig {
 public:
  SplittingRadosRig() { options.split_rows = 4; }
};

// With a hot tier in front, which takes a read lease on every key that it is asked for twice.
class KeepingRadosRig final : public RadosRig {
 public:
  KeepingRadosRig() {
    options.read_leases = true;
    options.lease_rest = {};
  }
  void open() override {
    hot_.reset();
    RadosRig::open();
    put_in_front();
  }
  void expect_no_leak() override {
    RadosRig::expect_no_leak();
    hot_.reset();  // what it holds is not a leak
    put_in_front();
  }
  Store& engine() override { return *hot_; }
  Store& below() override { return store(); }
  bool answers_alone(const std::string& key) { return hot_->hot("b", key) != nullptr; }

 private:
  void put_in_front() {
    hot_ = std::make_unique<HotStore>(
        store(),
        HotStore::Options{
            .arena = arena_.get(), .capacity = 16 * MiB, .shared = &store(), .clock = &clock_, .keep_after = 1});
  }
  std::unique_ptr<HotStore> hot_;
};

}  // namespace verbena::store::conformance
