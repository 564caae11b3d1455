// What the load of rivals.py and its mount share: a client of the native door, and reads ahead of one object.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <string>
#include <vector>

#include "verbena/client.h"

namespace rivals {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "rivals: %s\n", what.c_str());
  std::_Exit(1);  // from any of the callers' threads: the others go on while exit() destroys what they use
}

template <class T>
const T& must(const verbena::Outcome<T>& outcome, const char* what) {
  if (!outcome) fail(std::string(what) + ": " + outcome.error().message);
  return *outcome;
}

inline std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

inline verbena::Client connect(const std::string& provider) {
  verbena::ClientOptions options;
  options.endpoint = environment("AWS_ENDPOINT_URL");
  options.native_endpoint = environment("VERBENA_NATIVE");  // none: the usual port
  options.access_key = environment("AWS_ACCESS_KEY_ID");
  options.secret_key = environment("AWS_SECRET_ACCESS_KEY");
  options.via = verbena::Via::native;
  options.provider = provider;
  options.connect_timeout = std::chrono::seconds(30);  // the machine is an emulated one
  options.attempts_max = 1000;  // a server refuses listings with values beyond a few at once, and callers wait
  return must(verbena::Client::connect(options), "connect");
}

// The object "large" of a bucket, read in order and from its begin again, with `depth` reads of `size` bytes in flight.
// Of one thread.
class ReadAhead {
 public:
  // `whole`: the object's bytes, a multiple of `size`. Memory of depth times `size` is registered here.
  ReadAhead(const verbena::Client& client, std::string bucket, unsigned depth, size_t size, uint64_t whole)
      : client_(client), bucket_(std::move(bucket)), size_(size), whole_(whole), slots_(depth) {
    for (auto& slot : slots_) slot.memory = must(client_.allocate(size), "allocate");
  }
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead() { seek(0); }

  // The next read begins here. What is in flight is waited for and dropped.
  void seek(uint64_t offset) {
    for (auto& slot : slots_)
      if (slot.reply.valid()) (void)slot.reply.get();
    asked_ = taken_ = offset / size_;
  }

  // The next piece; valid until the next call, which reuses its memory.
  const verbena::Buffer& next() {
    while (asked_ < taken_ + slots_.size()) ask(asked_++);
    Slot& slot = slots_[taken_++ % slots_.size()];
    if (must(slot.reply.get(), "get").bytes != size_) fail("a short read");
    return slot.memory;
  }

 private:
  struct Slot {
    verbena::Buffer memory;
    std::future<verbena::Outcome<verbena::GetReply>> reply;
  };

  void ask(uint64_t number) {
    Slot& slot = slots_[number % slots_.size()];
    const verbena::GetOptions options{.range = verbena::Range{number * size_ % whole_, size_}};
    slot.reply = client_.get_async(bucket_, "large", slot.memory, options);
  }

  const verbena::Client& client_;
  std::string bucket_;
  size_t size_;
  uint64_t whole_, asked_ = 0, taken_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace rivals
