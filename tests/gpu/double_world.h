// What the parts of the driver double share: devices, their memory, streams that run late, and calls that fail on
// demand.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

namespace cuda_double {

inline constexpr int devices = 2;
inline constexpr size_t page = 4096;

enum : int {
  ok = 0,
  invalid_value = 1,
  out_of_memory = 2,
  invalid_device = 101,
  invalid_context = 201,
  uncorrectable = 214,
  invalid_handle = 400,
  not_ready = 600,
  already_locked = 712,
  not_locked = 713,
};

struct Context {
  int device = 0;
  std::atomic<bool> lost{false};
};
// Physical memory of the virtual memory API. Behind its bytes the file has a Label, by which another process knows it.
struct Physical {
  uint64_t handle = 0;
  unsigned handles = 0;  // references that callers have
  int device = 0;
  size_t size = 0;
  int memfd = -1;
  bool shareable = false, imported = false;
  ~Physical() {
    if (memfd >= 0) ::close(memfd);
  }
};
struct Allocation {
  int device = 0;
  size_t size = 0;
  std::byte* bytes = nullptr;  // the second mapping
  uint64_t id = 0;
  bool managed = false;
  int memfd = -1;                           // of the bytes, for other processes
  unsigned imported = 0;                    // opened by a handle, so many times; 0: this process's own
  uint64_t inode = 0;                       // then: of what was opened
  std::shared_ptr<Physical> physical = {};  // what is mapped there; null: memory of cuMemAlloc
  bool accessible = true;
};
// What the driver's handle of an allocation is here: the descriptor of its bytes in the process that owns it. That of
// another driver's double is none, nor is one that was changed: a bit of the inode's number is all that tells it from a
// neighbour's, so a sum over the fields is part of it.
struct Handle {
  static constexpr uint64_t magic_value = 0x656c62756f64ull + DOUBLE_PLATFORM;
  uint64_t magic = magic_value;
  int32_t process = 0, memfd = -1, device = 0, zero = 0;
  uint64_t inode = 0, size = 0, check = 0;
  char rest[16] = {};
  uint64_t sum() const {
    uint64_t all = magic;
    for (const auto field : {static_cast<uint64_t>(process), static_cast<uint64_t>(memfd),
                             static_cast<uint64_t>(device), static_cast<uint64_t>(zero), inode, size}) {
      all = (all ^ field) * 0x9e3779b97f4a7c15ull;
      all ^= all >> 29;
    }
    return all;
  }
};
static_assert(sizeof(Handle) == 64);
struct HandleBytes {
  char bytes[64];
};
struct Stream {
  explicit Stream(int on) : device(on), thread([this](const std::stop_token& stop) { run(stop); }) {}
  void run(const std::stop_token& stop);
  void add(std::function<void()> work) {
    std::lock_guard lock(mutex);
    work_.push_back(std::move(work));
    ++added;
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this, until = added] { return done >= until; });
  }

  int device;
  std::atomic<bool> held{false}, captured{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> work_;
  uint64_t added = 0, done = 0;
  std::jthread thread;
};
struct Event {
  std::atomic<uint64_t> recorded{0}, reached{0};  // a stream may reach one that was destroyed
  int device = 0;
};
struct Failure {
  int status = 0;
  unsigned after = 0, until = ~0u;  // numbers of its uses
};

// Page-locked memory. `stale`: its device was lost, and a process with a new context may lock it anew.
struct Locked {
  size_t size = 0;
  int device = 0;
  bool stale = false;
};

// A bit of the device's byte there changes at that use of a call.
struct Flip {
  uint64_t address = 0;
  unsigned at = 0;
};

// Leaked: threads of streams may outlive the statics of a process.
struct World {
  std::mutex mutex;
  Context contexts[devices];
  std::map<uint64_t, Allocation> allocations;
  std::map<uint64_t, size_t> reservations;
  std::map<uint64_t, std::shared_ptr<Physical>> handles;
  std::map<uintptr_t, Locked> locked;
  std::map<std::string, unsigned> calls;
  std::map<std::string, Failure> failures;
  std::map<std::string, unsigned> slow;  // microseconds
  std::map<std::string, Flip> flips;
  std::string wrong;              // the copies of this name bring a wrong byte
  std::set<std::string> blocked;  // calls that do not return
  unsigned waiting = 0;           // uses of them
  std::condition_variable let_go;
  std::list<std::unique_ptr<Stream>> streams, ended_streams;
  std::vector<std::unique_ptr<Event>> events;
  std::unique_ptr<Stream> legacy[devices];
  uint64_t next_id = 1;
  std::atomic<unsigned> delay{200}, pageable{0}, misuse{0};
  std::atomic<bool> held{false}, blind{false}, over_pcie{false};
  // AMD's devices order nothing, and their driver flushes.
  std::atomic<int> write_order{DOUBLE_PLATFORM == 2 ? 0 : 100}, flush_options{DOUBLE_PLATFORM == 2 ? 1 : 0};
};
// The calls of all processes that have TEST_VERBENA_DRIVER_CALLS in their environment, as the first 8 bytes of the file
// that it names: one that is empty, or is not there, was made by none that has loaded this library. Null: not counted.
inline std::atomic<uint64_t>* calls_file() {
  const char* const path = std::getenv("TEST_VERBENA_DRIVER_CALLS");
  if (path == nullptr) return nullptr;
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void* const place = file < 0 || ::ftruncate(file, page) != 0
                          ? MAP_FAILED
                          : ::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) ::close(file);
  return place == MAP_FAILED ? nullptr : static_cast<std::atomic<uint64_t>*>(place);
}
inline std::atomic<uint64_t>* const counted_calls = calls_file();  // when the library is loaded

