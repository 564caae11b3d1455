// The load of rivals.py: the same rows on a mounted file system and on the native door.
// usage: rivals_load WAY ROW PLACE SECONDS LARGE FILES CHECKPOINT
//   WAY         direct (O_DIRECT; small files: fsync), buffered: files in PLACE; verbs, tcp: objects of bucket PLACE
//   ROW         prepare, random, sequential_1m, sequential_16m, create, list, read, values, checkpoint; for objects
//   also
//               sequential_1m_ahead2, sequential_16m_ahead4 and their like, with so many reads in flight
//   LARGE, CHECKPOINT: bytes of the object that is read, and of the one that is written; FILES: how many small ones
// Prints "ready", waits for a line, works, and prints a JSON line. Bytes that were read are checked by their first
// word.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rivals_client.h"

namespace {

using rivals::fail;
using rivals::must;

using Clock = std::chrono::steady_clock;

constexpr unsigned callers = 16;
constexpr size_t small = 4096, piece = 16u << 20, batch = 256, page = 1000;

void must(bool holds, const std::string& what) {
  if (!holds) fail(what + ": " + std::strerror(errno));
}

// Every 4 KiB begin with their number.
void fill(std::byte* data, size_t size, uint64_t first) {
  for (size_t at = 0; at < size; at += small) {
    const uint64_t number = first + at / small;
    std::memset(data + at, static_cast<int>(number % 251), small);
    std::memcpy(data + at, &number, sizeof number);
  }
}

void check(const std::byte* data, uint64_t number) {
  uint64_t found = 0;
  std::memcpy(&found, data, sizeof found);
  if (found != number) fail("wrong bytes: " + std::to_string(found) + " instead of " + std::to_string(number));
}

std::string folder_of(unsigned caller) { return "d" + std::to_string(10 + caller); }
std::string name_of(uint64_t number) { return "f" + std::to_string(10'000'000 + number); }

// A caller's share of the small files.
struct Share {
  unsigned caller;
  uint64_t first, count;
};

class Side {
 public:
  virtual ~Side() = default;
  virtual void reserve(size_t to_write) = 0;  // memory for write(), filled before the time begins
  virtual void write(const std::string& name) = 0;
  virtual void open() = 0;  // the large one, for read()
  virtual void begin_callers() {
  }  // connections and memory of all callers, as a mount has its own before the time begins
  virtual const std::byte* read(uint64_t offset, size_t size) = 0;
  // Memory to read the large one in order, `size` bytes a read, with `depth` of these in flight.
  virtual void read_ahead(unsigned depth, size_t size, uint64_t large) = 0;
  virtual const std::byte* read_next() = 0;  // the next of them; valid until the next call
  virtual void create(const Share& share) = 0;
  virtual uint64_t list(const Share& share) = 0;
  virtual uint64_t read_all(const Share& share) = 0;
  virtual uint64_t values(const Share& share) = 0;  // lists and reads, the names unknown before
};

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<std::byte, Free>;

Memory aligned(size_t size) { return Memory(static_cast<std::byte*>(std::aligned_alloc(4096, size))); }

class Files : public Side {
 public:
  Files(std::string root, bool direct) : root_(std::move(root)), flags_(direct ? O_DIRECT : 0) {}

  void reserve(size_t to_write) override {
    size_ = to_write;
    memory_ = aligned(to_write);
    fill(memory_.get(), to_write, 0);
  }

  void write(const std::string& name) override {
    const int file = ::open((root_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | flags_, 0644);
    must(file >= 0, name);
    for (size_t at = 0; at < size_;) {
      const ssize_t wrote = ::write(file, memory_.get() + at, std::min(piece, size_ - at));
      must(wrote > 0, "write");
      at += static_cast<size_t>(wrote);
    }
    must(fsync(file) == 0 && close(file) == 0, "fsync");
  }

  void open() override {
    memory_ = aligned(piece);
    std::memset(memory_.get(), 0, piece);
    file_ = ::open((root_ + "/large").c_str(), O_RDONLY | flags_);
    must(file_ >= 0, "large");
  }

  const std::byte* read(uint64_t offset, size_t size) override {
    for (size_t at = 0; at < size;) {
      const ssize_t got = pread(file_, memory_.get() + at, size - at, static_cast<off_t>(offset + at));
      must(got > 0, "pread");
      at += static_cast<size_t>(got);
    }
    return memory_.get();
  }

  void read_ahead(unsigned, size_t, uint64_t) override { fail("files are read ahead by the kernel"); }
  const std::byte* read_next() override { return nullptr; }

  void create(const Share& share) override {
    const std::string folder = path(share);
    must(mkdir(folder.c_str(), 0755) == 0, folder);
    const Memory bytes = aligned(small);
    for (uint64_t number = share.first; number < share.first + share.count; ++number) {
      fill(bytes.get(), small, number);
      const int file = ::open((folder + "/" + name_of(number)).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0644);
      must(file >= 0, "create");
      must(::write(file, bytes.get(), small) == ssize_t{small}, "write of a small file");
      must((flags_ == 0 || fsync(file) == 0) && close(file) == 0, "fsync of a small file");
    }
  }

  uint64_t list(const Share& share) override {
    uint64_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path(share))) found += entry.file_size() == small;
    return found;
  }

