// The local engine on the disk of the simulation.
#pragma once

#include "simulator/disk.h"
#include "simulator/engine.h"

namespace verbena::simulator {

class LocalEngine final : public Engine {
 public:
  Result<std::unique_ptr<store::Store>> open(size_t server, memory::Arena& arena, BlockingPool& pool,
                                             std::string& trouble) override;
  void begin_round() override;
  std::string fate() const override;
  bool befell() const override { return damaged_ || faulty_.fault_happened() || disk_.read_failed(); }
  bool end_round() override;
  bool stopped(size_t /*server*/) const override { return end_ == End::crash && befell(); }
  bool ends_soon() const override { return befell(); }
  bool errors_pend() const override { return befell() && (!damaged_ || decays_); }
  bool may_be_disturbed() const override { return true; }
  bool damage() override;
  bool decay() override;
  std::string check() override;

 private:
  enum class End : uint8_t { orderly, crash, no_space, write_error, read_errors };

  void damage_pages();
  void damage_page(const std::filesystem::path& folder);

  store::local::FaultyFileSystem faulty_;
  Disk disk_{faulty_};
  End end_ = End::orderly;
  bool damaged_ = false, decays_ = false;
};

}  // namespace verbena::simulator
