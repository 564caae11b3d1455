// What is under the verbs of a world: an engine of the store, and what befalls it.
#pragma once

#include <memory>
#include <string>

#include "base/blocking.h"
#include "memory/arena.h"
#include "store/store.h"

namespace verbena::simulator {

class Engine {
 public:
  virtual ~Engine() = default;
  // For one server. `trouble`: why it does not open, in words.
  virtual Result<std::unique_ptr<store::Store>> open(memory::Arena& arena, BlockingPool& pool,
                                                     std::string& trouble) = 0;
  // A server is open: draws what befalls it, and when.
  virtual void begin_round() = 0;
  // Whether it has happened: calls may fail from then on.
  virtual bool befell() const = 0;
  // The server is gone: draws what the fault has left. Whether it was a crash.
  virtual bool end_round() = 0;
  // No server has it open: rot, writes that went elsewhere. From then on calls may fail, but never lie.
  virtual void damage() = 0;
  // What is wrong with all that is stored, while no server has it open; empty: nothing.
  virtual std::string check() = 0;
};

}  // namespace verbena::simulator
