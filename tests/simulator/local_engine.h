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
  bool befell() const override { return faulty_.fault_happened(); }
  bool end_round() override;
  std::string check() override;

 private:
  enum class End : uint8_t { orderly, crash, no_space };

  store::local::FaultyFileSystem faulty_;
  Disk disk_{faulty_};
  End end_ = End::orderly;
};

}  // namespace verbena::simulator
