// The engine over Ceph: some servers on one modelled cluster.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "simulator/engine.h"
#include "store/rados/rados_store.h"

namespace verbena::simulator {

class RadosEngine final : public Engine {
 public:
  explicit RadosEngine(const std::vector<std::string>& scenes);
  size_t servers() const override { return servers_; }
  Result<std::unique_ptr<store::Store>> open(size_t server, memory::Arena& arena, BlockingPool& pool,
                                             std::string& trouble) override;
  std::function<bool()> duty(size_t server) const override;
  std::function<uint64_t()> term(size_t server) const override;
  bool shared() const override { return true; }
  void begin_round() override;
  std::string fate() const override;
  bool befell() const override { return befell_; }
  bool stopped(size_t server) const override;
  int64_t settles_ns() const override;
  bool one_moment() const override { return split_rows_ == one_tablet; }
  int64_t duty_ns() const override;
  int64_t clocks_apart_ns() const override { return clocks_apart_ns_; }
  void may_freeze(size_t server) override;
  int64_t linger_ns() const override { return linger_ns_; }
  bool leaves(size_t server) override;
  void left(size_t server) override;
  bool end_round() override;
  std::string check() override { return {}; }
  std::string check_open(size_t server) override;

 private:
  // Of a round. The cluster has its weather in each but the first. `holds`: a server's writes do not reach one OSD for
  // longer than it waits for an answer; and clients have few operations meanwhile, so that keys stay as a late call
  // expects them.
  enum class Fault : uint8_t { none, weather, stalls, cuts, holds, kill, freeze, shut_out, full };
  static std::vector<Fault> faults_of(const std::vector<std::string>& scenes);
  static constexpr size_t servers_max = 3;
  static constexpr uint64_t one_tablet = 100'000;  // rows

  void befall();  // now and then, while the round lasts
  void befall_once();
  void freeze(size_t server, int64_t lasts_ns);
  void hold(size_t server, int64_t lasts_ns);
  void shut_out();
  void set_clock(size_t server);
  void calm();
  bool rest(int64_t ns);  // false: the round is over
  std::string user(size_t server) const;

  const std::vector<Fault> faults_;  // that a round's is drawn from
  const size_t servers_;
  const bool hot_;
  const uint64_t split_rows_;
  const int64_t clocks_apart_ns_;
  Fault fault_ = Fault::none;
  size_t victim_ = 0;
  bool stopped_ = false, over_ = false;
  bool befell_ = false;  // from the first event of the fault on
  int64_t ends_ns_ = 0;  // of a round with a fault: calls that fail take minutes
  int64_t linger_ns_ = 0;
  int64_t held_until_ns_ = 0;
  bool frozen_ = false;            // a server
  std::optional<size_t> offered_;  // a server that is to freeze now
  std::thread fate_;
  std::array<store::rados::RadosStore*, servers_max> stores_{};
  std::array<std::unique_ptr<store::rados::RadosStore>, servers_max> under_;  // a hot tier
  std::array<uint64_t, servers_max> starts_{};
};

}  // namespace verbena::simulator