  uint64_t read_all(const Share& share) override {
    for (uint64_t number = share.first; number < share.first + share.count; ++number)
      read_small(path(share) + "/" + name_of(number), number);
    return share.count;
  }

  uint64_t values(const Share& share) override {
    uint64_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(path(share)))
      read_small(entry.path(), std::stoull(entry.path().filename().string().substr(1)) - 10'000'000), ++found;
    return found;
  }

 private:
  std::string path(const Share& share) const { return root_ + "/" + folder_of(share.caller); }

  static void read_small(const std::string& name, uint64_t number) {
    alignas(8) std::byte bytes[small];
    const int file = ::open(name.c_str(), O_RDONLY);
    must(file >= 0, name);
    must(::read(file, bytes, small) == ssize_t{small} && close(file) == 0, name);
    check(bytes, number);
  }

  std::string root_;
  int flags_, file_ = -1;
  size_t size_ = 0;
  Memory memory_;
};

class Objects : public Side {
 public:
  Objects(std::string bucket, const std::string& provider)
      : bucket_(std::move(bucket)), client_(rivals::connect(provider)) {}

  void reserve(size_t to_write) override {
    (void)client_.make_bucket(bucket_);  // it may be there
    memory_ = must(client_.allocate(to_write), "allocate");
    fill(memory_.data(), to_write, 0);
  }

  void write(const std::string& name) override { must(client_.put(bucket_, name, memory_), "put"); }

  void open() override { memory_ = must(client_.allocate(piece), "allocate"); }

  void begin_callers() override {
    (void)client_.make_bucket(bucket_);
    std::vector<std::thread> threads;
    for (auto& window : windows_) {
      window = must(client_.allocate(page * small), "allocate");
      threads.emplace_back([this] { (void)client_.head(bucket_, "large"); });  // there or not: it has connected
    }
    for (auto& thread : threads) thread.join();
  }

  const std::byte* read(uint64_t offset, size_t size) override {
    const verbena::GetOptions options{.range = verbena::Range{offset, size}};
    const auto got = client_.get(bucket_, "large", memory_.slice(0, size), options);
    if (must(got, "get").bytes != size) fail("a short read");
    return memory_.data();
  }

  void read_ahead(unsigned depth, size_t size, uint64_t large) override {
    ahead_ = std::make_unique<rivals::ReadAhead>(client_, bucket_, depth, size, large);
  }

  const std::byte* read_next() override { return ahead_->next().data(); }

  void create(const Share& share) override {
    const verbena::Buffer& window = windows_[share.caller];
    each_batch(share, [&](uint64_t first, const auto& items, auto results) {
      fill(window.data(), items.size() * small, first);
      must(client_.put_many(items, std::span(&window, 1), results), "put_many");
    });
  }

  uint64_t list(const Share& share) override {
    uint64_t found = 0;
    const auto visit = [&](const verbena::ObjectInfo& info) { return found += info.size == small, true; };
    if (const auto done = client_.for_each(bucket_, folder_of(share.caller) + "/", visit); !done)
      fail("list: " + done.error().message);
    return found;
  }

  uint64_t read_all(const Share& share) override {
    const verbena::Buffer& window = windows_[share.caller];
    each_batch(share, [&](uint64_t first, const auto& items, auto results) {
      must(client_.get_many(items, std::span(&window, 1), results), "get_many");
      for (size_t i = 0; i < items.size(); ++i) check(window.data() + i * small, first + i);
    });
    return share.count;
  }

  uint64_t values(const Share& share) override {
    const verbena::Buffer& into = windows_[share.caller];
    verbena::ValueOptions options{.prefix = folder_of(share.caller) + "/"};
    uint64_t found = 0;
    for (bool more = true; more;) {
      const verbena::ValuePage page = must(client_.list_values(bucket_, into, options), "list_values");
      for (const auto& value : page.values) {
        if (!value.offset) fail("an object without its bytes");
        check(into.data() + *value.offset, share.first + found++);
      }
      more = page.truncated;
      if (more) options.after = page.values.back().info.key;
    }
    return found;
  }

 private:
  template <class Call>
  void each_batch(const Share& share, const Call& call) const {
    const std::string folder = folder_of(share.caller) + "/";
    std::vector<verbena::BatchResult> results(batch);
    for (uint64_t done = 0; done < share.count; done += batch) {
      const size_t count = std::min<uint64_t>(batch, share.count - done);
      std::vector<std::string> keys;
      for (size_t i = 0; i < count; ++i) keys.push_back(folder + name_of(share.first + done + i));
      std::vector<verbena::BatchItem> items;
      for (size_t i = 0; i < count; ++i)
        items.push_back({.bucket = bucket_, .key = keys[i], .offset = i * small, .size = small});
      call(share.first + done, items, std::span(results).first(count));
      for (size_t i = 0; i < count; ++i)
        if (results[i].error) fail("of a batch: " + std::string(to_string(*results[i].error)));
    }
  }

