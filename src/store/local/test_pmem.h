// A store with persistent memory, over the models of memory and disk. For tests.
#pragma once

#include "store/local/pmem_log.h"
#include "store/local/test_persistent_memory.h"
#include "store/local/test_store.h"

namespace verbena::store::local {

class Pmem : public ::testing::Test {
 protected:
  using Fault = FaultyFileSystem::Fault;
  using Loss = FaultyFileSystem::Loss;

  Pmem() {
    t.options.pmem = "/pmem";
    t.options.pmem_log_size = PmemLog::size_min;
    t.options.pmem_memories = &memories;
    t.options.trouble = &trouble;
    t.options.write_behind_after = std::chrono::hours(1);
  }
  // The disk and the memory lose power at once.
  void power_cut(uint64_t seed = 1, Loss loss = Loss::unsynced) {
    fs.fail_at(0, Fault::crash);
    t.close();
    fs.crash(loss, seed);
    memories.cut(seed);
  }

  FaultyFileSystem fs;
  ModelMemories memories;
  std::string trouble;
  TestStore t{&fs};
};

}  // namespace verbena::store::local