// TEST_VERBENA_CUDA_FAIL=cuInit=100 in a process's environment: that call fails with that status from its first use on.
// TEST_VERBENA_CUDA_WRONG=cuMemcpyDtoH_v2: each of those copies brings one wrong byte, the middle one.
inline World* make_world() {
  auto* made = new World;
  made->contexts[1].device = 1;
  const char* given = std::getenv("TEST_VERBENA_CUDA_FAIL");
  const std::string text = given == nullptr ? "" : given;
  if (const size_t at = text.find('='); at != std::string::npos) {
    made->failures[text.substr(0, at)] = {std::atoi(text.c_str() + at + 1), 0};
  }
  if (const char* const wrong = std::getenv("TEST_VERBENA_CUDA_WRONG")) made->wrong = wrong;
  return made;
}
inline World& world() {
  static World* const made = make_world();
  return *made;
}
inline thread_local std::vector<Context*> stack;
inline thread_local bool copying = false;  // as a device, or as the test itself

inline void Stream::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex);
  while (!stop.stop_requested()) {
    if (work_.empty() || held || world().held) {
      changed.wait_for(lock, std::chrono::milliseconds(1));
      continue;
    }
    auto work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(world().delay));
    work();
    lock.lock();
    ++done;
    changed.notify_all();
  }
}

// The allocation that contains [address, address + size); nullptr: none. Under the lock.
inline Allocation* find(uint64_t address, size_t size, uint64_t* begin = nullptr) {
  auto at = world().allocations.upper_bound(address);
  if (at == world().allocations.begin()) return nullptr;
  --at;
  if (address - at->first >= at->second.size || size > at->second.size - (address - at->first)) return nullptr;
  if (begin != nullptr) *begin = at->first;
  return &at->second;
}

// Counts a call, and returns the status that it was told to fail with.
inline int enter(const char* call) {
  std::unique_lock lock(world().mutex);
  if (const auto flip = world().flips.find(call);
      flip != world().flips.end() && flip->second.at == world().calls[call]) {
    const uint64_t address = flip->second.address;
    uint64_t begin = 0;
    if (const Allocation* const one = find(address, 1, &begin)) one->bytes[address - begin] ^= std::byte{8};
  }
  if (const auto slow = world().slow.find(call); slow != world().slow.end()) {
    const std::chrono::microseconds duration(slow->second);
    lock.unlock();
    std::this_thread::sleep_for(duration);
    lock.lock();
  }
  if (counted_calls != nullptr) ++*counted_calls;
  if (world().blocked.contains(call)) {
    ++world().waiting;
    world().let_go.wait(lock, [&] { return !world().blocked.contains(call); });
    --world().waiting;
  }
  const unsigned before = world().calls[call]++;
  const auto failure = world().failures.find(call);
  if (failure == world().failures.end()) return ok;
  return before >= failure->second.after && before < failure->second.until ? failure->second.status : ok;
}
inline int enter_here(const char* call) {
  const int status = enter(call);
  if (status != ok) return status;
  if (stack.empty()) return invalid_context;
  return stack.back()->lost ? uncorrectable : ok;
}

inline Stream* stream_of(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number <= 2) {  // the default stream, and the legacy and per-thread ones by their numbers
    std::lock_guard lock(world().mutex);
    auto& legacy = world().legacy[stack.empty() ? 0 : stack.back()->device];
    if (!legacy) legacy = std::make_unique<Stream>(stack.empty() ? 0 : stack.back()->device);
    return legacy.get();
  }
  std::lock_guard lock(world().mutex);
  for (const auto& one : world().streams) {
    if (one.get() == handle) return one.get();
  }
  return nullptr;
}

// Of each adjacent allocation its part.
inline bool each_part(uint64_t address, size_t size, int device, const std::function<void(std::byte*, size_t)>& use) {
  std::lock_guard lock(world().mutex);
  while (size > 0) {
    uint64_t begin = 0;
    Allocation* one = find(address, 1, &begin);
    if (one == nullptr || !one->accessible || (device >= 0 && one->device != device)) return false;
    const size_t part = std::min<uint64_t>(size, begin + one->size - address);
    copying = true;
    use(one->bytes + (address - begin), part);
    copying = false;
    address += part;
    size -= part;
  }
  return true;
}

// What a copy of that name has brought to the host, or to a device.
inline void spoil(const char* call, std::span<std::byte> bytes) {
  if (!bytes.empty() && world().wrong == call) bytes[bytes.size() / 2] ^= std::byte{8};
}
inline void spoil_device(const char* call, uint64_t address, size_t size) {
  if (size == 0 || world().wrong != call) return;
  each_part(address + size / 2, 1, -1, [](std::byte* byte, size_t) { *byte ^= std::byte{8}; });
}

}  // namespace cuda_double