  std::string bucket_;
  verbena::Client client_;
  verbena::Buffer memory_;
  std::array<verbena::Buffer, callers> windows_;
  std::unique_ptr<rivals::ReadAhead> ahead_;
};

struct Work {
  std::string row;
  double seconds;
  uint64_t large, files, checkpoint;
  bool cached;  // the client keeps what it has read

  bool reads_large() const { return row == "random" || row.starts_with("sequential"); }

  size_t read_size() const { return row == "random" ? small : row.starts_with("sequential_1m") ? 1u << 20 : piece; }

  // Of a row of sequential reads: how many are in flight.
  unsigned depth() const {
    const size_t at = row.find("_ahead");
    return at == std::string::npos ? 1 : static_cast<unsigned>(std::stoul(row.substr(at + 6)));
  }
};

struct Done {
  uint64_t operations = 0, bytes = 0;
  std::vector<double> took_us = {};
};

// Reads of the large one by one caller: random ones until the time is over, sequential ones at least to its end, and
// once only where the client would have it the second time.
Done read_large(Side& side, const Work& work, size_t size, bool random) {
  Done done;
  uint64_t state = 1;
  const auto began = Clock::now();
  const uint64_t pass = random ? 1 : work.large / size;
  const bool ahead = work.depth() > 1;
  for (auto last = began;
       done.operations % pass != 0 || (std::chrono::duration<double>(last - began).count() < work.seconds &&
                                       !(work.cached && done.operations != 0));) {
    state = state * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX generator
    const uint64_t offset = (random ? (state >> 20) : done.operations) % (work.large / size) * size;
    const auto before = Clock::now();
    const std::byte* bytes = ahead ? side.read_next() : side.read(offset, size);
    last = Clock::now();
    check(bytes, offset / small);
    done.took_us.push_back(std::chrono::duration<double, std::micro>(last - before).count());
    ++done.operations, done.bytes += size;
  }
  return done;
}

template <class Call>
Done by_all_callers(const Work& work, const Call& call) {
  std::vector<std::thread> threads;
  const uint64_t each = (work.files + callers - 1) / callers;
  for (unsigned caller = 0; caller < callers; ++caller) {
    const uint64_t first = std::min(work.files, caller * each), count = std::min(each, work.files - first);
    threads.emplace_back([&call, share = Share{caller, first, count}] {
      if (call(share) != share.count) fail("the number of files is wrong");
    });
  }
  for (auto& thread : threads) thread.join();
  return {.operations = work.files, .bytes = work.files * small};
}

Done run(Side& side, const Work& work) {
  const std::string& row = work.row;
  if (work.reads_large()) return read_large(side, work, work.read_size(), row == "random");
  if (row == "create") return by_all_callers(work, [&](const Share& s) { return side.create(s), s.count; });
  if (row == "list") return by_all_callers(work, [&](const Share& s) { return side.list(s); });
  if (row == "read") return by_all_callers(work, [&](const Share& s) { return side.read_all(s); });
  if (row == "values") return by_all_callers(work, [&](const Share& s) { return side.values(s); });
  side.write(row == "prepare" ? "large" : row);
  return {.operations = 1, .bytes = row == "prepare" ? work.large : work.checkpoint};
}

double cpu_s() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) return 2;
  const std::string way = argv[1];
  const Work work{.row = argv[2],
                  .seconds = std::strtod(argv[4], nullptr),
                  .large = std::strtoull(argv[5], nullptr, 10),
                  .files = std::strtoull(argv[6], nullptr, 10),
                  .checkpoint = std::strtoull(argv[7], nullptr, 10),
                  .cached = way == "buffered"};
  std::unique_ptr<Side> side;
  if (way == "direct" || way == "buffered")
    side = std::make_unique<Files>(argv[3], way == "direct");
  else
    side = std::make_unique<Objects>(argv[3], way);
  if (work.row == "prepare" || work.row == "checkpoint")
    side->reserve(work.row == "prepare" ? work.large : work.checkpoint);
  if (work.reads_large()) {
    side->open();
    side->read(0, small);
    if (work.depth() > 1) side->read_ahead(work.depth(), work.read_size(), work.large);
  } else if (work.row != "prepare" && work.row != "checkpoint") {
    side->begin_callers();
  }
  std::puts("ready");
  std::fflush(stdout);
  if (std::getchar() == EOF) return 1;
  const double cpu_before = cpu_s();
  const auto began = Clock::now();
  Done done = run(*side, work);
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count(), cpu = cpu_s() - cpu_before;
  std::ranges::sort(done.took_us);
  std::printf("{\"seconds\": %.6f, \"operations\": %llu, \"bytes\": %llu, \"p50_us\": %.3f, \"client_cpu_s\": %.6f}\n",
              seconds, static_cast<unsigned long long>(done.operations), static_cast<unsigned long long>(done.bytes),
              done.took_us.empty() ? 0 : done.took_us[done.took_us.size() / 2], cpu);
  std::fflush(stdout);
  return std::getchar() == EOF ? 0 : 1;  // the server's time is read before this process ends
}
