// A store with persistent memory, over the models of memory and disk. For tests.
#pragma once

#include "store/local/batch.h"
#include "store/local/pmem_log.h"
#include "store/local/seam_env.h"
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
  // Changes one byte of what is in the log: of the newest record with these bytes.
  void damage(const std::string& bytes, bool poisoned = false) {
    const auto all = memories.bytes();
    const std::string text(reinterpret_cast<const char*>(all.data()), all.size());
    const size_t at = text.rfind(bytes.substr(0, 100));
    ASSERT_NE(at, std::string::npos);
    if (poisoned) {
      memories.poison(at + 50);
    } else {
      memories.change(at + 50);
    }
  }
  // Changes rows without the store's knowledge, which is closed.
  void edit_index(const std::function<void(Index& index, Batch& batch)>& change) {
    const auto env = make_seam_env(fs);
    auto index = Index::open({.directory = "/store/index", .env = env.get()});
    ASSERT_TRUE(index);
    Batch batch(**index);
    change(**index, batch);
    ASSERT_TRUE((*index)->write(batch));
  }
  // The row of the first object.
  void edit_row(const std::function<void(std::string& row)>& change) {
    edit_index([&](Index& index, Batch& batch) {
      Cursor cursor = index.cursor(Family::objects, "");
      ASSERT_TRUE(cursor.valid());
      std::string row(cursor.value());
      change(row);
      batch.put(Family::objects, cursor.key(), row);
    });
  }

  FaultyFileSystem fs;
  ModelMemories memories;
  std::string trouble;
  TestStore t{&fs};
};

}  // namespace verbena::store::local
