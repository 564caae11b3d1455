// The local engine on the disk of the simulation.
#pragma once

#include <set>
#include <string>

#include "simulator/disk.h"
#include "simulator/engine.h"
#include "store/local/fsck.h"

namespace verbena::simulator {

class LocalEngine final : public Engine {
 public:
  // `hot`: with a hot tier before it.
  explicit LocalEngine(bool hot) : hot_(hot) {}
  Result<std::unique_ptr<store::Store>> open(size_t server, memory::Arena& arena, BlockingPool& pool,
                                             std::string& trouble) override;
  void begin_round() override;
  std::string fate() const override;
  bool befell() const override { return damaged_ || is_full_ || faulty_.fault_happened() || disk_.read_failed(); }
  void left(size_t /*server*/) override { under_.reset(); }
  bool end_round() override;
  bool stopped(size_t /*server*/) const override { return end_ == End::crash && befell(); }
  bool ends_soon() const override { return befell() && !is_full_; }
  bool errors_pend() const override { return befell() && (!damaged_ || decays_); }
  bool failed_to_sync() const override { return failed_to_sync_; }
  bool may_be_disturbed() const override { return true; }
  bool damage() override;
  bool decay() override;
  bool hurts_data_alone() const override { return data_alone_; }
  bool hurts(const std::string& name) const override;
  std::string check() override;

 private:
  enum class End : uint8_t { orderly, crash, no_space, write_error, read_errors, full };

  Result<std::unique_ptr<store::Store>> open_below(memory::Arena& arena, BlockingPool& pool, std::string& trouble);
  Result<std::unique_ptr<store::Store>> open_once(memory::Arena& arena, BlockingPool& pool, std::string& trouble);
  void fail_write();
  bool is_excused(const store::local::FsckReport& report);
  void lose_power();
  void damage_pages();
  void damage_page(const std::filesystem::path& folder);
  uint64_t allocated();  // bytes of the volumes' files

  const bool hot_;
  std::unique_ptr<store::Store> under_;  // the hot tier
  store::local::FaultyFileSystem faulty_;
  Disk disk_{faulty_};
  End end_ = End::orderly;
  bool loses_power_ = false;                // at the end of the round
  bool start_fails_ = false;                // the next one
  bool was_orderly_ = false;                // the last round
  bool is_full_ = false;                    // the disk, until the end of the round, but for what is removed
  bool failed_to_sync_ = false;             // perhaps, in an earlier round, and the power has not gone since
  bool may_have_lost_ = false;              // what was not synced, since the last round began
  std::set<std::string> lost_of_memory_{};  // what fsck named of the bucket with `memory` durability
  // What a start keeps the next one gives back, bit by bit: perhaps not before it ends, but the one after that.
  bool kept_before_ = false;  // the last round
  bool has_kept_ = false;     // it, or the one before
  bool keeps_free_ = false;   // the last start: space in volumes, to use it again
  bool damaged_ = false, decays_ = false;
  bool data_alone_ = false;          // what the damage has hit
  std::vector<std::string> lost_{};  // by it: names of fsck
};

}  // namespace verbena::simulator
