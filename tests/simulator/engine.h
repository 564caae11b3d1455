// What is under the verbs of a world: an engine of the store, and what befalls it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/blocking.h"
#include "memory/arena.h"
#include "store/store.h"

namespace verbena::simulator {

class Engine {
 public:
  virtual ~Engine() = default;
  virtual size_t servers() const { return 1; }  // that have it open at once
  // Whether servers may be given up while they are away.
  virtual bool shared() const { return false; }
  // For one server. `trouble`: why it does not open, in words.
  virtual Result<std::unique_ptr<store::Store>> open(size_t server, memory::Arena& arena, BlockingPool& pool,
                                                     std::string& trouble) = 0;
  // Where servers share the store: whether this one does what one of them does.
  virtual std::function<bool()> duty(size_t /*server*/) const { return {}; }
  virtual std::function<uint64_t()> term(size_t /*server*/) const { return {}; }  // 0: another one's, or none
  // A server is open: draws what befalls it, and when.
  virtual void begin_round() = 0;
  // What befalls it in this round, in a word.
  virtual std::string fate() const = 0;
  // Whether it has happened: calls may fail from then on.
  virtual bool befell() const = 0;
  // Whether that server has stopped: its clients go.
  virtual bool stopped(size_t /*server*/) const { return befell(); }
  // After an error, until nothing of the call can happen any more.
  virtual int64_t settles_ns() const { return 0; }
  // At most so much a server's wall clock is ahead of the world's, or behind.
  virtual int64_t clocks_apart_ns() const { return 0; }
  // Whether a page of a listing is one moment of all keys; else of each key.
  virtual bool one_moment() const { return true; }
  // Until some server does what one of them does.
  virtual int64_t duty_ns() const { return 0; }
  // Whether the server goes at the end of the round.
  virtual bool leaves(size_t /*server*/) { return true; }
  virtual void left(size_t /*server*/) {}
  // The server is gone: draws what the fault has left. Whether it was a crash.
  virtual bool end_round() = 0;
  // After an error that is no crash: clients go on for a while, and then the round ends.
  virtual bool ends_soon() const { return false; }
  // Whether what a failed call began may come back until the server has gone.
  virtual bool errors_pend() const { return false; }
  // Whether a sync may have failed in an earlier round: what that was to write is read until the power goes.
  virtual bool failed_to_sync() const { return false; }
  // That server is in the middle of something, on the calling thread: it may freeze here.
  virtual void may_freeze(size_t /*server*/) {}
  // Clients rest up to so long between two operations; 0: as they do.
  virtual int64_t linger_ns() const { return 0; }
  // Whether clocks may jump, and the process stand still.
  virtual bool may_be_disturbed() const { return false; }
  // No server has it open: rot, writes that went elsewhere. From then on calls may fail, but never lie. False: none.
  virtual bool damage() { return false; }
  // Whether the damage is to objects' bytes alone: a server then opens, and reads all but what this names, of a bucket
  // and a key as `bucket/key`.
  virtual bool hurts_data_alone() const { return false; }
  virtual bool hurts(const std::string& /*name*/) const { return true; }
  // The same while a server has it open.
  virtual bool decay() { return false; }
  // What is wrong with all that is stored, while no server has it open; empty: nothing.
  virtual std::string check() = 0;
  // Likewise, while servers have it open.
  virtual std::string check_open(size_t /*server*/) { return {}; }
};

}  // namespace verbena::simulator
